"""Which modules read files, found in the source, and what covers each of them."""

import ast
from pathlib import Path

import ict

# Each module that reads files, with the formats that cover it or the reason why none does.
COVERED: dict[str, tuple[str, ...] | str] = {
    "backbones/conversion": "a cache whose content is compared with its digest",
    "backbones/efficientnet_lite0": "weights of an installed package, compared with a digest in the code",
    "backbones/hf_folder": ("hf-folder",),
    "backbones/minilm": "weights of an installed package, compared with a digest in the code",
    "backbones/onnx_backbone": "tests/test_backbones.py has damaged ONNX files",
    "backbones/packaged": "files of an installed package",
    "backbones/preparation": ("preprocessing",),
    "backbones/timm_network": ("weights",),
    "base/files": ("recipe", "model", "run", "shards"),
    "base/reading": "returns bytes, which others parse",
    "base/folder_lock": "lock files, which are never parsed",
    "data/cifar10": ("cifar-binary", "cifar-pickle"),
    "data/download": "what was downloaded is compared with its digest, or is an archive unpacked with tarfile's filter",
    "data/matlab": ("matlab",),
    "data/numpy_file": ("npy", "npz", "npz-members", "shards", "run"),
    "data/shards": ("shards",),
    "data/split": ("run",),
    "data/svhn": ("matlab",),
    "data/user/answers": ("answers",),
    "data/user/array_cache": ("cache", "feature-cache"),
    "data/user/arrays": ("npy", "npz", "npz-members", "array-labels"),
    "data/user/image_file": ("images",),
    "data/user/label_file": ("image-labels", "next-file", "next-file-rows"),
    "data/user/table_file": ("csv", "csv-columns", "parquet", "parquet-columns", "text-table"),
    "data/user/text_files": ("array-labels", "image-labels"),
    "data/user/texts": ("texts",),
    "engine/checkpoint": ("interrupted", "checkpoint"),
    "estimators/embedding": "a backbone, opened by models/used_backbone",
    "experiment/provenance": "git's answer about the package itself",
    "experiment/run_folder": ("run", "interrupted"),
    "fit/earlier": ("earlier",),
    "label/app": "the page itself, and requests, of which tests/test_label_server.py has bad ones",
    "label/log": ("answers-continued",),
    "models/joined_onnx": "the bytes of a backbone that is open",
    "models/used_backbone": "bytes that are compared with the digest in the model folder before they are parsed",
    "models/onnx": "reads what it has just written",
    "models/saved_model": ("model", "model-signed", "model-table", "saved"),
    "networks/onnx_graph": "the bytes of a backbone that is open",
    "paper/our_runs": "a file of this package",
    "paper/table": ("run",),
    "recipes/__init__": ("recipe",),
    "studies/search": "its own result file, by read_json",
    "studies/storage": "Optuna and SQLAlchemy read the database; tests/test_study.py has damaged ones",
    "studies/trials": "its own result files, by read_json",
    "studies/workers": "opens a study by the above",
}

SOURCE = Path(ict.__file__).parent
# What reads or parses a file; a name such as loads is looked for as a call, whatever stands before it.
PRIMITIVES = {
    *("read_json", "text_lines", "text_of", "csv_rows", "load_npy", "load_npz", "matlab_variables", "unpickled"),
    *(
        "bytes_of",
        "content_of",
        "json_object",
        "load_file",
        "safe_open",
        "read_csv",
        "ParquetFile",
        "read_text",
        "read_bytes",
        "memmap",
        "fromfile",
        "loadmat",
    ),
    *("load_model_from_string", "InferenceSession", "from_pretrained", "RDBStorage", "Unpickler", "load", "loads"),
}


def reading_modules() -> set[str]:
    """Modules that call one of them, or open a file for reading."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        if any(_reads(node) for node in ast.walk(ast.parse(path.read_text("utf-8")))):
            found.add(path.relative_to(SOURCE).with_suffix("").as_posix())
    return found


def _reads(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "open":
        modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return not any(mode in ("wb", "w", "a", "ab", "x", "xb") for mode in modes)
    if name == "load" and isinstance(node.func, ast.Attribute):
        return isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "torch", "json", "pickle", "onnx")
    return name in PRIMITIVES
