"""Seeded damage to bytes, some of it aware of JSON and of numbers."""

import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

_ODD_NUMBERS = (b"-1", b"0", b"1e999", b"nan", b"99999999999999999999", b"1e-400", b"", b"4294967296", b"0.5", b"'")
_ODD_WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
_NESTED: Any = [[[[[]]]]]
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**9, 10**25, 1e300, -1e300, float("nan"), float("inf")),
    *("", "..", "/etc/passwd", "../../x", "os:mkdir", "x" * 3000, "\0", "é\ud83d", "nan", "1", [], {}, _NESTED),
)


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """The bytes after one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        raw = rng.choice(_CHANGES)(raw, rng)
    return raw


def _bytes(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 0xFF, 0x80, rng.randrange(256)))
    return bytes(changed)


def _bits(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    if changed:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _header(raw: bytes, rng: random.Random) -> bytes:
    """A byte near the start, where sizes stand."""
    changed = bytearray(raw)
    if changed:
        changed[rng.randrange(min(len(changed), 256))] = rng.randrange(256)
    return bytes(changed)


def _word(raw: bytes, rng: random.Random) -> bytes:
    """An odd whole number in either byte order."""
    size, word = rng.choice(((2, "H"), (4, "I"), (8, "Q"))), rng.choice(_ODD_WORDS)
    packed = struct.pack(rng.choice("<>") + size[1], word % (1 << 8 * size[0]))
    place = rng.randrange(len(raw) + 1)
    return raw[:place] + packed + raw[place + len(packed) :]


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _remove(raw: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    return raw[:start] + raw[end:]


def _repeat(raw: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(raw) + 1)
    piece = raw[start : start + rng.choice((1, 8, 100))]
    return raw[:start] + piece * rng.choice((2, 3, 50)) + raw[start:]


def _insert(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw) + 1)
    return raw[:place] + rng.randbytes(rng.choice((1, 4, 40))) + raw[place:]


def _number(raw: bytes, rng: random.Random) -> bytes:
    """An odd number in place of one that is written in digits."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", raw[:200_000]))
    if not found:
        return _bytes(raw, rng)
    chosen = rng.choice(found)
    return raw[: chosen.start()] + rng.choice(_ODD_NUMBERS) + raw[chosen.end() :]


def _json(raw: bytes, rng: random.Random) -> bytes:
    """An odd value, a missing key or another name in JSON."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        return _number(raw, rng)
    places = list(_places(content))
    if not places:
        return json.dumps(rng.choice(_ODD_VALUES)).encode()
    holder, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("", "..", "name", "steps", "x" * 300))] = holder.pop(key)
        case 2:
            holder[key] = [holder[key]]
        case _:
            holder[key] = rng.choice(_ODD_VALUES)
    return json.dumps(content).encode()


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Every value in JSON, as what holds it and its key there."""
    keys = content.keys() if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    here = [(content, key) for key in keys]
    return here + [place for _, key in here for place in _places(content[key])]


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_bytes, _bits, _header, _word, _cut, _remove, _repeat, _insert, _number, _json, _json),
)
