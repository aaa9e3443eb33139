"""Writes a user's examples as a folder of shards."""

from pathlib import Path

from ict.data.array_inputs import channels_first
from ict.data.labels import encode
from ict.data.user.records import UserData
from ict.data.write_shards import write_shards


def shard_data(data: UserData, out: Path, size: int) -> str:
    """Write all data as training examples. Returns a summary."""
    known = encode(data.y, len(data.y))
    return write_shards(out, {"train": [(channels_first(data.x), known.labels)]}, map(str, known.classes), size)
