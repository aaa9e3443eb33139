"""What is disturbed: commands that write, each with what it reads, and what of its files must come out the same."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ict import SemiSupervisedClassifier
from ict.base.errors import UserError
from ict.data.shards import shards
from ict.data.user.answers import is_answer_file, read_answers
from ict.data.user.array_cache import read_entry
from ict.data.user.subsets import read_subsets
from ict.data.write_shards import write_shards
from ict.estimators.fitter import Fitter
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.fit.feature_file import embed_files
from ict.fit.fit import fit_files
from ict.fit.predict import predict_files
from ict.label.log import AnswerLog
from ict.label.session import Session
from ict.models.onnx import export_onnx
from ict.models.saved_model import unfinished
from ict.recipes.recipe import change
from ict.studies.search import plan_search, search
from ict.studies.trials import plan_trials, run_trials
from ict.studies.workers import Place
from tests.tiny import BACKBONE, outcome, tiny

SHORT = ("train.steps=6", "eval.every=3", "eval.log_every=2", "network.width=2")
_UNSTABLE = ("seconds", "finished", "resumed_from", "commit", "worker", "file", "progress")


class Scenario(ABC):
    """A command in a folder of its own: `inputs` are there before it runs, `outputs` are what it is about."""

    def prepare(self, root: Path) -> None:
        """Write what the command reads: by default nothing."""
        return

    @abstractmethod
    def run(self, root: Path) -> None:
        """The command; run again after a crash it must bring its work to an end."""

    @abstractmethod
    def seems_done(self, root: Path) -> bool:
        """Whether a reader would take the outputs for whole, right after a crash too."""

    @abstractmethod
    def outputs(self, root: Path) -> Any:
        """What must not depend on whether there was a crash."""


class Train(Scenario):
    def run(self, root: Path) -> None:
        recipe = change(tiny(), SHORT)
        train(recipe, seed=1, out=root / "run", resume=True, checkpoint_seconds=0, device="cpu")

    def seems_done(self, root: Path) -> bool:
        return (root / "run/result.json").exists()

    def outputs(self, root: Path) -> Any:
        folder = Folder(root / "run")
        metrics = [{k: v for k, v in record.items() if k != "seconds"} for record in folder.read_metrics()]
        return [folder.model.read_bytes(), outcome(json.loads(folder.result.read_text())), metrics]


class Fit(Scenario):
    """On vectors; `ict fit` refuses a folder that holds a whole model, which is as good as writing it."""

    def prepare(self, root: Path) -> None:
        rng = np.random.default_rng(0)
        truth = np.arange(60) % 2
        x = (rng.normal(size=(60, 3)) + 4 * truth[:, None]).astype(np.float32)
        np.savez(root / "data.npz", x=x, y=np.where(np.arange(60) < 16, truth, -1))

    def data(self, root: Path) -> Path:
        return root / "data.npz"

    def run(self, root: Path) -> None:
        given = read_subsets(self.data(root))
        try:
            fit_files(given, root / "model", "supervised", Fitter(None, 5, device="cpu"), 0)
        except UserError:
            if unfinished(root / "model") != "":
                raise

    def seems_done(self, root: Path) -> bool:
        return unfinished(root / "model") == ""

    def outputs(self, root: Path) -> Any:
        names = ("model.safetensors", "labels.json", "predictions.csv", "next.csv", "held_out.csv")
        config = json.loads((root / "model/config.json").read_text())
        return [config, *((root / "model" / name).read_bytes() for name in names)]


class FitImages(Fit):
    """With decoded images in the cache, which may lack an entry after an error but never has a broken one."""

    def prepare(self, root: Path) -> None:
        rng = np.random.default_rng(0)
        for i in range(18):
            folder = root / "photos" / ("dark", "light", "unlabeled")[i % 3]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 80, (8, 8), np.uint8) + (120 if i % 3 == 1 else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")

    def data(self, root: Path) -> Path:
        return root / "photos"

    def outputs(self, root: Path) -> Any:
        return [*super().outputs(root), *broken_entries(root)]


class Embed(FitImages):
    """Features of photos, which are cached too."""

    def run(self, root: Path) -> None:
        embed_files(root / "photos", root / "features.npz", BACKBONE, "cpu")

    def seems_done(self, root: Path) -> bool:
        return (root / "features.npz").exists()

    def outputs(self, root: Path) -> Any:
        with np.load(root / "features.npz") as archive:
            return [{name: archive[name].tolist() for name in archive.files}, *broken_entries(root)]


def broken_entries(root: Path) -> list[Path]:
    """Entries of the cache, and what is left of some, that would not be read."""
    known = {path.parent for path in (root / "cache").rglob("rows")}
    return [entry for entry in sorted(known) if entry.suffix != ".tmp" and read_entry(entry) is None]


class Label(Scenario):
    """Twelve answers, each of which is on the disk before the next."""

    names = tuple(f"{i}.jpg" for i in range(12))

    def run(self, root: Path) -> None:
        with AnswerLog(root / "labels.csv") as log:
            session = Session(self.names, log, digest=lambda row: f"digest {row}")
            for row in range(len(self.names)):
                if row not in session.answers:
                    session.answer([row], "ab"[row % 2])

    def seems_done(self, root: Path) -> bool:
        return (root / "labels.csv").exists() and len(self.outputs(root)) == len(self.names)

    def outputs(self, root: Path) -> Any:
        answers = read_answers(root / "labels.csv")[0] if is_answer_file(root / "labels.csv") else []
        return [(one.example, one.label, one.kind, one.digest) for one in answers]


class Predict(Fit):
    def prepare(self, root: Path) -> None:
        super().prepare(root)
        super().run(root)

    def run(self, root: Path) -> None:
        predict_files(root / "model", root / "data.npz", root / "predictions.csv", skip_bad=False)

    def seems_done(self, root: Path) -> bool:
        return (root / "predictions.csv").exists()

    def outputs(self, root: Path) -> Any:
        return (root / "predictions.csv").read_bytes()


class Save(Fit):
    """A fitted estimator; it refuses a folder that holds a model already, as `ict fit` does."""

    def run(self, root: Path) -> None:
        with np.load(root / "data.npz") as archive:
            x, y = archive["x"], archive["y"]
        model = SemiSupervisedClassifier("supervised", steps=5, device="cpu", random_state=0).fit(x, y)
        try:
            model.save(root / "model")
        except UserError:
            if unfinished(root / "model") != "":
                raise

    def outputs(self, root: Path) -> Any:
        names = ("config.json", "model.safetensors", "labels.json", "README.md")
        return [(root / "model" / name).read_bytes() for name in names]


class Export(Predict):
    def run(self, root: Path) -> None:
        export_onnx(root / "model", root / "model.onnx")

    def seems_done(self, root: Path) -> bool:
        return (root / "model.onnx").exists()

    def outputs(self, root: Path) -> Any:
        return (root / "model.onnx").read_bytes()


class Shard(Scenario):
    """It refuses a folder that is there, which is as good as writing it."""

    def run(self, root: Path) -> None:
        x, y = np.arange(160, dtype=np.uint8).reshape(10, 1, 4, 4), np.arange(10) % 2
        try:
            write_shards(root / "shards", {"train": [(x, y)], "test": [(x[:2], y[:2])]}, ["a", "b"], 4)
        except UserError:
            if not self.seems_done(root):
                raise

    def seems_done(self, root: Path) -> bool:
        return (root / "shards").exists()

    def outputs(self, root: Path) -> Any:
        data = shards(root / "shards", 0, verify=True)
        return [data.train.x[:].tolist(), data.train.y[:].tolist(), data.test.x[:].tolist()]


class Search(Scenario):
    def run(self, root: Path) -> None:
        place = Place("", 1, "cpu", grace=0.3, checkpoint_seconds=0.0)
        params = ["train.weight=1.0,5.0"]
        search(plan_search(change(tiny(), SHORT), place, params=params, prune=False, out=root / "search"))

    def seems_done(self, root: Path) -> bool:
        return (root / "search/search.json").exists()

    def outputs(self, root: Path) -> Any:
        summary = json.loads((root / "search/search.json").read_text())
        return [(root / "search/winner.json").read_bytes(), _stable(summary)]


class Trials(Scenario):
    def prepare(self, root: Path) -> None:
        recipe = change(tiny("supervised"), SHORT)
        (root / "tiny.json").write_text(json.dumps(recipe.to_dict()))

    def run(self, root: Path) -> None:
        place = Place("", 1, "cpu", grace=0.3, checkpoint_seconds=0.0)
        recipes, results = [str(root / "tiny.json")], root / "results"
        ended = run_trials(plan_trials(recipes, place, seeds="0-1", out=root / "runs", results=results))
        if any(trial.outcome != "complete" for trial in ended):
            raise UserError(f"a trial failed: {[trial.notes.get('error') for trial in ended]}")

    def seems_done(self, root: Path) -> bool:
        return (root / "results").exists() and len(list((root / "results").glob("*.json"))) == 2

    def outputs(self, root: Path) -> Any:
        return [_stable(json.loads(path.read_text())) for path in sorted((root / "results").glob("*.json"))]


def _stable(content: Any) -> Any:
    """JSON without what differs between two equal runs."""
    if isinstance(content, dict):
        return {key: _stable(value) for key, value in content.items() if key not in _UNSTABLE}
    return [_stable(value) for value in content] if isinstance(content, list) else content


SCENARIOS: dict[str, Scenario] = {
    "train": Train(),
    "fit": Fit(),
    "fit-images": FitImages(),
    "predict": Predict(),
    "embed": Embed(),
    "label": Label(),
    "save": Save(),
    "export": Export(),
    "shard": Shard(),
    "search": Search(),
    "trials": Trials(),
}
