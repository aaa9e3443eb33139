"""Networks by name. A network is built as Network(shape, n_classes, **options) and returns logits.

May import `base` and `contract`.
"""

from ict.base.registry import Entry, Registry

NETWORKS = Registry(
    "network",
    __name__,
    {
        "mlp": Entry("mlp:MLP", "the perceptron of the two-moons figure: three hidden layers of 20"),
        "mlp-wide": Entry("mlp:WideMLP", "two hidden layers of 256 with batch norm, for feature vectors"),
        "mlp-norm": Entry(
            "mlp:NormMLP", "two hidden layers of 128 with layer norm, for feature vectors and few labels"
        ),
        "linear": Entry("mlp:Linear", "logistic regression: one linear layer, for feature vectors"),
        "convnet": Entry("convnet:ConvNet", "a small convolutional network for tiny images"),
        "cnn13": Entry("cnn13:CNN13", "the 13-layer network of the paper's first two tables"),
        "wrn-28-2": Entry("wrn:WideResNet", "Wide ResNet 28-2, the authors' variant or Oliver et al.'s"),
    },
)
