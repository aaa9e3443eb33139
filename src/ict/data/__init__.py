"""Datasets by name, and what makes a training set of arrays: labels, splits, scaling, augmentation, downloads.

A reader of a dataset is called as reader(folder, seed, **options) and returns a `Dataset`. May import `base`,
`contract` and `ops`.
"""

from ict.base.registry import Entry, Registry

DATASETS = Registry(
    "dataset",
    __name__,
    {
        "moons": Entry("moons:moons", "two interleaved half circles, as in the paper's figure"),
        "digits": Entry("digits:digits", "scikit-learn's 8x8 scans of handwritten digits; needs no download"),
        "cifar10": Entry("cifar10:cifar10", "CIFAR-10 from its official binary or Python batches"),
        "shards": Entry("shards:shards", "a folder of arrays that 'ict shard' wrote, for data larger than memory"),
        "svhn": Entry("svhn:svhn", "Street View House Numbers from the official .mat files"),
    },
)
