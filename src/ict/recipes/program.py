"""ICT's cells with the settings of the authors' program, wherever a recipe has a field for them.

Where the paper's text and the program differ, `<cell>/ict` follows one of them or neither (see docs/deviations.md).
These recipes always follow the program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ict.recipes.fast import Changes, changed
from ict.recipes.recipe import Recipe

# the program's settings that differ from `<cell>/ict`
PROGRAM: Changes = {
    "algorithm.targets": "logits",
    "algorithm.logging_forwards": True,
    "optimizer.nesterov": False,
    "train.labeled_order": "repeated",
    "eval.augmented_valid": True,
}
_NOTE = "The authors' program, wherever a recipe has a field for it; docs/deviations.md lists the rest."


def program_recipes(paper: Mapping[str, Recipe]) -> Iterator[tuple[str, Recipe]]:
    """<cell>/ict-program, from the paper's recipes by name."""
    for name, recipe in paper.items():
        if name.endswith("/ict"):
            yield f"{name}-program", replace(changed(recipe, PROGRAM), reported=None, note=_NOTE)
