"""A file imports its own layer and lower ones, never upward."""

import ast
from pathlib import Path

import ict

SOURCE = Path(ict.__file__).parent
LAYERS = [
    {"errors", "fields", "files", "labels", "registry", "ops", "rng", "schedules", "contract", "settings"},
    {"networks", "algorithms", "averages", "data", "graph", "folds", "inputs", "verdict"}
    | {"calibration", "held_out", "suggest"},
    {"engine"},
    {"recipe", "recipes", "folder", "provenance", "device", "job", "run", "defaults"},
    {"console", "parallel", "demo", "figure", "table", "compare", "live_table", "ranking"}
    | {"search", "search_report", "search_space", "seen", "storage", "study", "tensorboard", "trials", "workers"}
    | {"estimator", "auto", "fitted", "own_fit", "model_folder", "predictions", "export"}
    | {"calibrated", "fit_outputs", "report", "report_pictures", "report_style"},
    {"cli"},
]
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names}


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
            assert LAYER[name] <= LAYER[own], f"{path.name} (layer {LAYER[own]}) imports {name} (layer {LAYER[name]})"


def test_only_their_own_files_say_compile_and_distributed() -> None:
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        for word, home in (("torch.compile", "fast"), ("cuda.graph", "fast"), ("torch.distributed", "dist")):
            assert word not in source or path.stem in (home, "contract")
