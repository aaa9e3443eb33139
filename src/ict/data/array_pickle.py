"""Reads pickles of byte arrays, numbers, strings, lists and dicts without running code from the pickle.

Python's unpickler calls what a pickle names, numpy crashes on some malformed input, and a few hundred bytes can build
an object whose hash or print never ends or copy one text into all of the memory. So this file interprets only the
opcodes that such files need: it imports and calls nothing, hashes only strings, makes about as many bytes as the file
has, and rejects all other opcodes.
"""

import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    *("INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_OLD_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}  # Python 2 has bytes in them
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_OUTSIDE = {"INST", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4"}
_MARK = object()


class PickledArray:
    """An array of bytes. It is empty until its state is set, since pickles create arrays in two steps."""

    bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __init__(self, *_: Any) -> None:
        """Takes the arguments of numpy's constructors."""

    def fill(self, state: Any) -> None:
        _, shape, dtype, by_columns, raw = state
        if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
            raise ValueError("an array without a shape")
        if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", b"u1") or by_columns:
            raise ValueError("an array of something other than bytes in rows")
        if isinstance(raw, str):  # Python 3 writes bytes as latin-1 text by the old protocols
            raw = raw.encode("latin-1")
        self.bytes = np.frombuffer(raw, np.uint8).reshape(shape)


class _Dtype:
    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name if isinstance(name, str | bytes) else None

    def fill(self, state: Any) -> None:
        """Byte order and the like, which bytes do not have."""


def _encode(text: Any, encoding: Any) -> bytes:
    """What Python 3 writes for bytes by protocol 2."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes in an unknown encoding")
    return text.encode("latin-1")


_STAND_INS: dict[str, Callable[..., Any]] = {
    "numpy dtype": _Dtype,
    "numpy ndarray": PickledArray,
    "numpy.core.multiarray _reconstruct": PickledArray,
    "numpy._core.multiarray _reconstruct": PickledArray,
    "_codecs encode": _encode,
}


def unpickled(raw: bytes) -> Any:
    """What a pickle holds. Anything else than such a pickle raises ValueError, IndexError, TypeError or KeyError."""
    machine = _Machine(2 * len(raw))  # a text may become bytes, and those an array
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument)
    raise ValueError("it has no end")


class _Machine:
    """The stack and the memo that opcodes work on. `room`: how many bytes may be made from what stands in the file."""

    def __init__(self, room: int) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.room = room

    def made(self, value: Any) -> Any:
        """Count the bytes of a new value: a text in the memo could be copied by every few bytes of the file."""
        self.room -= (
            len(value) if isinstance(value, bytes) else value.bytes.size if isinstance(value, PickledArray) else 0
        )
        if self.room < 0:
            raise ValueError("the same bytes again and again")
        return value

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a value is missing")
        return value

    def marked(self) -> list[Any]:
        """All values since the last mark."""
        values = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def set(self, pairs: list[Any]) -> None:
        """Entries for the dict on top. Only strings are hashed: a tuple may hold itself many times over."""
        target = self.stack[-1]
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(target, dict) or not isinstance(key, str | bytes):
                raise ValueError("an entry that is not a string's in a dict")
            target[key] = value

    def step(self, name: str, argument: Any) -> None:
        push, top = self.stack.append, self.stack[-1] if self.stack else None
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                push(_MARK)
            case "EMPTY_DICT":
                push({})
            case "EMPTY_LIST":
                push([])
            case "TUPLE":
                push(tuple(self.marked()))
            case "LIST":
                push(self.marked())
            case "DICT":
                pairs = self.marked()
                push({})
                self.set(pairs)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = top
            case "MEMOIZE":
                self.memo[len(self.memo)] = top
            case "GET" | "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case "APPEND":
                value = self.pop()
                _listed(self.stack[-1]).append(value)
            case "APPENDS":
                values = self.marked()
                _listed(self.stack[-1]).extend(values)
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self.set([key, value])
            case "SETITEMS":
                self.set(self.marked())
            case "GLOBAL":
                push(_stand_in(argument))
            case "STACK_GLOBAL":
                attribute, module = self.pop(), self.pop()
                named = isinstance(module, str) and isinstance(attribute, str)
                push(_stand_in(f"{module} {attribute}" if named else ""))
            case "REDUCE":
                arguments, made = self.pop(), self.pop()
                push(self.made(_call(made, arguments)))
            case "BUILD":
                state = self.pop()
                _fill(self.stack[-1], state)
                self.made(self.stack[-1])
            case _ if name in _LITERALS:
                push(argument)
            case _ if name in _OLD_STRINGS:
                push(argument.encode("latin-1") if isinstance(argument, str) else argument)
            case _ if name in _CONSTANTS:
                push(_CONSTANTS[name])
            case _ if name in _TUPLES:
                push(tuple([self.pop() for _ in range(_TUPLES[name])][::-1]))
            case _ if name in _OUTSIDE:
                raise ValueError("a reference to something outside")
            case _:
                raise ValueError(f"the opcode {name}, which arrays do not need")


def _stand_in(name: str) -> Callable[..., Any]:
    if name not in _STAND_INS:
        raise ValueError(f"a reference to {name.replace(' ', '.', 1)[:100]}")
    return _STAND_INS[name]


def _call(made: Any, arguments: Any) -> Any:
    """Only stand-ins are ever called."""
    if not isinstance(arguments, tuple) or not any(made is stand_in for stand_in in _STAND_INS.values()):
        raise ValueError("a call of something that arrays do not need")
    return made(*arguments)


def _fill(target: Any, state: Any) -> None:
    if not isinstance(target, PickledArray | _Dtype):
        raise ValueError("a state for something that has none")
    target.fill(state)


def _listed(target: Any) -> list[Any]:
    if not isinstance(target, list):
        raise ValueError("an item for something that is no list")
    return target
