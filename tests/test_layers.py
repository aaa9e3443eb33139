"""A folder imports itself and those below it, never upward, and no module imports itself by way of others."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import ict

SOURCE = Path(ict.__file__).parent
ROOT = Path(__file__).parent.parent
# Lowest first: a module imports those of the same or an earlier line. The longest name that fits a module counts.
ORDER = [
    "base",
    "ops",
    "contract",
    "networks",
    "algorithms",
    "data",
    "data.columns",
    "data.user",
    "engine.settings",
    "engine.optimizers",
    "engine.fast.kernels",
    "engine",
    "engine.fast",
    "backbones",
    "experts",
    "recipes",
    "experiment",
    "report",
    "models",
    "estimators",
    "fit",
    "label",
    "paper",
    "studies",
    "cli",
]
PUBLIC = {"", "__main__"}  # `ict` itself, which imports on first use, and `python -m ict`


def module(path: Path) -> str:
    """The name of a module within the package: "" for the package, "data.user" for data/user/__init__.py."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {module(path): path for path in SOURCE.rglob("*.py")}


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of this package that a module imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(MODULES[name].read_text())))
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), f"{name} imports relatively"
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            imported += [i if i.removeprefix("ict.") in MODULES else node.module for i in inner]
    return frozenset(i.removeprefix("ict").removeprefix(".") for i in imported if i.split(".")[0] == "ict") - {""}


def layer(name: str) -> int:
    fitting = [place for place in ORDER if f"{name}.".startswith(f"{place}.")]
    assert fitting, f"{name} is in no layer: give its folder a place in ORDER"
    return ORDER.index(max(fitting, key=len))


def test_layers_only_look_down() -> None:
    assert len(MODULES) > 100 and all(any(layer(m) == i for m in MODULES.keys() - PUBLIC) for i in range(len(ORDER)))
    for name in MODULES.keys() - PUBLIC:
        for imported in imports(name):
            assert layer(imported) <= layer(name), f"{name} imports {imported}, which is above it"


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not even inside of a function, or for types only. `graphlib` names the modules of a cycle."""
    order = list(TopologicalSorter({name: imports(name) for name in MODULES.keys() - PUBLIC}).static_order())
    assert len(order) == len(MODULES) - len(PUBLIC)


def test_every_folder_says_what_it_holds_and_imports_and_few_files_have_no_folder() -> None:
    for path in MODULES.values():
        if path.name == "__init__.py" and path.parent != SOURCE:
            said = ast.get_docstring(ast.parse(path.read_text())) or ""
            assert "mport" in said and len(said.splitlines()) > 1, (
                f"{path}: say what lives here, and what it may import"
            )
    assert len(list(SOURCE.glob("*.py"))) <= 6


def test_the_architecture_page_lists_the_folders_in_order_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    folders: dict[str, set[str]] = {}
    for cells in rows[: next(i for i, cells in enumerate(rows) if "`cli`" in cells[0]) + 1]:
        named = [name.removesuffix(".py").replace("/", ".") for name in re.findall("`([^`]+)`", cells[0])]
        folders |= {name: set(re.findall("`([^`]+)`", cells[2])) for name in named}
    assert list(folders) == ORDER
    for folder, files in folders.items():
        assert all(f"{folder}.{file}" in MODULES for file in files), f"{folder} has not all of {sorted(files)}"
    for step in re.findall("`([a-z]+/[a-z_/]+)`(?: ->|,|\\.)", page):
        assert step.replace("/", ".") in MODULES, step


def test_only_their_own_files_say_compile_and_distributed() -> None:
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        for word, home in (
            ("torch.compile", "engine.fast.forward"),
            ("cuda.graph", "engine.fast.cuda_graph"),
            ("torch.distributed", "engine.distributed"),
        ):
            assert word not in source or module(path) == home, f"{path} says {word}"
