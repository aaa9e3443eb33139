"""Labeling with `ict label`, simulated: a person answers with the true class, and frozen features are learned from.

    python benchmarks/labeling.py --features DIR --out results/labeling.json [--workers 16] [--parts curves,coverage]

DIR has photos.npz and texts.npz, made by `benchmarks/features.py`: CIFAR-10 by EfficientNet-lite0 and descriptions of
Debian's packages by all-MiniLM-L6-v2, ten classes each. Every seed draws a pool and other rows. An interrupted run goes
on. Parts:

curves: accuracy on other rows, with labels that the session chose and with as many random ones, of the page's model
(the experts), of logistic regression and of ICT anchored on the experts.
coverage: how often the interval from random checks contains the accuracy that the model has at that moment on other
rows, in many short sessions.
cost: CPU seconds of the rounds of a session and of a whole `ict fit` on the same features.
page: `ict label` itself on made-up photo files. It needs the backbone and a quiet machine, so it runs only if it is
named: --parts page --out results/labeling-page.json
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from cells import Record, options, run, timed
from features import kept
from scipy.stats import binom
from simulated_person import Desk

from ict.base.array_types import Array, Labels, Rows
from ict.base.rng import fold
from ict.data.array_inputs import fit_features
from ict.data.labels import UNLABELED
from ict.estimators.auto import choose
from ict.estimators.embedding import METHOD, on_features
from ict.estimators.fitter import Fitter
from ict.estimators.verdict import wilson
from ict.experts import classical
from ict.label.estimate import Checked

DATA = ("photos", "texts")
PARTS = ("cost", "curves", "coverage")
PAGE = "page"
TARGET = 0.5  # of a person who stops as soon as the whole interval is above it
_EVERY = 10  # checks from one moment at which intervals are counted to the next


@dataclass(frozen=True)
class Cell:
    part: str
    data: str
    seed: int
    choice: str = "session"


class Size(NamedTuple):
    pool: int = 3000
    others: int = 2000
    labels: tuple[int, ...] = (10, 20, 40, 70, 100)
    with_checks: tuple[int, ...] = (40, 100)  # answers, of which one in five is a check
    small_pool: int = 1000  # of a session whose intervals are counted
    answers: int = 250  # in such a session
    fitter: Fitter = Fitter(device="cpu")
    photos: int = 3000  # files, for the page
    shown: int = 200  # answers on the page


FAST = Size(150, 150, (10, 20), (10, 20), 150, 60, Fitter(steps=20, device="cpu"), 60, 20)


def desk(x: Array, truth: Labels, n_pool: int, n_others: int, seed: int) -> Desk:
    rows = np.random.default_rng(fold(seed, n_pool)).permutation(len(x))[: n_pool + n_others]
    return Desk(x[rows], truth[rows], n_pool, seed)


def curves(x: Array, truth: Labels, cell: Cell, size: Size) -> Record:
    """Accuracies after some numbers of labels to learn from, and of answers."""
    one = desk(x, truth, size.pool, size.others, cell.seed)
    points: list[Record] = []

    def add(counted: str, n: int, rows: Rows) -> None:
        about = {"counted": counted, "n": n, "labels": len(rows), "classes": len(set(one.truth[rows].tolist()))}
        points.append(about | {"accuracy": _scores(one, rows, cell.seed, size.fitter)})

    if cell.choice == "random":
        order = np.random.default_rng(fold(cell.seed, 1)).permutation(one.n_pool)
        for n in size.labels:
            add("labels", n, order[:n])
    else:
        missing = {("labels", n) for n in size.labels} | {("answers", n) for n in size.with_checks}
        for session in one.answers():
            rows = np.array(list(session.training()), np.int64)
            for at in (("labels", len(rows)), ("answers", session.n_labels)):
                if at in missing:
                    missing.remove(at)
                    add(*at, rows)
            if not missing:
                break
    return {"pool": one.n_pool, "others": len(one.others), "points": points}


def _scores(one: Desk, rows: Rows, seed: int, fitter: Fitter) -> dict[str, float]:
    """Accuracies on the other rows of models that know the classes of `rows`."""
    inputs = fit_features(one.x[: one.n_pool])
    pool, others = inputs(one.x[: one.n_pool]), inputs(one.x[one.others])
    classes, known = np.unique(one.truth[rows], return_inverse=True)
    labels = np.full(one.n_pool, UNLABELED)
    labels[rows] = known
    page = one.accuracy(one.after(rows))
    if page is None:  # a single class
        return {}
    models = {
        "logistic": classical.logistic(pool[rows], known, seed, features=True),
        METHOD: on_features(fitter, METHOD).fit(METHOD, pool, labels, len(classes), seed).predict_proba,
    }
    truth = one.truth[one.others]
    found = {name: float((classes[ask(others).argmax(1)] == truth).mean()) for name, ask in models.items()}
    return {"page": page} | found


def coverage(x: Array, truth: Labels, cell: Cell, size: Size) -> Record:
    """The checks and their truth at every tenth check; whether each interval in between contains it, too."""
    one = desk(x, truth, size.small_pool, size.others, cell.seed)
    moments: list[Record] = []
    always, stopped, learned, accuracy = True, None, None, None
    for session, _ in zip(one.answers(), range(size.answers), strict=False):
        if session.round is not learned:
            learned, accuracy = session.round, one.accuracy(session.round)
        estimate = session.estimate()
        if estimate is None:
            continue
        moment = {"checks": estimate.n, "right": estimate.right, "truth": accuracy, "labels": len(session.training())}
        if estimate.n >= _EVERY:
            always &= covers(moment)
            if estimate.n % _EVERY == 0 and (not moments or moments[-1]["checks"] < estimate.n):
                moments.append(moment)
            if stopped is None and estimate.interval[0] >= TARGET:
                stopped = moment
    return {"pool": one.n_pool, "others": len(one.others), "moments": moments, "always": always, "stopped": stopped}


def covers(moment: Record) -> bool:
    low, high = Checked(moment["right"], moment["checks"]).interval
    return bool(low <= moment["truth"] <= high)


def cost(x: Array, truth: Labels, cell: Cell, size: Size) -> Record:
    """CPU seconds, without reading and embedding, which a fit has besides."""
    most = max(size.labels)
    rows = np.random.default_rng(fold(cell.seed, size.pool)).permutation(len(x))[: size.pool]
    x, truth, seconds, rounds = x[rows], truth[rows], dict[str, float](), []
    with timed(seconds, "start"):
        one = Desk(x, truth, len(x), cell.seed)
    sessions, learned, known = one.answers(), None, dict[int, str]()
    while len(known) < most:
        with timed(seconds, "answer"):
            session = next(sessions)
        if session.round is not learned:  # the answer came after a round
            rounds.append(seconds["answer"])
        learned, known = session.round, session.training()
    labels = np.full(len(x), UNLABELED)
    labels[list(known)] = np.unique(list(known.values()), return_inverse=True)[1]
    inputs, n_classes = fit_features(x)(x), len(set(known.values()))
    with timed(seconds, "fit"):
        choose(on_features(size.fitter, "auto"), inputs, labels, n_classes, cell.seed)
    return {"pool": len(x), "labels": len(known), "rounds": rounds, "start": seconds["start"], "fit": seconds["fit"]}


def content(records: list[Record]) -> Record:
    """Of the result file: of the intervals only their counts."""
    by_part: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_part[record["part"]].append(record)
    sessions = by_part.pop("coverage", [])
    counted = {data: counts(found) for data in DATA if (found := [one for one in sessions if one["data"] == data])}
    return {"target": TARGET, **by_part, "coverage": counted}


def counts(runs: list[Record]) -> Record:
    """How often intervals contain the truth; `by_chance`: how often they would for random checks of that truth."""
    moments: dict[int, list[Record]] = defaultdict(list)
    for one in runs:
        for moment in one["moments"]:
            moments[moment["checks"]].append(moment)
    return {
        "runs": len(runs),
        "pool": runs[0]["pool"],
        "others": runs[0]["others"],
        "moments": [{"checks": n} | _counted(found) for n, found in sorted(moments.items())],
        "always": sum(one["always"] for one in runs),
        "stopped": _counted([one["stopped"] for one in runs if one["stopped"]]),
    }


def _counted(moments: list[Record]) -> Record:
    if not moments:
        return {"runs": 0}
    return {
        "runs": len(moments),
        "covered": sum(map(covers, moments)),
        "by_chance": round(fmean(_by_chance(moment["checks"], moment["truth"]) for moment in moments), 4),
        "labels": median(moment["labels"] for moment in moments),
        "truth": round(fmean(moment["truth"] for moment in moments), 4),
        "estimate": round(fmean(moment["right"] / moment["checks"] for moment in moments), 4),
    }


def _by_chance(n: int, truth: float) -> float:
    intervals = [wilson(right, n) for right in range(n + 1)]
    contains = np.array([low <= truth <= high for low, high in intervals])
    return float(binom.pmf(np.arange(n + 1), n, truth) @ contains)


def _measure(folder: Path, size: Size, cell: Cell) -> Record:
    if cell.part == PAGE:
        from labeling_page import page  # where the page is not measured, what serves it need not be installed

        return page(size.photos, size.shown)
    x, truth = kept(folder, cell.data, Path("data"))
    measures = {"curves": curves, "coverage": coverage, "cost": cost}
    return measures[cell.part](x, truth, cell, size)


def _cells(seeds: int, runs: int, parts: list[str]) -> Iterator[Cell]:
    every = {
        "cost": [Cell("cost", data, 0) for data in DATA],
        "curves": [
            Cell("curves", data, seed, choice)
            for seed in range(seeds)
            for data in DATA
            for choice in ("session", "random")
        ],
        PAGE: [Cell(PAGE, "files", 0)],
        "coverage": [Cell("coverage", data, seed) for seed in range(runs // len(DATA)) for data in DATA],
    }
    for part in parts:
        yield from every[part]


def main() -> None:
    parser = options(__doc__.splitlines()[0], "labeling")
    parser.add_argument("--features", type=Path, default=Path("runs/features"))
    parser.add_argument("--seeds", type=int, default=5, help="of the curves")
    parser.add_argument("--runs", type=int, default=400, help="sessions whose intervals are counted")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"[default: all but {PAGE}]")
    parser.add_argument("--fast", action="store_true", help="few examples and updates, to see that it runs")
    arguments = parser.parse_args()
    cells = list(_cells(arguments.seeds, arguments.runs, arguments.parts.split(",")))
    run(cells, partial(_measure, arguments.features, FAST if arguments.fast else Size()), arguments, content)


if __name__ == "__main__":
    main()
