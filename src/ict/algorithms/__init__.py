"""Algorithms by name, one file each: a frozen dataclass with a `loss`. See `ict.contract`."""

from ict.registry import Entry, Registry

ALGORITHMS = Registry(
    "algorithm",
    __name__,
    {
        "supervised": Entry("supervised:Supervised", "cross-entropy on the labeled examples alone"),
        "mixup": Entry("mixup:Mixup", "supervised mixup (Zhang et al. 2018)"),
        "ict": Entry("ict:ICT", "Interpolation Consistency Training (Verma et al. 2019)"),
    },
)
