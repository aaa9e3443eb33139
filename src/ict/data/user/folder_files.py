"""Lists a folder of files in which the first-level folders name the classes. Never writes into it."""

import os
from collections.abc import Sequence
from pathlib import Path

from ict.base.errors import UserError
from ict.data.labels import UNLABELED_FOLDER
from ict.data.user.remarks import counted, listed


def files_in(
    folder: Path, suffixes: tuple[str, ...], what: str, besides: Path | None = None
) -> tuple[list[str], list[str], int]:
    """The files with these suffixes and the linked folders, as sorted relative paths, and the number of other files."""

    def cannot(error: OSError) -> None:
        raise UserError(f"the folder {error.filename} cannot be read ({error.strerror}): change its permissions.")

    names, linked, n_ignored = [], [], 0
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
                n_ignored += 1
    if not names and not linked:
        raise UserError(f"{folder} holds no {what}s: put files such as {', '.join(suffixes)} into it.")
    return sorted(names), sorted(linked), n_ignored


def refuse(folder: Path, bad: dict[str, str], skip_bad: bool) -> None:
    if bad and not skip_bad:
        name = min(bad)
        raise UserError(f"{folder / name} {bad[name]}: repair or remove it, or set skip_bad to leave such files out.")


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
    return [f"{have} no readable {what}: {listed([str(name) for name in names])}"]


def ignored(n: int, one: str, several: str) -> list[str]:
    others = counted(n, f"file that is not {one} was", f"files that are not {several} were")
    return [f"{others} ignored"] if n else []
