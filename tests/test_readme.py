"""The README's commands and examples, executed in shortened form, and its numbers, which a command wrote."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from ict import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if line.startswith("ict ")
]
SHORTER = {
    "digits-100/ict": ["train.steps=4", "network.width=4"],
    "mine.json": ["train.steps=4"],
    "cifar10-4000/ict-fast": [
        "train.steps=1", "train.labeled_batch=2", "train.unlabeled_batch=2", "split.labeled=20", "split.valid=20",
        "eval.test_limit=4",
    ],
}  # fmt: skip


def tiny_cifar10(folder: Path) -> None:
    """Official binary batches of 60 images each."""
    batches = folder / "cifar-10-batches-bin"
    batches.mkdir(parents=True)
    draws = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        rows = draws.integers(0, 256, (60, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(60) % 10
        rows.tofile(batches / f"{name}.bin")


def some_photos(folder: Path) -> None:
    images, truth = load_digits(return_X_y=True)
    for i in range(60):
        home = folder / (("cat", "dog")[truth[i] % 2] if i < 20 else "unlabeled")
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[i].reshape(8, 8) * 15).astype(np.uint8)).save(home / f"{i}.png")


def run(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code


(FIT,) = [words for words in COMMANDS if words[1] == "fit"]


@pytest.mark.filterwarnings("ignore:fast mode needs a GPU")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (recipe,) = [block for language, block in BLOCKS if language == "json"]
    Path("mine.json").write_text(recipe)
    if "DIR" in words:
        monkeypatch.setattr("ict.data.cifar10.RECORDS", 60)
        tiny_cifar10(tmp_path / "DIR")
    if words[1] == "train":
        words = [*words, *(word for setting in SHORTER[words[2]] for word in ("--set", setting))]
    if words[1] == "compare":
        words = [*words, "--budget", "4", "--set", "network.width=4", "--seeds", "1"]
    if words[1] == "figure":
        words = ["1" if word == "10" else word for word in words]
    if words[1] in ("search", "trials"):
        words = [*words, "--workers", "1", *(w for setting in SHORTER["digits-100/ict"] for w in ("--set", setting))]
        words = ["0-0" if word == "0-2" else word for word in words]
    if words[1] in ("fit", "predict", "export"):
        monkeypatch.setenv("ICT_CACHE", str(tmp_path / "cache"))
        some_photos(tmp_path / "photos")
        if words[1] != "fit":
            run(monkeypatch, [*FIT, "--method", "ict", "--steps", "8"])  # on pixels, without the backbone
    if words[1] == "fit":
        words = [*words, "--steps", "8"]
    run(monkeypatch, words)
    if words[1] == "fit":
        assert {"model.safetensors", "predictions.csv", "next.csv", "report.html"} <= {
            path.name for path in Path("model").iterdir()
        }
    if words[1] == "export":
        assert Path("model.onnx").exists()
    if words[1] == "search":
        assert len(list(tmp_path.glob("runs/search/**/winner.json"))) == 1
    if words[1] == "train":
        assert len(list(tmp_path.glob("runs/*/*/seed*/result.json"))) == 1
    if words[1] == "compare":
        assert {path.name for path in Path("runs/compare/digits-100").glob("compare.*")} == {
            "compare.json", "compare.md", "compare.png",
        }  # fmt: skip
    if words[1] == "figure":
        assert Path("moons.png").read_bytes().startswith(b"\x89PNG") and Path("moons.json").exists()


def test_it_has_commands_of_every_kind() -> None:
    kinds = {"list", "train", "show", "compare", "table", "figure", "search", "trials", "fit", "predict", "export"}
    assert {words[1] for words in COMMANDS} == kinds


PYTHON = [block for language, block in BLOCKS if language == "python"]


def test_the_three_line_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ict.estimators.default_recipes.default_steps", lambda n: 40)
    images, truth = load_digits(return_X_y=True)
    names = {"X": images[:300].reshape(-1, 8, 8), "y": np.where(np.arange(300) < 60, truth[:300], -1)}
    names["X_new"] = images[300:310].reshape(-1, 8, 8)
    exec(PYTHON[0], names)
    assert len(names["model"].transduction_) == 300 and len(names["guesses"]) == 10


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(PYTHON[1], {})
    error, shape = capsys.readouterr().out.split(" ", 1)
    assert float(error) < 0.2 and "100, 3" in shape


def test_the_first_screen_installs_fits_and_says_what_it_gives() -> None:
    screen = "\n".join(README.splitlines()[:40])
    languages = [language for language, _ in re.findall(r"```(\w+)\n(.*?)```", screen, flags=re.DOTALL)]
    assert languages == ["sh", "python", "sh"] and "pip install '.[photos]'" in screen and "ict fit photos" in screen
    assert "<!-- end gives -->" in screen and len(list(filter(None, PYTHON[0].splitlines()))) == 3


def test_the_two_commands_are_the_makefiles() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert re.search(r"^demo: setup\n\t\$\(BIN\)/ict demo$", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("tool", ["package_runs.py", "render.py", "methods.py"])
def test_numbers_and_pages_come_from_code_and_result_files(tool: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_short_and_the_tree_is_true() -> None:
    assert len(README.splitlines()) <= 140
    tree = README.split("src/ict/ ")[1].split("```")[0]
    lines = tree.splitlines()[1:]
    folders = {path.name for path in (ROOT / "src/ict").iterdir() if (path / "__init__.py").exists()}
    assert folders - {"report"} <= {name for line in lines for name in line.split()}, "every folder but report"
    for line in lines:
        names = line.split("  ")[1].split() if line.startswith("  ") else line.split("  ")[0].split()
        for name in names:
            assert (ROOT / "src/ict" / name).exists() or (ROOT / name).exists(), name
