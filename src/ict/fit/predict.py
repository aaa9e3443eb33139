"""Writes predictions to a CSV file, in chunks of examples."""

import csv
import io
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.files import check_outside, replacing
from ict.data.array_inputs import by_name
from ict.data.user.read import TABLES, item_kind, stream_data
from ict.data.user.records import ANY, Chunk, Progress, Stream
from ict.data.user.remarks import counted, made_gray, photos_left_out, rows_left_out
from ict.engine.device import Device
from ict.estimators.embedding import restored_embedding
from ict.models.saved_model import SavedModel, load_model

STDOUT = Path("-")


def predict_files(
    model: Path,
    path: Path,
    out: Path,
    *,
    skip_bad: bool,
    progress: Progress | None = None,
    allow_code: Collection[str] = (),
    backbone: str | None = None,
    device: Device = "auto",
    text_column: str | None = None,
) -> str:
    """Write predictions for all examples of a file or folder, labeled or not. Returns a summary."""
    if out != STDOUT:
        check_outside(out, path)
    loaded = load_model(model, allow_code)
    stream = _stream(loaded, path, skip_bad, backbone, device, text_column)
    done, bad, grayed = 0, list[str](), list[str]()

    def watched() -> Iterator[Chunk]:
        nonlocal done
        for chunk in stream.chunks:
            yield chunk
            done += len(chunk.names)
            bad.extend(chunk.bad)
            grayed.extend(chunk.made_gray)
            if progress is not None:
                progress("predicting", done + len(bad), stream.total)
        if not done:
            raise UserError(f"{path} has nothing that can be read: repair or replace it.")

    write_predictions(out, loaded, watched())
    left_out = photos_left_out(bad) if path.is_dir() else rows_left_out(bad)
    lines = [*stream.remarks, *left_out, *made_gray(grayed), loaded.calibration]
    return "\n".join([*lines, f"{counted(done, 'prediction', 'predictions')}: {out}"])


def _stream(
    model: SavedModel, path: Path, skip_bad: bool, backbone: str | None, device: Device, text_column: str | None
) -> Stream:
    shape, used = model.inputs.shape_in_files, model.backbone
    if used is None:
        if backbone is not None:
            raise UserError(f"the model was fitted without a backbone: leave out --backbone {backbone}.")
        if text_column is not None:
            raise UserError(f"the model was not fitted to texts: leave out --text-column {text_column}.")
        if path.is_dir() and not model.pixels:
            raise UserError(
                f"the model was fitted to an array of images on another scale than the pixels of files: give an array "
                f"like that, as a .npy or .npz, and not the folder {path}."
            )
        return stream_data(path, shape, model.columns, skip_bad, table=model.table, pixels=model.pixels)
    embedding = restored_embedding(used, device, backbone)
    column = text_column or (None if path.is_dir() else used.text_column)
    if item_kind(path, column) != "numbers":
        return stream_data(path, shape, (), skip_bad, embedding.embed, used.beside, column)
    if embedding.texts or path.suffix.lower() in TABLES:
        name_it = ": name the column with the texts by --text-column" if embedding.texts else ""
        raise UserError(f"{path} holds numbers, and the model was fitted to features of {used.name}{name_it}.")
    images = stream_data(path, ANY, (), skip_bad)
    return replace(images, chunks=(replace(chunk, x=embedding(chunk.x)) for chunk in images.chunks if chunk.names))


def write_predictions(out: Path, model: SavedModel, chunks: Iterable[Chunk]) -> None:
    """Write the lines of `prediction_lines` for a model and examples, which are read as needed."""

    def predicted(chunk: Chunk) -> NDArray[Any]:
        with by_name(chunk.names):
            return model.predict_proba(model.inputs.from_files(chunk.x))

    write_lines(out, prediction_lines(model.classes, ((c.names, predicted(c)) for c in chunks if c.names)))


def prediction_lines(
    classes: tuple[str, ...], predicted: Iterable[tuple[Sequence[str], NDArray[Any]]]
) -> Iterator[list[str]]:
    """A line per example: its name, the most probable class and the probabilities of all classes."""
    yield ["example", "label", "probability", *(f"p({name})" for name in classes)]
    for names, probs in predicted:
        for name, row in zip(names, probs, strict=True):
            best = int(row.argmax())
            yield [name, classes[best], f"{row[best]:.6f}", *(f"{p:.6f}" for p in row)]


def write_lines(out: Path, lines: Iterable[Sequence[str]]) -> None:
    """Write a CSV file, completely or not at all."""
    with _text(out) as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


@contextmanager
def _text(out: Path) -> Iterator[TextIO]:
    with replacing(out) if out != STDOUT else nullcontext(sys.stdout.buffer) as file:
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")  # a file's name need not be UTF-8
        try:
            yield text
            text.flush()
        finally:
            text.detach()  # otherwise it would close a file that it does not own
