"""`ict embed`: writes features of a user's files as arrays, for `ict fit` or any other program."""

from pathlib import Path
from typing import Any

import numpy as np

from ict.backbones import PHOTOS, open_backbone
from ict.backbones.embedder import AUTO, NONE, Embedder, embedder
from ict.base.errors import UserError
from ict.base.files import check_outside, check_place, replacing
from ict.data.user.read import item_kind, read_data
from ict.data.user.records import Progress, UserData
from ict.data.user.remarks import counted
from ict.engine.device import Device


def embed_files(
    path: Path, out: Path, name: str, device: Device, progress: Progress | None = None, **options: Any
) -> str:
    """Write `features`, `names` and, if any are known, `labels`; return a summary. Options are those of `read_data`."""
    check_outside(out, path)
    check_place(out)
    if out.suffix != ".npz":
        raise UserError(f"{out} does not end in .npz: the features are written as arrays, so end the name in .npz.")
    if name == NONE:
        raise UserError(f"there are no features without a backbone: name one, or leave out --backbone {NONE}.")
    data, embed = _embedded(path, name, device, progress, options)
    arrays: dict[str, Any] = {"features": data.x, "names": _strings(data.names)}
    if any(label is not None for label in data.y):
        arrays["labels"] = _strings(["" if label is None else label for label in data.y])
    with replacing(out) as file:
        np.savez(file, **arrays)
    backbone = embed.backbone
    rows = counted(len(data.x), "row", "rows")
    made = f"{out}: {rows} of {data.x.shape[1]} features by {backbone.name}, licence: {backbone.licence}"
    return "\n".join([*data.remarks, made])


def _embedded(
    path: Path, name: str, device: Device, progress: Progress | None, options: dict[str, Any]
) -> tuple[UserData, Embedder]:
    kind = item_kind(path, options.get("text_column"))
    if kind != "numbers":
        embed = embedder(name, kind, device) or Embedder(open_backbone(PHOTOS, device))
        return read_data(path, embed=embed, beside=(), progress=progress, **options), embed
    data = read_data(path, progress=progress, **options)
    if data.x.ndim < 3:
        raise UserError(
            f"{path} is a table, which is features already: give photos or texts, or name its column of texts by "
            "--text-column."
        )
    embed = Embedder(open_backbone(PHOTOS if name == AUTO else name, device))
    return UserData(embed.images(data.x, progress), data.y, data.names, data.remarks), embed


def _strings(values: Any) -> Any:
    """An array of strings. File names that are not UTF-8 are escaped."""
    return np.array([value.encode("utf-8", "backslashreplace").decode() for value in values])
