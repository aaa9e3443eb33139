"""Lists a folder of files in which the first-level folders name the classes. Never writes into it."""

import os
from collections.abc import Sequence
from pathlib import Path

from ict.base.errors import UserError
from ict.data.labels import UNLABELED_FOLDER
from ict.data.user.remarks import counted, listed

GONE = "is not there any more"


def files_in(
    folder: Path, suffixes: tuple[str, ...], what: str, besides: Path | None = None
) -> tuple[list[str], list[str], list[str]]:
    """The files with these suffixes, the linked folders and the other files, as sorted relative paths."""

    def cannot(error: OSError) -> None:
        raise UserError(
            f"the folder {error.filename} cannot be read ({error.strerror}): check its drive and permissions."
        )

    names, linked, others = list[str](), list[str](), list[str]()
    for here, folders, files in os.walk(folder, onerror=cannot):
        base = Path(here)
        folders[:] = [name for name in folders if not name.startswith(".")]
        linked += [(base / name).relative_to(folder).as_posix() for name in folders if (base / name).is_symlink()]
        for name in files:
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in suffixes:
                names.append((base / name).relative_to(folder).as_posix())
            elif besides is None or os.path.realpath(base / name) != os.path.realpath(besides):
                others.append((base / name).relative_to(folder).as_posix())
    if not names and not linked and others:
        raise UserError(
            f"{folder} holds no {what}s, but {listed(sorted(others))}: make them one of {', '.join(suffixes)}."
        )
    if not names and not linked:
        raise UserError(f"{folder} holds no {what}s: put files such as {', '.join(suffixes)} into it.")
    return sorted(names), sorted(linked), sorted(others)


def refuse(folder: Path, bad: dict[str, str], skip_bad: bool) -> None:
    """A UserError if files cannot be read and may not be left out.

    What went away since the folder was listed, such as a network drive, is never left out.
    """
    if not bad:
        return
    gone = [name for name, why in bad.items() if why == GONE]
    if gone or not _is_there(folder):
        what = folder / min(gone) if gone else folder
        raise UserError(f"{what} {GONE}: bring it or its drive back, then run the command again.")
    if not skip_bad:
        name = min(bad)
        raise UserError(f"{folder / name} {bad[name]}: repair or remove it, or add --skip-bad to leave such files out.")


def _is_there(folder: Path) -> bool:
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def labels_by_folder(names: Sequence[str]) -> dict[str, str]:
    firsts = {name: name.split("/")[0] for name in names if "/" in name}
    return {name: first for name, first in firsts.items() if first.casefold() != UNLABELED_FOLDER}


def class_folders(folder: Path) -> set[str | None]:
    folders = (p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())
    return {p.name for p in folders if not p.name.startswith(".") and p.name.casefold() != UNLABELED_FOLDER}


def empty_classes(names: Sequence[str | None], what: str) -> list[str]:
    if not names:
        return []
    have = counted(len(names), "class has", "classes have")
    return [f"{have} no readable {what}, so the model will not know of it: {listed([str(name) for name in names])}"]


def ignored(names: Sequence[str], what: str) -> list[str]:
    others = counted(len(names), f"file that is no {what} was", f"files that are no {what}s were")
    return [f"{others} ignored: {listed(names)}"] if names else []
