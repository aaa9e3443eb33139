"""A cache of features on disk, keyed by the hash of each file or text, so that only new items are embedded.

A backbone has a folder of its own, named after its weights and its preparation. Each entry in it has the features of
items that were embedded together, and their digests.
"""

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

from ict.base.array_types import Array
from ict.data.user.array_cache import cache_folder, read_entry, why_unusable, write_entry


class FeatureCache:
    """The cached features of one backbone. Nothing is cached if the cache is inside `source`."""

    def __init__(self, made_by: str, source: Path | None) -> None:
        folder, why = cache_folder(), why_unusable(source)
        name = hashlib.sha256(made_by.encode()).hexdigest()[:40]
        self._folder = folder / "features" / name if folder is not None and why is None else None
        self._known: dict[bytes, Array] = {}
        if why is not None:
            self._warn(why)
        if self._folder is not None and self._folder.is_dir():
            for entry in sorted(self._folder.glob("[!.]*")):  # not what is being written, or was by a killed process
                self._known |= _pack(entry)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def __getitem__(self, digest: bytes) -> Array:
        return self._known[digest]

    def add(self, digests: Sequence[bytes], features: Array) -> None:
        """Add features, on disk if possible."""
        self._known |= dict(zip(digests, features, strict=True))
        if self._folder is None or not len(digests):
            return
        name = hashlib.sha256(b"".join(digests)).hexdigest()[:40]
        about = {"digests": [digest.hex() for digest in digests]}
        try:
            write_entry(self._folder / name, features, "float32", features.shape[1:], about)
        except OSError as problem:
            self._warn(f"{self._folder} cannot be written ({problem.strerror})")
            self._folder = None

    @staticmethod
    def _warn(why: str) -> None:
        warnings.warn(f"features are not cached, since {why}: name another folder with ICT_CACHE.", stacklevel=2)


def _pack(entry: Path) -> dict[bytes, Array]:
    found = read_entry(entry)
    try:
        if found is None:
            return {}
        return {bytes.fromhex(digest): row for digest, row in zip(found[1]["digests"], found[0], strict=True)}
    except (KeyError, ValueError, TypeError):
        return {}
