"""ICT's cells as the authors' program runs them, wherever a field of a recipe says so.

Where the paper's text and the program differ, `<cell>/ict` follows the one or the other, or neither, and
docs/deviations.md says which; here it is the program everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ict.recipes.fast import Changes, changed
from ict.recipes.recipe import Recipe

# what the program does otherwise than `<cell>/ict`, which has its other choices already
_PROGRAM: Changes = {
    "algorithm.targets": "logits",
    "algorithm.logging_forwards": True,
    "optimizer.nesterov": False,
    "train.labeled_order": "repeated",
    "eval.augmented_valid": True,
}
_NOTE = "The authors' program wherever a field says what it does; docs/deviations.md: what no field does."


def program_recipes(paper: Mapping[str, Recipe]) -> Iterator[tuple[str, Recipe]]:
    """<cell>/ict-program, from the paper's recipes by name."""
    for name, recipe in paper.items():
        if name.endswith("/ict"):
            yield f"{name}-program", replace(changed(recipe, _PROGRAM), reported=None, note=_NOTE)
