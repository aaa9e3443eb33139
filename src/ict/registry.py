"""Names of algorithms, networks and datasets, importable without torch: a class is loaded when it is asked for."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ict.errors import unknown


class Entry(NamedTuple):
    target: str  # "module:attribute", the module relative to the registry's package
    summary: str  # one line for `ict list`


class Registry(Mapping[str, Callable[..., Any]]):
    """A read-only dict from name to class or function; iterating over the names imports nothing."""

    def __init__(self, kind: str, package: str, entries: dict[str, Entry]) -> None:
        self.kind = kind
        self._package = package
        self._entries = entries

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        module, _, attribute = self._entries[name].target.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"{self._package}.{module}"), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # Mapping's own would catch only KeyError

    def summary(self, name: str) -> str:
        return self._entries[name].summary
