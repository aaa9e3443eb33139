"""Writes an output folder completely or not at all: under a temporary name, renamed at the end."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ict.base.errors import FolderInUse, UserError
from ict.base.files import sync_folder
from ict.base.folder_lock import locked


class NewFolder:
    """A folder whose files are written to `path` until `publish` moves them to `folder`."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.folder, self.path = folder, path
        self._published = False

    def publish(self, last: str) -> None:
        """Move the files to the folder. `last` is moved last: without it the folder counts as empty."""
        if self._published:
            return
        if self.path.parent == self.folder:  # the folder existed before; a rename needs it to be empty
            for path in sorted(self.path.iterdir(), key=lambda path: path.name == last):
                path.replace(self.folder / path.name)
            self.path.rmdir()
        else:
            try:
                self.path.rename(self.folder)
            except OSError as problem:
                raise UserError(f"{self.folder} cannot be created ({problem.strerror}): name another folder.") from None
        self._published = True
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def discard(self) -> None:
        if not self._published:
            shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def new_folder(folder: Path, room: int = 0) -> Iterator[NewFolder]:
    """Yield a folder that the caller publishes. Unpublished files are removed at the end.

    Raises a UserError at once if the place cannot be written to, has less than `room` bytes free, or is in use by
    another process. Leftovers of a killed process are removed.
    """
    path = folder / ".unfinished" if folder.exists() else folder.with_name(f".{folder.name}.unfinished")
    with ExitStack() as held:
        try:
            path.mkdir(parents=True, exist_ok=True)
            made = path.stat().st_ino
            held.enter_context(locked(path, folder))
            if not path.exists() or path.stat().st_ino != made:  # another process published it before it was locked
                raise FolderInUse(f"another process has just written {folder}: name another folder.")
            for old in path.iterdir():
                old.unlink()
            free = shutil.disk_usage(path).free
        except OSError as problem:
            raise UserError(f"cannot write to {folder} ({problem.strerror}): name another folder.") from None
        new = NewFolder(folder, path)
        try:
            if free < room:
                raise UserError(
                    f"{folder} has {free / 1e6:,.0f} MB free and may need {room / 1e6:,.0f} MB: make room, "
                    "or name another folder."
                )
            yield new
        finally:
            new.discard()
