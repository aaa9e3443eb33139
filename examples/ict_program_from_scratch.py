"""ICT as the authors' program does it, on one page: torch alone, read it from top to bottom.

`ict_from_scratch.py` follows the paper's text, this file the described behaviour of the program. The package has it as
the recipe `cifar10-4000/ict-program`; its steps equal this file's bit for bit (tests/test_from_scratch.py). Both lack
initial weights of the teacher's own, an epoch's short last batch and the truncation of the unlabeled batch to a short
labeled one, and both mix an image with its neighbor in the shuffled batch, where the program draws a permutation.
"""

from copy import deepcopy
from math import cos, exp, pi

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

LR, MOMENTUM, WEIGHT_DECAY, PAD, ZCA_EPSILON = 0.1, 0.9, 1e-4, 2, 1e-6
ALPHA, W_MAX, EMA_DECAY = 1.0, 100.0, 0.999
INIT, ROWS, DRAWS, REPEATED, LABELED, UNLABELED = 1, 4, 5, 7, 0, 1  # what a random key is for


def fold(seed: int, *data: int) -> int:
    """Mix integers into a key (splitmix64): each draw depends on the seed, its use and the step, on nothing else."""
    key, mask = 0, 2**64 - 1
    for value in (seed, *data):
        key = (key + value + 0x9E3779B97F4A7C15) & mask
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & mask
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & mask
        key ^= key >> 31
    return key >> 1


class CNN13(nn.Module):
    """Nine convolutions and a linear layer, each weight-normalized; each convolution has batch norm as well."""

    def __init__(self) -> None:
        super().__init__()
        first = [*self.conv(3, 128), *self.conv(128, 128), *self.conv(128, 128), nn.MaxPool2d(2)]
        second = [*self.conv(128, 256), *self.conv(256, 256), *self.conv(256, 256), nn.MaxPool2d(2)]
        third = [*self.conv(256, 512, 3, 0), *self.conv(512, 256, 1, 0), *self.conv(256, 128, 1, 0)]
        self.features, self.head = nn.Sequential(*first, *second, *third), weight_norm(nn.Linear(128, 10))

    def conv(self, n_in: int, n_out: int, kernel: int = 3, padding: int = 1) -> tuple[nn.Module, ...]:
        layer = weight_norm(nn.Conv2d(n_in, n_out, kernel, padding=padding))
        return layer, nn.BatchNorm2d(n_out), nn.LeakyReLU(0.1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x).mean((2, 3)))
        return logits


