"""An ICT update in the plain style of 2019, to measure the fast path against on the same machine.

    python benchmarks/reference.py --out results/h200/reference.json [--workers 2] [--device cuda]
    OMP_NUM_THREADS=1 python benchmarks/reference.py --device cpu --batch 4 --updates 2 --blocks 2

Pillow flips and crops one image at a time in the worker processes of two DataLoaders, and NumPy standardizes; ZCA of
both batches is a NumPy product in the main process; then come copies to the device, six eager forwards in float32
(no TF32), a Python loop for the teacher, and a loss that is read at every update. `ms` is an update from images to the
teacher, `step_ms` the same update on tensors that already lie on the device. Each is the median over blocks by the
host's clock, the device synchronized at the ends of a block, and is taken twice, to show the spread. Images, labels
and the ZCA matrix are made up. Workers start once, and labeled images are augmented afresh at every update.
"""

import argparse
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, Dataset, RandomSampler

from ict.experiment.provenance import provenance

N_CLASSES, N_LABELED, SIDE, PAD = 10, 4000, 32, 2
N_INPUTS = 3 * SIDE * SIDE
WHITE = np.float32(255)
MEAN, STD = np.array([[125.3, 123.0, 113.9], [63.0, 62.1, 66.7]], np.float32).reshape(2, 3, 1, 1) / WHITE
LR, DECAY, ALPHA, W_MAX, RAMP_EPOCHS, LR_EPOCHS, UPDATES_PER_EPOCH = 0.1, 0.999, 1.0, 100.0, 100, 450, 450


class Images(Dataset[tuple[NDArray[np.float32], int]]):
    def __init__(self, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
        self.pixels, self.labels = pixels, labels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, i: int) -> tuple[NDArray[np.float32], int]:
        image = Image.fromarray(self.pixels[i])
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        image = ImageOps.expand(image, border=PAD, fill=0)
        left, top = random.randint(0, 2 * PAD), random.randint(0, 2 * PAD)
        image = image.crop((left, top, left + SIDE, top + SIDE))
        x = np.asarray(image, np.float32).transpose(2, 0, 1) / WHITE
        return (x - MEAN) / STD, int(self.labels[i])


