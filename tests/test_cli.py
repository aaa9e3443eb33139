"""The command as a user types it: output, exit codes, and what is imported on the way."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ict import __version__, cli
from ict.algorithms import ALGORITHMS
from ict.recipes import RECIPES

SHORT = ["--set", "train.steps=12", "--set", "network.width=4", "--set", "eval.test_limit=60"]


def ict(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    """Run the command in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["ict", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    code = end.value.code
    return code if isinstance(code, int) else int(code is not None)


def assert_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, says: str, *words: str | Path
) -> None:
    """In this folder the command ends with one sentence and exit code 2, and writes nothing."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    assert ict(monkeypatch, *words) == 2
    said = capsys.readouterr()
    assert says in said.err.replace("\n", " ") and "Traceback" not in said.err and said.out == ""
    assert sorted(folder.rglob("*")) == before, "nothing half-written is left behind"


def test_train_evaluate_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert ict(monkeypatch, "train", "digits-100/ict", "--seed", "1", "--out", out, *SHORT, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first == json.loads((out / "result.json").read_text())
    assert first["recipe"] == "digits-100/ict" and first["seed"] == 1 and first["partial"] and first["n_test"] == 60

    assert ict(monkeypatch, "evaluate", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["test_error"] == first["test_error"]
    assert ict(monkeypatch, "evaluate", out) == 0
    assert f"{first['test_error']:.2%} of 60" in capsys.readouterr().out

    assert ict(monkeypatch, "train", "digits-100/ict", "--seed", "1", "--out", out, *SHORT, "--resume") == 0
    text = capsys.readouterr().out
    assert f"test error {100 * first['test_error']:.2f} %" in text and str(out) in text and "partial" in text

    assert ict(monkeypatch, "train", "digits-100/ict", "--seed", "1", "--out", out, *SHORT) == 2
    assert "--resume" in capsys.readouterr().err


def test_the_default_folder_is_named_after_recipe_hash_and_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ict(monkeypatch, "train", "digits-100/supervised", *SHORT) == 0
    (result,) = tmp_path.glob("runs/digits-100-supervised/*/seed0/result.json")
    assert json.loads(result.read_text())["recipe_id"] == result.parent.parent.name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "digits-100/itc"], "digits-100/ict"),
        (["train", "digits-100/ict", "--set", "algorithm.alpa=1"], "algorithm.alpha"),
        (["train", "digits-100/ict", "--set", "train.steps=none"], "whole number"),
        (["train", "nowhere.json"], "nowhere.json"),
        (["train", "digits-100/ict", "--device", "gpu"], "cuda"),
        (["train", "cifar10-4000/ict"], "ICT_DATA"),
        (["train", "svhn-1000/ict", "--data-dir", "nowhere"], "train_32x32.mat"),
        (["evaluate", "nowhere"], "recipe.json"),
        (["data", "mnist", "x"], "cifar10"),
        (["list", "recipe"], "recipes"),
        (["figure", "sun"], "moons"),
        (["figure", "moons", "-o", "nodir/moons.png"], "nodir is not a folder"),
        (["figure", "moons", "-o", "moons.txt"], "png"),
        (["figure", "moons", "--recipe", "digits-100/ict"], "digits-100/ict is for digits"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_with_exit_code_2(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    no_data_folder: None,
) -> None:
    assert_refused(monkeypatch, capsys, tmp_path, says, *words)


def test_a_diverged_run_tells_the_step_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wild = ["--set", "optimizer.lr=1e20", "--set", "rate.shape=constant", "--set", "train.steps=60"]
    assert (
        ict(monkeypatch, "train", "digits-100/ict", "--out", tmp_path / "run", "--set", "network.width=4", *wild) == 1
    )
    said = capsys.readouterr().err
    assert "not finite at step" in said and "optimizer.lr" in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "--resume"),
        (OSError(errno.ENOSPC, "No space left on device", "a.json"), 2, "a.json: No space left on device: make room"),
        (PermissionError(errno.EACCES, "Permission denied", "a.json"), 2, "a.json: Permission denied: check its place"),
        (MemoryError(), 2, "not enough memory: use fewer"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"), 2, "not enough memory: use"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), 2, "not enough memory: use fewer"),
    ],
)
def test_an_interruption_and_a_lack_of_room_are_told_without_a_traceback(
    problem: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("ict.experiment.run_folder.Folder.save_result", fail)
    assert ict(monkeypatch, "train", "digits-100/ict", "--out", tmp_path / "run", *SHORT) == code
    said = capsys.readouterr().err
    assert says in said and "Traceback" not in said and len(said.splitlines()) == 1


def test_a_bug_stays_a_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("ict.experiment.run_folder.Folder.save_result", fail)
    monkeypatch.setattr(sys, "argv", ["ict", "train", "digits-100/ict", "--out", str(tmp_path / "run"), *SHORT])
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()


def test_list_prints_one_name_a_line_when_piped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, "list") == 0
    assert capsys.readouterr().out.splitlines() == list(RECIPES)
    assert ict(monkeypatch, "list", "algorithms") == 0
    assert capsys.readouterr().out.splitlines() == list(ALGORITHMS)


def test_list_shows_the_papers_numbers_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert ict(monkeypatch, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("cifar10-4000/ict ") and "7.29 ± 0.02" in line for line in lines)


def imported_by(code: str, *arguments: str) -> set[str]:
    """Top-level modules that are loaded after running `code` in a fresh interpreter."""
    script = f"import sys\nsys.argv = ['ict', *{list(arguments)!r}]\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    script += "print('\\n' + ' '.join(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "networks"], ["--version"], ["search", "--help"]])
def test_help_and_list_do_not_wait_for_torch(words: list[str]) -> None:
    heavy = {"torch", "numpy", "sklearn", "matplotlib", "optuna", "tensorboard"}
    assert not imported_by("import ict.cli; ict.cli.main()", *words) & heavy


def test_the_estimators_load_torch_when_they_are_fitted() -> None:
    construct = "from ict import ICTClassifier, SemiSupervisedClassifier; ICTClassifier(steps=3).get_params()"
    assert "torch" not in imported_by(construct)
    assert "torch" in imported_by(construct + "; ICTClassifier(steps=1).fit([[0.0, 1.0], [1.0, 0.0]] * 4, [0, 1] * 4)")


def test_importing_the_package_is_light() -> None:
    assert not imported_by("import ict") & {"matplotlib", "typer", "sklearn", "torch"}
    assert not imported_by("import ict; ict.train; ict.from_arrays") & {"matplotlib", "typer", "sklearn"}


def test_own_tensors_train_without_scikit_learn() -> None:
    script = """
import sys
sys.modules["sklearn"] = None  # any import of it now fails
import ict, torch
x = torch.randn(60, 4)
data = ict.from_arrays(x, torch.arange(60) % 3)
print(ict.train("digits-100/ict", data=data, network=torch.nn.Linear(4, 3), settings=["train.steps=3"]).result["steps"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_python_m_ict_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "ict", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ict {__version__}\n"


def test_show_prints_a_recipe_with_its_note_and_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, "show", "cifar10-4000/pi", "--set", "train.steps=7") == 0
    name, reported, note, *lines = capsys.readouterr().out.splitlines()
    recipe = RECIPES["cifar10-4000/pi"]
    assert recipe.reported is not None and note == recipe.note and "Laine" in note
    assert name == "cifar10-4000/pi" and f"{recipe.reported.mean} ± {recipe.reported.std} %" in reported
    assert {"train.steps=7", "train.layout=within", "train.weight=8.0", "inputs.zca_epsilon=1e-05"} <= set(lines)
    assert ict(monkeypatch, "show", "cifar10-4000/pi", "--json") == 0
    assert json.loads(capsys.readouterr().out) == recipe.resolved().to_dict()
