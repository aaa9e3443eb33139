"""`ict fit --suggest`: which examples to label first, before there is a model."""

from pathlib import Path

import numpy as np

from ict.base.errors import UserError
from ict.base.files import check_outside, check_place
from ict.data.array_inputs import fit_features, fit_inputs
from ict.data.user.records import UserData
from ict.data.user.remarks import no_label, word
from ict.data.user.subsets import GivenSubsets
from ict.fit.next_file import Next, write_next
from ict.fit.typical import typical


def check_new(out: Path) -> None:
    """A UserError if there cannot be a new file: an old one may hold labels by now."""
    check_place(out)
    if out.exists():
        raise UserError(f"{out} is there already and may hold labels: rename it, or name another file with --out.")


def suggest_first(given: GivenSubsets, out: Path, n: int, seed: int, embedded: bool) -> str:
    """Write typical examples without a label into a file that `--labels` reads back. Returns a summary."""
    data = given.data
    for source in given.sources:
        check_outside(out, source)
    check_new(out)
    labeled = np.flatnonzero([label is not None for label in data.y])
    if len(labeled) == len(data.y):
        raise UserError(
            f"every {word(data.items, 1)} of {given.sources[0]} has a label already, so there is nothing to suggest."
            + (
                " Class folders give labels: put the others into a folder 'unlabeled'."
                if data.items != "numbers"
                else ""
            )
        )
    inputs = fit_features(data.x) if embedded else fit_inputs(data.x, data.units)
    features = inputs(data.x)
    chosen = typical(features.reshape(len(features), -1), n, seed, labeled)
    write_next(out, data, [Next(one.row, one.cluster, _why(one.alike, data)) for one in chosen])
    remarks = [remark for remark in data.remarks if no_label(data.items) not in remark]
    these = word(data.items, len(chosen))
    return "\n".join(
        [
            *remarks,
            f"{out}: {len(chosen)} typical {these} of {len(data.y):,}, of which {len(labeled):,} have a label.",
            f"Fill in the column 'label', as far as you like, then run: ict fit {given.sources[0]} --labels {out}",
        ]
    )


def _why(alike: int, data: UserData) -> str:
    others = f"{alike - 1:,} other {word(data.items, alike - 1)}"
    return f"typical of {others}" if alike > 1 else "like no other"
