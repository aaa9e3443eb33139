"""Interpolation Consistency Training on one page: torch alone, read it from top to bottom.

It trains on 8x8 scans of handwritten digits with ten labels a class. The package `ict` does the same work with
checkpoints, recipes and any network; its first steps equal this file's bit for bit (tests/test_from_scratch.py).
This is the paper's Algorithm 1 as printed; in its experiments the labeled examples are mixed as well.
"""

import csv
import gzip
from copy import deepcopy
from importlib.util import find_spec
from math import cos, exp, pi
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

STEPS, LABELED_BATCH, UNLABELED_BATCH, PAD = 3000, 32, 100, 1
LR, MOMENTUM, WEIGHT_DECAY = 0.2, 0.9, 1e-3
ALPHA, W_MAX, EMA_DECAY = 1.0, 100.0, 0.98
INIT, ROWS, DRAWS, LABELED, UNLABELED = 1, 4, 5, 0, 1  # what a random key is for


def fold(seed: int, *data: int) -> int:
    """Mix integers into a key (splitmix64): each draw depends on the seed, its use and the step, on nothing else."""
    key, mask = 0, 2**64 - 1
    for value in (seed, *data):
        key = (key + value + 0x9E3779B97F4A7C15) & mask
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & mask
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & mask
        key ^= key >> 31
    return key >> 1


class ConvNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        first = [*self.conv(1, width), *self.conv(width, width), nn.MaxPool2d(2)]
        second = [*self.conv(width, 2 * width), *self.conv(2 * width, 2 * width)]
        self.features, self.head = nn.Sequential(*first, *second), nn.Linear(2 * width, 10)

    def conv(self, n_in: int, n_out: int) -> tuple[nn.Module, ...]:
        conv = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
        conv.weight.data = torch.empty_like(conv.weight, memory_format=torch.channels_last).copy_(conv.weight)  # faster
        return conv, nn.BatchNorm2d(n_out), nn.LeakyReLU(0.1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x).mean((2, 3)))
        return logits


def batch_rows(rows: Tensor, size: int, seed: int, stream: int, step: int) -> Tensor:
    """The examples of a step: every pass over `rows` is a fresh permutation, what does not fill a batch is dropped."""
    epoch, index = divmod(step, len(rows) // size)
    generator = Generator().manual_seed(fold(fold(seed, ROWS, stream), epoch, 0))
    return rows[torch.randperm(len(rows), generator=generator)][index * size : (index + 1) * size]


def random_shift(images: Tensor, rng: Generator) -> Tensor:
    """Move each image by up to PAD pixels each way; what comes in is black."""
    n, _, height, width = images.shape
    rows = torch.arange(height) + torch.randint(2 * PAD + 1, (n,), generator=rng)[:, None]
    columns = torch.arange(width) + torch.randint(2 * PAD + 1, (n,), generator=rng)[:, None]
    padded = F.pad(images, (PAD, PAD, PAD, PAD))[:, 0]
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]][:, None]


def beta(alpha: float, rng: Generator) -> Tensor:
    """Beta(alpha, alpha) = G1 / (G1 + G2) of two Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha), without underflow."""
    gammas = torch._standard_gamma(torch.full((2,), alpha + 1, dtype=torch.float64), generator=rng)
    logs = gammas.log() + torch.rand(2, dtype=torch.float64, generator=rng).log() / alpha
    return torch.sigmoid(logs[0] - logs[1]).float()


def mix(lam: Tensor, a: Tensor) -> Tensor:
    """Each example of a shuffled batch interpolated with its neighbour."""
    return lam * a + (1 - lam) * a.roll(1, dims=0)


class ICT:
    """A student, its moving average, and the update that trains them."""

    def __init__(self, images: Tensor, labels: Tensor, labeled: Tensor, unlabeled: Tensor, seed: int) -> None:
        self.images, self.labels, self.labeled, self.unlabeled, self.seed = images, labels, labeled, unlabeled, seed
        pixels = images.double() / 255
        self.mean, self.std = pixels.mean().float(), pixels.std(correction=0).float()
        torch.default_generator.manual_seed(fold(seed, INIT))
        self.student = ConvNet()
        self.teacher = deepcopy(self.student).requires_grad_(False)
        parameters = self.student.parameters()
        self.optimizer = torch.optim.SGD(parameters, LR, MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True)

    def standardize(self, images: Tensor) -> Tensor:
        return (images.float() / 255 - self.mean) / self.std

    def update(self, step: int) -> Tensor:
        rng = Generator().manual_seed(fold(self.seed, DRAWS, step))
        rows_x = batch_rows(self.labeled, LABELED_BATCH, self.seed, LABELED, step)
        rows_u = batch_rows(self.unlabeled, UNLABELED_BATCH, self.seed, UNLABELED, step)
        x, y = self.standardize(random_shift(self.images[rows_x], rng)), F.one_hot(self.labels[rows_x], 10).float()
        u = self.standardize(random_shift(self.images[rows_u], rng))
        lam = beta(ALPHA, rng)

        with torch.no_grad():  # the teacher's predictions at two points, interpolated, ...
            fake_labels = mix(lam, self.teacher(u).softmax(1))
        logits_x = self.student(x)
        logits_u = self.student(mix(lam, u))  # ... are what the student shall say at the interpolated point
        supervised = F.cross_entropy(logits_x, y)
        consistency = F.mse_loss(logits_u.softmax(1), fake_labels)
        w = W_MAX * exp(-5 * (1 - min(step / STEPS / 0.25, 1.0)) ** 2)
        loss = supervised + w * consistency

        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = LR * (0.5 * (cos(pi * (step / STEPS / 1.125)) + 1))
        self.optimizer.step()
        decay = min(1 - 1 / (step + 2), EMA_DECAY)
        with torch.no_grad():
            for average, value in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                average.lerp_(value, 1 - decay)
        return loss.detach()


def load_digits() -> tuple[Tensor, Tensor]:
    """1797 images and labels, from the data file inside scikit-learn's package, which need not be imported."""
    spec = find_spec("sklearn")
    assert spec is not None and spec.origin is not None, "pip install scikit-learn: the images are inside it"
    with gzip.open(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        table = torch.tensor([[float(value) for value in row] for row in csv.reader(file)])
    return table[:, :-1].to(torch.uint8).reshape(-1, 1, 8, 8), table[:, -1].long()


def main() -> None:
    images, labels = load_digits()
    order = torch.randperm(len(labels), generator=Generator().manual_seed(0))
    test, train = order[:539], order[539:]
    labeled = torch.cat([train[labels[train] == c][:10] for c in range(10)])
    job = ICT(images, labels, labeled, train, seed=0)
    for step in range(STEPS):
        loss = job.update(step)
        if step % 500 == 499:
            job.teacher.eval()
            wrong = job.teacher(job.standardize(images[test])).argmax(1) != labels[test]
            job.teacher.train()
            print(f"step {step + 1:4}  loss {loss:.3f}  test error {100 * wrong.float().mean():.2f} %")


if __name__ == "__main__":
    main()