def batches(n_images: int, batch: int, workers: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Labeled images, their labels and unlabeled images, augmented and whitened, on the CPU; without end."""
    draws = np.random.default_rng(0)
    pixels = draws.integers(0, 256, (n_images, SIDE, SIDE, 3), np.uint8)
    labels = np.arange(n_images) % N_CLASSES
    zca_mean = draws.normal(scale=0.1, size=N_INPUTS).astype(np.float32)
    v = draws.normal(size=N_INPUTS).astype(np.float32)
    zca = np.eye(N_INPUTS, dtype=np.float32) - 2 * np.outer(v, v) / (v @ v)  # symmetric, as ZCA is, and orthogonal

    def whiten(x: Tensor) -> Tensor:
        flat: NDArray[np.float32] = x.numpy().reshape(len(x), N_INPUTS)
        return torch.from_numpy((flat - zca_mean) @ zca).view(x.shape)

    def load(images: Images) -> DataLoader[tuple[NDArray[np.float32], int]]:
        sampler = RandomSampler(images, replacement=True, num_samples=10**9)
        return DataLoader(images, batch, sampler=sampler, num_workers=workers)

    labeled, unlabeled = load(Images(pixels[:N_LABELED], labels[:N_LABELED])), load(Images(pixels, labels))
    for (x, y), (u, _) in zip(labeled, unlabeled, strict=True):
        yield whiten(x), y, whiten(u)


def conv(n_in: int, n_out: int, kernel: int, padding: int = 0) -> nn.Module:
    layer = weight_norm(nn.Conv2d(n_in, n_out, kernel, padding=padding))
    return nn.Sequential(layer, nn.BatchNorm2d(n_out), nn.LeakyReLU(0.1))


class CNN13(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block1 = nn.Sequential(conv(3, 128, 3, 1), conv(128, 128, 3, 1), conv(128, 128, 3, 1))
        self.block2 = nn.Sequential(conv(128, 256, 3, 1), conv(256, 256, 3, 1), conv(256, 256, 3, 1))
        self.block3 = nn.Sequential(conv(256, 512, 3), conv(512, 256, 1), conv(256, 128, 1))
        self.linear = weight_norm(nn.Linear(128, N_CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.block1(x), 2)
        x = F.max_pool2d(self.block2(x), 2)
        x = F.avg_pool2d(self.block3(x), 6).flatten(1)
        return self.linear(x)  # type: ignore[no-any-return]


class Training:
    def __init__(self, device: torch.device) -> None:
        self.device, self.n_updates = device, 0
        self.student, self.teacher = CNN13().to(device).train(), CNN13().to(device).train()
        self.teacher.requires_grad_(False)
        parameters = self.student.parameters()  # stepped one after the other, as then: foreach=False
        self.optimizer = torch.optim.SGD(parameters, LR, momentum=0.9, weight_decay=1e-4, foreach=False)

    def update(self, x: Tensor, y: Tensor, u: Tensor) -> float:
        epoch = self.n_updates / UPDATES_PER_EPOCH
        for group in self.optimizer.param_groups:
            group["lr"] = LR * 0.5 * (math.cos(math.pi * epoch / LR_EPOCHS) + 1)
        w = W_MAX * math.exp(-5 * (1 - min(epoch / RAMP_EPOCHS, 1)) ** 2)

        share, other = float(np.random.beta(ALPHA, ALPHA)), torch.randperm(len(x)).to(self.device)
        logits = self.student(share * x + (1 - share) * x[other])
        loss = share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y[other])

        target = self.teacher(u)
        self.teacher(x)  # this one and the next two only reach the running statistics
        self.student(x)
        self.student(u)

        share, other = float(np.random.beta(ALPHA, ALPHA)), torch.randperm(len(u)).to(self.device)
        target = share * target + (1 - share) * target[other]
        logits = self.student(share * u + (1 - share) * u[other])
        loss = loss + w * F.mse_loss(F.softmax(logits, 1), F.softmax(target, 1))

        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.n_updates += 1
        keep = min(1 - 1 / (self.n_updates + 1), DECAY)
        for theirs, ours in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            theirs.data.mul_(keep).add_(ours.data, alpha=1 - keep)
        return float(loss.item())


def block(update: Callable[[], object], updates: int, device: torch.device) -> float:
    """Milliseconds an update."""
    began = time.perf_counter()
    for _ in range(updates):
        update()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - began) / updates


def measure(device: torch.device, batch: int, workers: int, updates: int, blocks: int) -> dict[str, Any]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    training, stream = Training(device), batches(50_000, batch, workers)
    losses: list[float] = []

    def moved() -> list[Tensor]:
        return [part.to(device) for part in next(stream)]

    def twice(update: Callable[[], object], warm_up: int, name: str) -> dict[str, float]:
        block(update, warm_up, device)
        first, again = (statistics.median(block(update, updates, device) for _ in range(blocks)) for _ in range(2))
        return {name: round(first, 3), f"{name}_again": round(again, 3)}

    # the warm-up uses up what the workers prepared ahead
    result = twice(lambda: losses.append(training.update(*moved())), 5 + 2 * workers, "ms")
    there = moved()
    time.sleep(1)  # the workers fill their queues and rest
    result |= twice(lambda: losses.append(training.update(*there)), 5, "step_ms")
    memory = round(torch.cuda.max_memory_allocated() / 1e9, 2) if device.type == "cuda" else None
    return {**result, "memory_gb": memory, "last_loss": losses[-1], "finite": all(map(math.isfinite, losses))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--updates", type=int, default=40, help="in a block")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="processes of each of the two loaders")
    parser.add_argument("--batch", type=int, default=100, help="labeled images, and as many unlabeled ones")
    parser.add_argument("--device", default="cuda")
    settings = vars(parser.parse_args())
    out, device = settings.pop("out"), torch.device(settings.pop("device"))
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    numbers = measure(device, **settings)
    content = {"benchmark": "ICT update in the style of 2019", **numbers, **settings, "cpus": os.cpu_count()}
    text = json.dumps(content | provenance(device), indent=2)
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


if __name__ == "__main__":
    main()
