"""What a fit changed against an earlier model: the labels, and how good both are.

New labels are no random ones: those of next.csv are hard examples, so the accuracy on all labels can fall while the
model gets better. So the two are compared on the labels that both were measured on, each by fits that did not see them.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ict.base.array_types import Rows
from ict.base.errors import UserError
from ict.base.reading import check_file, reading
from ict.data.user.records import UserData
from ict.data.user.remarks import counted, listed
from ict.estimators.auto import HeldOutProbs
from ict.estimators.metrics import LEAST, Metric, gain_in_words, in_words, row_weights
from ict.estimators.verdict import HeldOut, difference
from ict.models.saved_model import about_model

FILE = "held_out.csv"
ENOUGH = 10  # labels in common, below which no difference is told
_HEADER = ["example", "label", "guess", "p(label)", "digest"]


@dataclass(frozen=True)
class OneHeldOut:
    """A labeled example, predicted by a fit that did not see its label."""

    label: str
    right: bool
    chance: float  # that the fit gave to the label

    def score(self, metric: Metric) -> float:
        return float(np.log(max(self.chance, LEAST))) if metric == "log_loss" else float(self.right)


@dataclass(frozen=True)
class Earlier:
    """An earlier model, as its folder describes it."""

    folder: str
    labels: Mapping[str, int]  # number of labels by class
    measured: Mapping[str, Any] | None
    words: str  # how good it is, as its fit said
    held_out: Mapping[str, OneHeldOut]  # by the digest of the example's content


@dataclass(frozen=True)
class Change:
    """The present model against the earlier one. The difference is on the labels that both were measured on."""

    folder: str
    added: Mapping[str, int]  # labels by class; below 0 if there were more before
    labels_before: int
    labels_now: int
    before: Mapping[str, Any] | None  # how good, with its interval, on its own labels
    before_in_words: str
    now: Mapping[str, Any] | None
    metric: Metric
    common: int  # labels that both were measured on
    changed: int  # labels that are another class now
    common_before: float | None = None  # the score on the common labels
    common_now: float | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    answer: str = "cannot tell"  # or better, worse, within noise

    @property
    def lines(self) -> list[str]:
        """In words."""
        difference = self.labels_now - self.labels_before
        by_class = listed([f"{name} {n:+d}" for name, n in self.added.items() if n])
        labels = f"{counted(difference, 'label', 'labels')} added" if difference >= 0 else f"{-difference} labels fewer"
        changed = f"; {counted(self.changed, 'label is', 'labels are')} another class now" if self.changed else ""
        return [
            f"against {self.folder}: {labels}{f' ({by_class})' if by_class else ''}, {self.labels_before} before and "
            f"{self.labels_now} now{changed}",
            f"before: {self.before_in_words}",
            f"now: {_in_words(self.now)}",
            self.verdict,
        ]

    @property
    def verdict(self) -> str:
        if self.gain is None or self.low is None or self.high is None:
            return (
                f"Cannot tell whether the model is better than {self.folder}: "
                f"{counted(self.common, 'label', 'labels')} were measured in both, and it takes {ENOUGH}."
            )
        before, now = (in_words(self.metric, score) for score in (self.common_before or 0.0, self.common_now or 0.0))
        gain, low, high = (gain_in_words(self.metric, value) for value in (self.gain, self.low, self.high))
        ends = sorted((low.split()[0], high.split()[0]), key=float)
        what = {
            "better": "the model is better",
            "worse": "the model is worse",
            "within noise": "the difference is within noise",
        }[self.answer]
        return (
            f"On the {self.common} labels that both were measured on: {before} before and {now} now, {gain}, "
            f"95 % interval {ends[0]} to {ends[1]}: {what}."
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self) | {"words": self.lines}


def read_earlier(folder: Path) -> Earlier:
    """The earlier model in a folder; one of an earlier version may not say all."""
    about = about_model(folder)
    with reading(folder, "a complete model", "fit it again"):
        labels = {str(name): int(n) for name, n in (about.get("labels") or {}).items()}
        measured = about.get("measured")
        if measured is not None:
            measured = dict(measured)
            _in_words(measured)
    words = str(about.get("test", "not measured")) if measured is None else _in_words(measured)
    return Earlier(str(folder), labels, measured, words, _held_out(folder / FILE) if (folder / FILE).exists() else {})


def check_alike(earlier: Earlier, classes: Sequence[str]) -> None:
    """A UserError if the earlier model is of something else."""
    if earlier.labels and not set(earlier.labels) & set(classes):
        raise UserError(
            f"the model in {earlier.folder} has other classes, {listed(sorted(earlier.labels))}: name an earlier model "
            "of these data with --compare-with, or leave it out."
        )


def compare(
    earlier: Earlier,
    about: Mapping[str, Any],
    lines: Sequence[Sequence[str]],
    metric: Metric,
    seed: int,
    groups: Mapping[str, object] | None = None,
) -> Change:
    """`about`: what the present folder says; `lines`: those of its held-out examples. `groups`: by an example's digest;
    those of one group, such as photos of one person, count as drawn together."""
    now = _by_digest(lines)
    both = [digest for digest in now if digest in earlier.held_out]
    same = [digest for digest in both if now[digest].label == earlier.held_out[digest].label]
    counts: Mapping[str, int] = about["labels"]
    names = list(dict.fromkeys([*counts, *earlier.labels]))
    facts: dict[str, Any] = {
        "folder": earlier.folder,
        "added": {name: counts.get(name, 0) - earlier.labels.get(name, 0) for name in names},
        "labels_before": sum(earlier.labels.values()),
        "labels_now": sum(counts.values()),
        "before": earlier.measured,
        "before_in_words": earlier.words,
        "now": about["measured"],
        "metric": metric,
        "common": len(same),
        "changed": len(both) - len(same),
    }
    if len(same) < ENOUGH:
        return Change(**facts)
    pairs = [(earlier.held_out[digest].score(metric), now[digest].score(metric)) for digest in same]
    classes = {name: i for i, name in enumerate(names)}
    labels = np.array([classes.setdefault(now[digest].label, len(classes)) for digest in same])
    group = np.unique([str((groups or {}).get(digest, digest)) for digest in same], return_inverse=True)[1]
    scores = HeldOut(metric, np.array(pairs), row_weights(metric, labels), group)
    (before, after), (gain, low, high) = scores.means(np.ones((1, len(same))))[0], difference(scores, seed)
    answer = "better" if low > 0 else "worse" if high < 0 else "within noise"
    return Change(**facts, common_before=before, common_now=after, gain=gain, low=low, high=high, answer=answer)


def held_out_lines(
    data: UserData, rows: Rows, classes: Sequence[str], held_out: HeldOutProbs | None
) -> list[list[str]]:
    """The header, and a line for each held-out example. `rows`: those of the data among which they are."""
    lines = [_HEADER]
    if held_out is None or held_out.rows is None:
        return lines
    for place, label, probs in zip(held_out.rows, held_out.labels, held_out.calibrated, strict=True):
        row = int(rows[place])
        guess = classes[int(probs.argmax())]
        lines.append([data.names[row], classes[label], guess, f"{probs[label]:.6f}", data.digests[row]])
    return lines


def _held_out(path: Path) -> dict[str, OneHeldOut]:
    check_file(path)
    with reading(path, "the held-out examples of a fit", "leave out --compare-with, or fit that model again"):
        lines = list(csv.reader(io.StringIO(path.read_text("utf-8", "surrogateescape"))))
        if not lines or lines[0] != _HEADER:
            raise ValueError(f"its first line is not {','.join(_HEADER)}")
        return _by_digest(lines)


def _by_digest(lines: Sequence[Sequence[str]]) -> dict[str, OneHeldOut]:
    """Examples with the same content are one."""
    found: dict[str, OneHeldOut] = {}
    for _, label, guess, chance, digest in lines[1:]:
        found.setdefault(digest, OneHeldOut(label, label == guess, float(chance)))
    return found


def _in_words(measured: Mapping[str, Any] | None) -> str:
    if measured is None:
        return "not measured"
    metric: Metric = measured["metric"]
    value, low, high = (in_words(metric, float(measured[key])) for key in ("value", "low", "high"))
    low, high = (high, low) if metric == "log_loss" else (low, high)
    name = str(metric).replace("_", " ")
    return f"{name} {value} (95 % interval {low} to {high}), on {int(measured['n'])} labels {measured['on']}"