def whitening(images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and deviation of each channel; center and matrix of ZCA, fitted in float64 to the standardized images."""
    pixels = images.double() / 255
    mean, std = (m.float()[:, None, None] for m in (pixels.mean((0, 2, 3)), pixels.std((0, 2, 3), correction=0)))
    flat = ((pixels - mean.double()) / std.double()).flatten(1)
    center = flat.mean(0)
    variances, directions = torch.linalg.eigh((flat - center).T @ (flat - center) / len(flat))
    variances = variances.clamp(min=torch.finfo(torch.float64).eps * float(variances[-1]))
    matrix = (directions * (variances.rsqrt() + ZCA_EPSILON)) @ directions.T  # epsilon outside the root
    return mean, std, center.float(), matrix.float()


def shift_and_flip(images: Tensor, rng: Generator) -> Tensor:
    """Crop at a random place after padding the pixels with black; mirror each image with probability one half."""
    n, channels, height, width = images.shape
    rows = torch.arange(height) + torch.randint(2 * PAD + 1, (n,), generator=rng)[:, None]
    columns = torch.arange(width) + torch.randint(2 * PAD + 1, (n,), generator=rng)[:, None]
    columns = torch.where(torch.rand(n, generator=rng)[:, None] < 0.5, columns.flip(1), columns)
    padded = F.pad(images, (PAD, PAD, PAD, PAD))
    images, channel = torch.arange(n)[:, None, None, None], torch.arange(channels)[None, :, None, None]
    return padded[images, channel, rows[:, None, :, None], columns[:, None, None, :]]


def beta(alpha: float, rng: Generator) -> Tensor:
    """Beta(alpha, alpha) = G1 / (G1 + G2) of two Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha), without underflow."""
    gammas = torch._standard_gamma(torch.full((2,), alpha + 1, dtype=torch.float64), generator=rng)
    logs = gammas.log() + torch.rand(2, dtype=torch.float64, generator=rng).log() / alpha
    return torch.sigmoid(logs[0] - logs[1]).float()


def mix(lam: Tensor, a: Tensor) -> Tensor:
    """Each example of a shuffled batch interpolated with its neighbor."""
    return lam * a + (1 - lam) * a.roll(1, dims=0)


class Program:
    """A student, its moving average, and the update that trains them."""

    batch, steps = 100, 180_000  # fewer for a trial

    def __init__(self, images: Tensor, labels: Tensor, labeled: Tensor, unlabeled: Tensor, seed: int) -> None:
        self.images, self.labels, self.labeled, self.unlabeled, self.seed = images, labels, labeled, unlabeled, seed
        self.mean, self.std, self.center, self.matrix = whitening(images)
        torch.default_generator.manual_seed(fold(seed, INIT))
        self.student = CNN13()
        self.teacher = deepcopy(self.student).requires_grad_(False)  # stays in train mode, with statistics of its own
        self.optimizer = torch.optim.SGD(self.student.parameters(), LR, MOMENTUM, weight_decay=WEIGHT_DECAY)

    def whitened(self, images: Tensor) -> Tensor:
        x = (images.float() / 255 - self.mean) / self.std
        return ((x.flatten(1) - self.center) @ self.matrix).reshape(x.shape)

    def rows(self, of: Tensor, stream: int, epoch: int, index: int) -> Tensor:
        """A batch of a permutation that is fresh every epoch; what does not fill a batch is dropped."""
        generator = Generator().manual_seed(fold(fold(self.seed, ROWS, stream), epoch, 0))
        return of[torch.randperm(len(of), generator=generator)][index * self.batch : (index + 1) * self.batch]

    def update(self, step: int) -> Tensor:
        rng = Generator().manual_seed(fold(self.seed, DRAWS, step))
        epoch, index = divmod(step, len(self.unlabeled) // self.batch)  # an epoch is a pass over the unlabeled images
        again = index % (len(self.labeled) // self.batch)  # in which labeled batches repeat, crops included
        crops = Generator().manual_seed(fold(self.seed, REPEATED, epoch, again))
        rows_x = self.rows(self.labeled, LABELED, epoch, again)
        rows_u = self.rows(self.unlabeled, UNLABELED, epoch, index)
        x, y = self.whitened(shift_and_flip(self.images[rows_x], crops)), F.one_hot(self.labels[rows_x], 10)
        u = self.whitened(shift_and_flip(self.images[rows_u], rng))
        lam_x, lam_u = beta(ALPHA, rng), beta(ALPHA, rng)
        logits_x = self.student(mix(lam_x, x))
        with torch.no_grad():
            fake_logits = mix(lam_u, self.teacher(u))  # interpolated before the softmax
            _ = self.teacher(x), self.student(x), self.student(u)  # for the log; they move batch norm's statistics
        logits_u = self.student(mix(lam_u, u))
        supervised = F.cross_entropy(logits_x, mix(lam_x, y.float()))
        consistency = F.mse_loss(logits_u.softmax(1), fake_logits.softmax(1))  # a mean over batch and classes
        w = W_MAX * exp(-5 * (1 - min(step / self.steps / 0.25, 1.0)) ** 2)  # from 0.7 % of its maximum
        loss = supervised + w * consistency
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = LR * (0.5 * (cos(pi * (step / self.steps / 1.125)) + 1))  # to 3 %
        self.optimizer.step()
        decay = min(1 - 1 / (step + 2), EMA_DECAY)  # at first the mean of all weights so far
        with torch.no_grad():
            for average, value in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                average.lerp_(value, 1 - decay)
        return loss.detach()


def main() -> None:
    """The first updates on made-up images, of which 40 have a label. On CIFAR-10 there are 180,000 updates."""
    generator, labels, rows = Generator().manual_seed(0), torch.arange(240) % 10, torch.arange(240)
    images = torch.randint(256, (240, 3, 12, 12), generator=generator, dtype=torch.uint8)
    job = Program(images, labels, rows[:40], rows, seed=0)
    job.batch, job.steps = 20, 12
    for step in range(job.steps):
        print(f"update {step + 1:2}  loss {job.update(step):.3f}")


if __name__ == "__main__":
    main()
