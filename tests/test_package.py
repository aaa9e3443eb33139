"""The wheel: built, installed into an empty environment, and run there."""

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from ict import __version__

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name == f"ict_ssl-{__version__}-py3-none-any.whl"
    assert {"ict/py.typed", "ict/paper/our_runs.json", "ict/cli/options.py", "ict/algorithms/ict.py"} <= set(names)
    assert {n.split("/")[0] for n in names} == {"ict", f"ict_ssl-{__version__}.dist-info"}
    assert any(n.endswith("LICENSE") for n in names)


def test_the_sdist_builds_the_same_wheel_and_carries_no_results_and_no_tools(wheel: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
        archive.extractall(tmp_path, filter="data")
    assert {"pyproject.toml", "LICENSE", "README.md", "CITATION.cff", "src/ict/py.typed"} <= set(names)
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert folders == {"src", "examples"}, "results, tools and tests stay in the repository"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=tmp_path / built.name.removesuffix(".tar.gz"), check=True, capture_output=True)
    (again,) = tmp_path.glob("*.whl")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_it_runs_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are lent by a path file: they are large, and pip would have to fetch them again."""
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True, capture_output=True
    )
    lent = next(p for p in sys.path if (Path(p) / "torch").is_dir())
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(lent)

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str | Path) -> str:
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return done.stdout

    assert run(home / "bin" / "ict", "--version") == f"ict {__version__}\n"
    where = run(python, "-c", "import ict; print(ict.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    assert "10.36 ± 0.71 (3; 188 s)" in run(home / "bin" / "ict", "table", "cifar10")
    short = ("--set", "train.steps=3", "--set", "network.width=4")
    assert "test error" in run(home / "bin" / "ict", "train", "digits-100/ict", "--out", tmp_path / "run", *short)
    assert "test error" in run(python, "-m", "ict", "evaluate", tmp_path / "run")


def test_the_pinned_versions_satisfy_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(
        line.lower().replace("-", "_").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and line[0] != "#"
    )
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    for requirement in (*project["dependencies"], *extras):
        name, _, least = requirement.replace("-", "_").partition(">=")
        if name.startswith("ict_ssl["):
            continue  # our own extras, which are in the list
        have = [int(n) for n in pinned[name.partition("[")[0]].split("+")[0].split(".") if n.isdigit()]
        assert have >= [int(n) for n in least.split(".")], requirement
    assert not {"torchvision", "timm", "torchaudio"} & set(pinned)


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
