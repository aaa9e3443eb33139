"""Messages for the user about data that was read."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ict.base.errors import UserError
from ict.data.labels import is_unlabeled_text
from ict.data.user.records import Items, UserData

_WORDS: dict[Items, tuple[str, str]] = {
    "photos": ("photo", "photos"),
    "texts": ("text", "texts"),
    "numbers": ("row", "rows"),
}


def word(items: Items, n: int = 2) -> str:
    """The word for an example, or for `n` of them."""
    return _WORDS[items][n != 1]


def listed(names: Sequence[str]) -> str:
    """Up to five names, and the number of the others."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    shown = ", ".join(names[:5]).encode("utf-8", "backslashreplace")  # a file's name need not be UTF-8
    return shown.decode() + more


def counted(n: int, singular: str, plural: str) -> str:
    """'1 image was' or '2 images were'."""
    return f"{n} {singular if n == 1 else plural}"


def photos_left_out(names: Sequence[str]) -> list[str]:
    could = counted(len(names), "photo could not be read and was", "photos could not be read and were")
    return [f"{could} left out: {listed(names)}"] if names else []


def rows_left_out(names: Sequence[str]) -> list[str]:
    were = counted(len(names), "row was", "rows were")
    return [f"{were} left out for a cell that cannot be used or for too many cells: {listed(names)}"] if names else []


def made_gray(names: Sequence[str]) -> list[str]:
    were = counted(len(names), "photo in color was", "photos in color were")
    return [f"{were} made gray: {listed(names)}"] if names else []


def unlabeled_rows(values: Sequence[object], what: str = "row") -> list[str]:
    """A remark on the rows without a label, if any of them says so by a word or a number. `what`: the word for one."""
    counts = Counter("" if value is None else str(value).strip() for value in values)
    unlabeled = {text: n for text, n in counts.most_common() if is_unlabeled_text(text)}
    if not any(unlabeled):
        return []
    ways = [f"{n:,} " + (f"'{text}'" if text else "blank") for text, n in unlabeled.items()]
    return [f"{counted(sum(unlabeled.values()), f'{what} is', f'{what}s are')} unlabeled: {', '.join(ways)}"]


def no_label(items: Items) -> str:
    return f"no {word(items, 1)} has a label"


def about_labels(data: UserData) -> list[str]:
    """Remarks on classes with one label, on missing labels, and on equal examples with different labels."""
    counts = Counter(label for label in data.y if label is not None)
    if not counts:
        return [no_label(data.items)]  # an error only for training
    single = sorted(label for label, n in counts.items() if n == 1)
    have = counted(len(single), "class has", "classes have")
    remarks = [f"{have} a single labeled {word(data.items, 1)}: {listed(single)}"] if single else []
    return [*remarks, *_slips(data, counts), *_torn(data)]


def _slips(data: UserData, counts: Counter[str]) -> list[str]:
    """Remarks on labels that occur once and are a letter away from another."""
    remarks = []
    for label in sorted(label for label, n in counts.items() if n == 1):
        near = [other for other in sorted(counts) if counts[other] > 1 and a_letter_away(label, other)]
        if near:
            name = data.names[list(data.y).index(label)]
            remarks.append(f"the label '{label}' of {name} occurs once and is a letter away from '{near[0]}': a typo?")
    return remarks


def a_letter_away(a: str, b: str) -> bool:
    """Whether words differ by case, by one letter, or by two that are swapped. Numbers are no letters."""
    a, b = sorted((a.casefold(), b.casefold()), key=len)
    if a == b:
        return True
    if len(b) < 3 or len(b) - len(a) > 1:
        return False
    at = next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), len(a))
    if len(a) < len(b):
        return a[at:] == b[at + 1 :] and not b[at].isdigit()
    if a[at + 1 :] == b[at + 1 :]:
        return not (a[at].isdigit() or b[at].isdigit())
    return a[at + 2 :] == b[at + 2 :] and a[at : at + 2] == b[at : at + 2][::-1] and not a[at : at + 2].isdigit()


def _torn(data: UserData) -> list[str]:
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero([label is not None for label in data.y]):
        groups.setdefault(int(data.twins[i]), []).append(int(i))
    torn = [" = ".join(data.names[i] for i in rows) for rows in groups.values() if len({data.y[i] for i in rows}) > 1]
    if not torn:
        return []
    are = counted(len(torn), f"{word(data.items, 1)} is", f"{word(data.items)} are")
    return [f"{are} in different classes with the same content: {listed(torn)}"]


def unlike_the_model(path: object, has: str, shape: tuple[int, ...]) -> UserError:
    """The error for data of another shape than the model was fitted to."""
    return UserError(
        f"{path} holds {has}, but the model was fitted to examples of the shape {shape}: give such examples."
    )
