"""The hash of every recipe is the stored one, and an option that is declared later does not change it.

`python -m tests.test_recipe_hashes` adds new recipes to the file. It never changes a stored hash: runs are named by it.
"""

import json
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from ict.algorithms.ict import ICT
from ict.base.fields import Later
from ict.data.digits import digits
from ict.networks.convnet import ConvNet
from ict.recipes import RECIPES
from ict.recipes.recipe import change, from_dict

STORED = Path(__file__).with_name("recipe_hashes.json")


def hashes() -> dict[str, str]:
    return {name: recipe.resolved().hash for name, recipe in RECIPES.items()}


def test_every_recipe_has_its_stored_hash() -> None:
    assert hashes() == json.loads(STORED.read_text()), "add new recipes with: python -m tests.test_recipe_hashes"


@dataclass(frozen=True, kw_only=True)
class LongerICT(ICT):
    extra: Later[float] = 0.5


class LongerConvNet(ConvNet):
    def __init__(self, *args: Any, width: int = 32, dropout: float = 0.0, extra: Later[int | None] = None) -> None:
        super().__init__(*args, width=width, dropout=dropout)


def longer_digits(folder: Path | None, seed: int, *, test_fraction: float = 0.3, extra: Later[bool] = False) -> Any:
    return digits(folder, seed, test_fraction=test_fraction)


@pytest.mark.parametrize(
    ("place", "longer", "key", "other"),
    [
        ("ict.algorithms.ict.ICT", LongerICT, "algorithm.extra", "0.25"),
        ("ict.networks.convnet.ConvNet", LongerConvNet, "network.extra", "3"),
        ("ict.data.digits.digits", longer_digits, "dataset.extra", "yes"),
    ],
)
def test_a_later_option_of_a_component_changes_no_hash_at_its_default(
    place: str, longer: Any, key: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = RECIPES["digits-100/ict"].resolved()
    known = before.hash
    monkeypatch.setattr(place, longer)
    today = RECIPES["digits-100/ict"].resolved()
    section, _, name = key.partition(".")
    assert name in today.to_dict()[section] and name not in before.to_dict()[section]
    assert today.hash == from_dict(before.to_dict()).hash == known
    changed = change(today, [f"{key}={other}"])
    assert changed.hash != today.hash and from_dict(changed.to_dict()).hash == changed.hash


def test_an_unmarked_option_changes_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = RECIPES["digits-100/ict"].resolved().hash
    unmarked = make_dataclass("Unmarked", [("extra", float, 0.5)], bases=(ICT,), frozen=True, kw_only=True)
    monkeypatch.setattr("ict.algorithms.ict.ICT", unmarked)
    assert RECIPES["digits-100/ict"].resolved().hash != before


if __name__ == "__main__":
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    STORED.write_text(json.dumps(dict(sorted((hashes() | stored).items())), indent=0) + "\n")
