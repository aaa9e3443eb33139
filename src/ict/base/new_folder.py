"""An output folder that appears whole or not at all: built under another name, which it loses at the end."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ict.base.errors import FolderInUse, UserError
from ict.base.files import sync_folder
from ict.base.lock import locked


class NewFolder:
    """`path` is where files are written until `publish` gives them their place."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.folder, self.path = folder, path
        self._published = False

    def publish(self, last: str) -> None:
        """Give the files their place. `last` is the file without which the folder counts as empty."""
        if self._published:
            return
        if self.path.parent == self.folder:  # which was there before; a rename would need it to be empty
            for path in sorted(self.path.iterdir(), key=lambda path: path.name == last):
                path.replace(self.folder / path.name)
            self.path.rmdir()
        else:
            try:
                self.path.rename(self.folder)
            except OSError as problem:
                raise UserError(
                    f"{self.folder} cannot be made ({problem.strerror}): name another folder with --out."
                ) from None
        self._published = True
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def discard(self) -> None:
        if not self._published:
            shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def new_folder(folder: Path, room: int = 0) -> Iterator[NewFolder]:
    """Build a folder that is published by hand; what was not published is removed at the end.

    Refused at once: a place that cannot be written to, that has less than `room` bytes free, or in which another
    process builds. What a killed process left is removed.
    """
    path = folder / ".unfinished" if folder.exists() else folder.with_name(f".{folder.name}.unfinished")
    with ExitStack() as held:
        try:
            path.mkdir(parents=True, exist_ok=True)
            made = path.stat().st_ino
            held.enter_context(locked(path, folder))
            if not path.exists() or path.stat().st_ino != made:  # another process published it before it was locked
                raise FolderInUse(f"another process has just written {folder}: name another folder with --out.")
            for old in path.iterdir():
                old.unlink()
            free = shutil.disk_usage(path).free
        except OSError as problem:
            raise UserError(f"cannot write to {folder} ({problem.strerror}): name another folder with --out.") from None
        new = NewFolder(folder, path)
        try:
            if free < room:
                raise UserError(
                    f"{folder} has {free / 1e6:,.0f} MB free and may need {room / 1e6:,.0f} MB: make room, "
                    "or name another folder with --out."
                )
            yield new
        finally:
            new.discard()
