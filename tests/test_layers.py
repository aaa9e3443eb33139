"""A folder imports itself and those below it, never upward."""

import ast
from pathlib import Path

import ict

SOURCE = Path(ict.__file__).parent
# Lowest first: a folder imports those before it and itself, never those after it.
ORDER = [
    "base",
    "ops",
    "contract",
    "networks",
    "algorithms",
    "data",
    "engine",
    "backbones",
    "experts",
    "recipes",
    "experiment",
]
ORDER += ["report", "models", "estimators", "fit", "paper", "studies", "cli"]


def imports(path: Path) -> set[str]:
    """Top-level modules of this package that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    modules = [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    modules += [f"ict.{a.name}" for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "ict" for a in n.names]
    modules += [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    return {m.split(".")[1] for m in modules if m.startswith("ict.")}


def test_layers_only_look_down() -> None:
    files = [p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.stem not in ("__init__", "__main__")]
    assert len(files) > 30
    for path in files:
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for name in imports(path) - {"__version__"}:
            assert ORDER.index(name) <= ORDER.index(own), f"{path} imports {name}, which is above {own}"


def test_only_their_own_files_say_compile_and_distributed() -> None:
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        for word, home in (
            ("torch.compile", "cuda_graph"),
            ("cuda.graph", "cuda_graph"),
            ("torch.distributed", "distributed"),
        ):
            assert word not in source or path.stem in (home, "contract")
