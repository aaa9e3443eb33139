"""Pickles of arrays against Python's own, and pickles that would run code or never end."""

import os
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict.data.array_pickle import PickledArray, unpickled


@pytest.mark.parametrize("protocol", range(5))
def test_what_python_pickled(protocol: int) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    rest = {"name": "a", "list": [1, 2, -3, 2**40, None, True, False], "tuples": [(), (1,), (1, 2), (1, 2, 3, 4)]}
    loaded = unpickled(pickle.dumps({"data": pixels, **rest}, protocol))
    data = loaded.pop("data")
    assert isinstance(data, PickledArray)
    np.testing.assert_array_equal(data.bytes, pixels)
    assert loaded == rest


class Attack:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_that_a_pickle_names_is_called(protocol: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    attack = pickle.dumps(Attack(os.mkdir, str(made)), protocol)
    with pytest.raises(ValueError, match=r"reference to (posix|nt)\.mkdir"):
        unpickled(attack)
    assert not made.exists()
    pickle.loads(attack)
    assert made.is_dir(), "the attack works on Python's own unpickler"


def doubled(n: int) -> bytes:
    """A tuple that holds its predecessor twice, n times over."""
    step = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(n))
    return b"N\x85" + step


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (b"\x80\x02}" + doubled(60) + b"Ns.", "an entry that is not a string's"),  # for ever to hash
        (b"\x80\x02}" + b"N" + b"\x85" * 2_000_000 + b"Ns.", "an entry that is not a string's"),  # too deep to hash
        (b"\x80\x02N2.", "the opcode DUP"),
        (b"(cnumpy\ndtype\no.", "the opcode OBJ"),
        (b"\x80\x02cnumpy\ndtype\n)\x81.", "the opcode NEWOBJ"),
        (b"Vx\nU\x01y\x85R.", "a call of something"),
        (b"]}b.", "a state for something that has none"),
        (b"}Na.", "an item for something that is no list"),
        (b"N", "pickle exhausted"),
    ],
)
def test_what_arrays_do_not_need_is_refused_at_once(attack: bytes, message: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=message):
        unpickled(attack)
    assert time.process_time() - began < 20


TEXT = b"(X\x10'\0\0" + b"a" * 10_000 + b"q\x01"  # into the memo
CODEC = b"c_codecs\nencode\nq\x02X\x06\0\0\0latin1q\x03"
ARRAY = b"cnumpy\nndarray\n)R(NM\x10'\x85h\x02Nh\x01tb"


@pytest.mark.parametrize(
    "copies",
    ids=["bytes", "arrays"],
    argvalues=[CODEC + b"h\x02h\x01h\x03\x86R" * 9, b"cnumpy\ndtype\nU\x02u1\x85Rq\x02" + ARRAY * 9],
)
def test_a_text_in_the_memo_is_not_copied_into_all_of_the_memory(copies: bytes) -> None:
    """Every ten bytes of the file would take as much as the text."""
    with pytest.raises(ValueError, match="the same bytes again and again"):
        unpickled(TEXT + copies + b"t.")


def test_an_endless_object_is_harmless_as_a_value() -> None:
    loaded = unpickled(b"\x80\x02}U\x04data" + doubled(60) + b"s.")
    assert list(loaded) == [b"data"]
