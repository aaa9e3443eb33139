"""Registries of algorithms, networks and datasets by name. They need no torch: a class is imported on first use."""

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from ict.base.errors import UserError, unknown


class Entry(NamedTuple):
    target: str  # "module:attribute"; the module is relative to the registry's package
    summary: str  # one line for `ict list`


class Registry(Mapping[str, Callable[..., Any]]):
    """A read-only dict from name to class or function. Iterating over the names imports nothing."""

    def __init__(self, kind: str, package: str, entries: dict[str, Entry]) -> None:
        self.kind = kind
        self._package = package
        self._entries = entries

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        module, _, attribute = self._entries[name].target.partition(":")
        value: Callable[..., Any] = getattr(import_module(f"{self._package}.{module}"), attribute)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # Mapping's own calls __getitem__ and catches only KeyError

    def resolve(self, name: str) -> Callable[..., Any]:
        """Like `self[name]`, but also takes a user's own class, such as "mypackage.mine:Mine", and imports it.

        An import runs code, so `name` must come from the caller or the command line, never from a file.
        """
        return _from_outside(self.kind, name) if is_outside(name) else self[name]

    def from_file(self, name: str, allowed: Collection[str]) -> Callable[..., Any]:
        """Like `resolve`, for a name in a file: code from outside the package must be in `allowed`."""
        if is_outside(name) and name not in allowed:
            raise UserError(
                f"{self.kind} '{name}' is code from outside the package, which a file alone may not run: "
                f"pass --allow-code {name} if you trust it."
            )
        return self.resolve(name)

    def summary(self, name: str) -> str:
        return self._entries[name].summary


def is_outside(name: str) -> bool:
    """Whether a name is a user's own class, such as "mine:Mine", and not in a registry."""
    return ":" in name


def _from_outside(kind: str, name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        value: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as problem:
        raise UserError(f"{kind} '{name}' cannot be imported ({problem}): write module:Class.") from None
    if not callable(value):
        raise UserError(f"{kind} '{name}' is not a class or function.")
    return cast(Callable[..., Any], value)
