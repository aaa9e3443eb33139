"""From stored examples to network inputs."""

from dataclasses import dataclass

from torch import Tensor

from ict.contract import Draws
from ict.data.augment import mirrored, shift_and_flip
from ict.data.normalize import Whiten
from ict.engine.settings import Inputs


@dataclass(frozen=True)
class InputTransform:
    """Turns stored examples into network inputs; with `rng`, also shifts, flips and adds noise at random."""

    inputs: Inputs
    whiten: Whiten

    def __call__(self, x: Tensor, rng: Draws | None = None) -> Tensor:
        out: Tensor = self.whiten(x) if rng is None else self._random(x, rng, self.inputs.flip)
        return out

    def copies(self, x: Tensor, n: int, rng: Draws) -> tuple[Tensor, ...]:
        """n copies of the same examples, each with its own augmentation; only flips may be shared."""
        flip: bool | Tensor = self.inputs.flip
        if flip and self.inputs.shared_flip and x.dim() == 4:
            flip = mirrored(len(x), rng)
        return tuple(self._random(x, rng, flip) for _ in range(n))

    def _random(self, x: Tensor, rng: Draws, flip: bool | Tensor) -> Tensor:
        if self.inputs.augment == "pixels":
            x = self.whiten(self._moved(x, rng, flip))
        else:
            x = self._moved(self.whiten(x), rng, flip)
        return x + self.inputs.noise * rng.normal_like(x) if self.inputs.noise else x

    def _moved(self, x: Tensor, rng: Draws, flip: bool | Tensor) -> Tensor:
        if x.dim() != 4:
            return x
        return shift_and_flip(x, rng, pad=self.inputs.pad, reflect=self.inputs.reflect, flip=flip)
