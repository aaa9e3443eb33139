"""The folder of a run: the names of its files, and whether a run may start or continue in it."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from ict.base.errors import CannotWrite, UserError
from ict.base.fields import check
from ict.base.files import read_json, text_lines, write_atomic, write_json
from ict.base.folder_lock import locked
from ict.base.reading import check_file, reading
from ict.data.split import Indices
from ict.engine import checkpoint
from ict.experiment.result import Result, checked
from ict.recipes.recipe import Recipe, from_dict


class Folder:
    """The files of one run. Each is written atomically, except `metrics.jsonl`, which grows line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.json"
        self.split = path / "split.npz"
        self.metrics = path / "metrics.jsonl"
        self.inputs = path / "inputs.safetensors"
        self.prior = path / "prior.safetensors"
        self.model = path / "model.safetensors"
        self.result = path / "result.json"

    def check(self, recipe: Recipe, seed: int, *, resume: bool, force: bool) -> bool:
        """Raise a UserError if the folder holds another run, or this one without `resume`.

        Returns whether a changed recipe is continued by `force`.
        """
        if not self.recipe.exists():
            if checkpoint.exists(self.path):
                raise UserError(
                    f"{self.path} holds checkpoints of a run whose {self.recipe.name} is missing: pass another --out."
                )
            return False
        if not resume:
            raise UserError(f"{self.path} already holds a run: pass --resume to continue it, or another --out.")
        changed = _differences(_description(*self.load_recipe(recipe.outside_code)), _description(recipe, seed))
        if "seed" in changed:
            raise UserError(f"{self.path} holds the run of another seed: pass another --out.")
        if changed and not force:
            raise UserError(
                f"{self.path} holds another run ({', '.join(changed)} differ): "
                "pass another --out, or --force to continue it with the changed recipe."
            )
        return bool(changed)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Create the folder if needed and lock it against other processes. The lock ends with the process."""
        with self._writable():
            self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            yield

    def create(self, recipe: Recipe, seed: int, changed_at: list[int], prior: str | None = None) -> None:
        """Write the recipe of this run. The old result of a run continued by force is no longer valid and deleted.

        `prior`: the digest of what experts say of its examples.
        """
        changed: dict[str, Any] = {"changed_at": changed_at} if changed_at else {}
        named = {} if prior is None else {"prior": prior}
        with self._writable():
            self.result.unlink(missing_ok=True)
            hashes = list(dict.fromkeys([*self.hashes(recipe.outside_code), recipe.hash]))
            write_json(self.recipe, _description(recipe, seed) | changed | {"hashes": hashes} | named)

    def hashes(self, allow_code: Collection[str] = ()) -> list[str]:
        """The hashes of the recipe and, if the run was continued by force, of the earlier recipes."""
        if not self.recipe.exists():
            return []
        # release 0.1.0 did not write them
        return list(self._note("hashes", tuple[str, ...], ())) or [self.load_recipe(allow_code)[0].hash]

    def check_owner(self, owner: Any, what: str) -> None:
        """Raise a UserError if a file belongs to another run. Files of release 0.1.0 have no owner."""
        if not owner:
            return
        seed = self._note("seed", int, 0)
        if owner not in [{"recipe_id": digest, "seed": seed} for digest in self.hashes()]:
            raise UserError(f"{what} belongs to another run ({owner}) than {self.recipe}: pass another --out.")

    def check_prior(self, prior: str) -> None:
        """Raise a UserError if the prior is not the one that the run started with."""
        before = read_json(self.recipe).get("prior", prior) if self.recipe.exists() else prior
        if before != prior:
            raise UserError(
                f"{self.prior} is not the prior that the run began with: restore it, pass another --out, "
                "or --force to continue with a newly computed one."
            )

    @property
    def changed_at(self) -> list[int]:
        """The update counts after which the run was continued by force with another recipe."""
        return list(self._note("changed_at", tuple[int, ...], ())) if self.recipe.exists() else []

    def _note(self, name: str, kind: Any, default: Any) -> Any:
        """What recipe.json says of the run, beside the recipe itself."""
        return check(read_json(self.recipe).get(name, default), kind, f"{name} in {self.recipe}")

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise CannotWrite(
                f"cannot write to {self.path} ({problem.strerror}): choose another folder with --out."
            ) from None

    def load_recipe(self, allow_code: Collection[str] = ()) -> tuple[Recipe, int]:
        """The recipe and the seed of the run. Its components must be registered or listed in `allow_code`."""
        if not self.recipe.exists():
            raise UserError(f"{self.path} holds no run: there is no {self.recipe.name} in it.")
        content = read_json(self.recipe)
        try:
            return from_dict(content, allow_code=allow_code), self._note("seed", int, 0)
        except UserError as mistake:
            raise UserError(f"{self.recipe}: {mistake}") from None

    def load_result(self) -> Result | None:
        if not self.result.exists():
            return None
        result = checked(read_json(self.result), str(self.result))
        self.check_owner({"recipe_id": result["recipe_id"], "seed": result["seed"]}, str(self.result))
        return result

    def save_result(self, result: Result) -> None:
        write_json(self.result, result)

    def save_split(self, indices: Indices, owner: Mapping[str, Any]) -> None:
        replace(indices, owner=json.dumps(owner, sort_keys=True)).save(self.split)

    def load_split(self) -> Indices:
        indices = Indices.load(self.split)
        with reading(self.split, "a saved split", "restore or delete it"):
            self.check_owner(json.loads(indices.owner or "{}"), str(self.split))
        return indices

    def cut_metrics(self, step: int) -> None:
        """Drop the lines after `step`, which a resumed run writes again, and an incomplete last line after a crash."""
        if not self.metrics.exists():
            return
        kept = []
        for line in text_lines(self.metrics):
            try:
                record = _metrics(line)
            except (ValueError, RecursionError):
                break
            if record["step"] <= step:
                kept.append(line + "\n")
        write_atomic(self.metrics, "".join(kept).encode())

    def add_metrics(self, record: dict[str, Any]) -> None:
        try:
            with self.metrics.open("a") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as problem:
            raise CannotWrite(
                f"{self.metrics} cannot be written ({problem.strerror}): make room there; "
                "the same command with --resume continues from the last checkpoint."
            ) from None

    def read_metrics(self) -> list[dict[str, Any]]:
        lines = text_lines(self.metrics) if self.metrics.exists() else []
        with reading(self.metrics, "lines of metrics", "delete it, or run again"):
            return [_metrics(line) for line in lines]

    def save_tensors(self, path: Path, tensors: dict[str, Tensor], owner: Mapping[str, Any] | None = None) -> None:
        write_atomic(path, serialized(tensors, owner))

    def load_tensors(self, path: Path) -> dict[str, Tensor]:
        if not path.exists():
            raise UserError(f"{path} is missing: finish the run with 'ict train ... --resume'.")
        check_file(path)
        with reading(path, "a safetensors file", "restore it, or run again"):
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
            owner, tensors = json.loads(header.get("owner", "{}")), load_file(path)
        self.check_owner(owner, str(path))
        return tensors


def _metrics(line: str) -> dict[str, Any]:
    """A line of metrics; ValueError for anything else."""
    record = json.loads(line)
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        raise ValueError("a line without a step")
    return record


def owner(recipe: Recipe, seed: int) -> dict[str, Any]:
    """The identity of a run, which its files contain."""
    return {"recipe_id": recipe.hash, "seed": seed}


def serialized(tensors: dict[str, Tensor], owner: Mapping[str, Any] | None = None) -> bytes:
    """Tensors in safetensors format with `owner` in the header; contiguous copies, since it rejects shared memory."""
    # one entry: safetensors writes several in an order of chance
    header = {"owner": json.dumps(owner, sort_keys=True)} if owner else None
    return save({name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}, header)


def _description(recipe: Recipe, seed: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(recipe.to_dict()))  # tuples become lists, as on disk
    return {"name": recipe.name, "seed": seed, **content}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The keys in which two run descriptions differ, apart from the name."""
    flat = [
        {
            f"{k}.{n}" if isinstance(v, dict) else k: x
            for k, v in content.items()
            if k != "name"
            for n, x in (v.items() if isinstance(v, dict) else [("", v)])
        }
        for content in (old, new)
    ]
    missing = object()
    return sorted(
        key for key in flat[0].keys() | flat[1].keys() if flat[0].get(key, missing) != flat[1].get(key, missing)
    )
