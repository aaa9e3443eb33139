"""What a CPU gains: the paths of this package against plainer ones, as ratios within one run.

    git archive TAG | tar x -C EARLIER                # an earlier release, for the whole fit
    python benchmarks/laptop.py --out results/laptop.json [--repeats 5] [--earlier EARLIER]

One thread, CPU seconds. Paths that are compared take turns, and the shortest of several rounds counts, since other
programs on the machine only make a path slower; other numbers are medians. An update is one of ICT with 100 labeled
and 100 unlabeled images and the default network; plain is the loop of `examples/ict_from_scratch.py` with weights in
torch's default layout. The whole fit is `ict fit` with its defaults, once by each release and in each mode.
"""

import argparse
import importlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from ict import from_arrays
from ict.base.array_types import Array
from ict.base.files import write_atomic
from ict.data.user.image_file import square
from ict.engine.device import Mode, runs_fast, untouched_globals
from ict.estimators.default_recipes import default_recipe
from ict.experiment.prepare import prepare
from ict.experiment.provenance import provenance
from ict.experiment.training import updater
from ict.experts.graph import GraphPropagation
from ict.experts.neighbors import find_neighbors
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS
from ict.recipes.recipe import change

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import ict_from_scratch as scratch

CPU = torch.device("cpu")
IMAGES = {"8x8 gray": (1, 8, 8), "28x28 gray": (1, 28, 28), "32x32 RGB": (3, 32, 32)}
FILE_SIDES = (1024, 768)
FITTED, FITTED_LABELS, FITTED_SIDE = 3100, 100, 28  # images of the whole fit


def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time) -> float:
    """Median seconds, of the CPU unless another clock is given, after one call that warms up."""
    work()
    return median(_timed(work, clock) for _ in range(repeats))


def shortest(
    paths: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """The least seconds of each path, after one call that warms up. The paths take turns."""
    for work in paths.values():
        work()
    taken = [{name: _timed(work, clock) for name, work in paths.items()} for _ in range(rounds)]
    return {name: min(times[name] for times in taken) for name in paths}


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def examples(shape: tuple[int, ...], n: int) -> Array:
    return np.random.default_rng(0).normal(size=(n, *shape)).astype(np.float32)


def ict_update(shape: tuple[int, ...], mode: Mode) -> Callable[[], None]:
    y = np.where(np.arange(600) < 100, np.arange(600) % 10, -1)
    recipe = change(default_recipe("ict", shape, 600), ["train.labeled_batch=100"])
    job = prepare(recipe.resolved(), 0, from_arrays(examples(shape, 600), y), None, CPU)
    step = updater(job, runs_fast(mode, CPU))
    return lambda: step(job.program, job.state)


class Plain(scratch.ICT):
    """The single file's loop for images of any shape, with the default layout."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        channels = shape[0]
        images = torch.from_numpy(examples(shape, 600) * 40 + 128)
        super().__init__(images[:, :1], torch.arange(600) % 10, torch.arange(100), torch.arange(600), seed=0)
        self.student = scratch.ConvNet(width)
        first = self.student.features[0]
        assert isinstance(first, nn.Conv2d)
        self.student.features[0] = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        for parameter in self.student.parameters():
            parameter.data = parameter.data.contiguous()
            if parameter.dim() == 4:
                parameter.data = torch.empty(parameter.shape).copy_(parameter.data)
        self.teacher = deepcopy(self.student).requires_grad_(False)
        self.optimizer = torch.optim.SGD(self.student.parameters(), 0.01, 0.9, weight_decay=1e-3, nesterov=True)
        self.channels = channels

    def standardize(self, images: Tensor) -> Tensor:
        return super().standardize(images).expand(-1, self.channels, -1, -1).contiguous()


def updates(repeats: int) -> dict[str, Any]:
    found = {}
    scratch.LABELED_BATCH = 100
    for name, shape in IMAGES.items():
        plain = Plain(shape, 16 if shape[1] <= 16 else 32)
        paths: dict[str, Callable[[], object]] = {
            "plain": partial(plain.update, 5),
            "exact": ict_update(shape, "exact"),
        }
        if runs_fast("fast", CPU):
            paths["fast"] = ict_update(shape, "fast")
        times = shortest(paths, (20 if shape[1] <= 16 else 4) * repeats)
        found[name] = {"ms": {key: round(1e3 * value, 2) for key, value in times.items()}} | {
            f"{key} over {base}": round(times[base] / times[key], 2)
            for key, base in (("exact", "plain"), ("fast", "exact"), ("fast", "plain"))
            if key in times
        }
        print(name, found[name], flush=True)
    return found


def cores(repeats: int) -> dict[str, Any]:
    """What an update gains in elapsed time from all cores, with the threads that training chooses for itself."""
    found: dict[str, Any] = {"threads": os.cpu_count()}
    for name, shape in IMAGES.items():
        elapsed = []
        for threads in (1, os.cpu_count() or 1):
            with untouched_globals(CPU, threads):
                update = ict_update(shape, "exact")
                elapsed.append(shortest({"all": update}, 4 * repeats, time.perf_counter)["all"])
        found[name] = round(elapsed[0] / elapsed[1], 2)
    print("all cores", found, flush=True)
    return found


@torch.no_grad()
def double_precision(network: nn.Module, x: Array) -> Tensor:
    """How predictions were computed before: float64, 1,024 examples at a time."""
    double = deepcopy(network).double().eval()
    return torch.cat([double(chunk.double()).softmax(1) for chunk in torch.from_numpy(x).split(1024)])


@torch.no_grad()
def plain_torch(network: nn.Module, x: Array) -> Tensor:
    return torch.cat([network(chunk).softmax(1) for chunk in torch.from_numpy(x).split(256)])


def predictions(repeats: int) -> dict[str, Any]:
    found = {}
    for name, shape in IMAGES.items():
        module = NETWORKS["convnet"](shape, 10, width=16 if shape[1] <= 16 else 32).eval()
        trained, x = TrainedNetwork(module, 0, {}, False), examples(shape, 256)
        paths: dict[str, Callable[[Array], object]] = {
            "float64": partial(double_precision, module),
            "torch": partial(plain_torch, module),
            "ict": trained.predict_proba,
        }
        if (session := onnx_session(module, shape)) is not None:
            paths["onnxruntime"] = partial(run_onnx, session)
        many = {key: len(x) / least for key, least in shortest(_each(paths, x), 2 * repeats).items()}
        one = {key: 1e3 * least for key, least in shortest(_each(paths, x[:1]), 10 * repeats).items()}
        found[name] = {
            "images a second": {key: round(value) for key, value in many.items()},
            "ict over float64": round(many["ict"] / many["float64"], 2),
            "ict over torch": round(many["ict"] / many["torch"], 2),
            "ms for one": {key: round(value, 2) for key, value in one.items()},
            "one, ict in units of float64": round(one["ict"] / one["float64"], 2),
        }
        print(name, found[name], flush=True)
    return found


def _each(paths: dict[str, Callable[[Array], object]], x: Array) -> dict[str, Callable[[], object]]:
    return {key: partial(run, x) for key, run in paths.items()}


def onnx_session(module: nn.Module, shape: tuple[int, ...]) -> Any:
    """The network in onnxruntime on one thread, if that is installed."""
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        return None
    dynamic = ({0: torch.export.Dim("batch")},)
    program = torch.onnx.export(
        module, (torch.zeros(2, *shape),), dynamo=True, input_names=["x"], dynamic_shapes=dynamic, verbose=False
    )
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_onnx(session: Any, x: Array) -> Any:
    return session.run(None, {"x": x})


def memory(n: int) -> float:
    """The largest resident memory in GB of a process that predicts n images of 64x64 RGB."""
    code = f"""
import re, numpy as np
from pathlib import Path
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS
network = TrainedNetwork(NETWORKS["convnet"]((3, 64, 64), 10).eval(), 0, {{}}, False)
x = np.zeros((512, 3, 64, 64), np.float32)
for _ in range({n} // 512):
    network.predict_proba(x)
# not ru_maxrss, which starts at that of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout) / 2**20


def imports() -> dict[str, float]:
    """CPU seconds of a process that imports scikit-learn's base or an estimator of ours."""
    paths = {"sklearn.base": "import sklearn.base", "ICTClassifier": "from ict import ICTClassifier"}
    runs = {name: partial(subprocess.run, [sys.executable, "-c", code], check=True) for name, code in paths.items()}

    def clock() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    found = shortest({**runs}, 5, clock)
    return {name: round(least, 2) for name, least in found.items()} | {
        "ratio": round(found["ICTClassifier"] / found["sklearn.base"], 2)
    }


def decoding(repeats: int) -> dict[str, float]:
    """A photo-like JPEG to 32x32, whole and at a reduced scale."""
    width, height = FILE_SIDES
    waves = np.sin(np.mgrid[:height, :width].sum(0) / 30)
    buffer = io.BytesIO()
    Image.fromarray((127 + 100 * waves).astype(np.uint8)).convert("RGB").save(buffer, "JPEG", quality=90)

    def decode(scale: int) -> None:
        with Image.open(io.BytesIO(buffer.getvalue())) as image:
            image.draft(None, (width // scale, height // scale))
            square(image.convert("RGB"), 32)

    whole, reduced = shortest({str(scale): partial(decode, scale) for scale in (1, 8)}, 3 * repeats).values()
    return {
        "whole a second": round(1 / whole),
        "reduced a second": round(1 / reduced),
        "ratio": round(whole / reduced, 2),
    }


def sizes(repeats: int) -> dict[str, Any]:
    """Cost against size: an update by pixels, the graph by rows, labels and classes, and an MLP of scikit-learn."""
    pixels = {
        f"{side}x{side}": 1e3 * seconds(ict_update((1, side, side), "exact"), repeats) for side in (8, 16, 32, 64)
    }
    graph = {}
    for rows in (1000, 2000, 4000, 8000):
        x, y = examples((64,), rows), np.where(np.arange(rows) < 100, np.arange(rows) % 10, -1)
        graph[str(rows)] = round(seconds(partial(GraphPropagation().fit, x, y), 1), 2)
    x, labels = examples((64,), 2000), {}
    neighbors = find_neighbors(x)
    for known in (20, 200, 2000):
        y = np.where(np.arange(2000) < known, np.arange(2000) % 10, -1)
        labels[str(known)] = round(seconds(partial(GraphPropagation().fit, x, y, neighbors), 1), 2)
    classes = {}
    for count in (2, 10, 100):
        y = np.where(np.arange(2000) < 200, np.arange(2000) % count, -1)
        classes[str(count)] = round(seconds(partial(GraphPropagation().fit, x, y, neighbors), 1), 2)
    batch, targets = examples((64,), 200), np.arange(200) % 10
    mlp = MLPClassifier((256, 256), batch_size=200, solver="sgd")
    mlp.partial_fit(batch, targets, classes=np.arange(10))
    vectors = shortest(
        {
            "ict, an update of 200 rows, ms": ict_update((64,), "exact"),
            "scikit-learn's MLPClassifier, the same, ms": lambda: mlp.partial_fit(batch, targets),
        },
        20 * repeats,
    )
    return {
        "ms an update by pixels": {key: round(value, 1) for key, value in pixels.items()},
        "graph, seconds by rows": graph,
        "graph with known neighbors, seconds by labels": labels,
        "graph with known neighbors, seconds by classes": classes,
        "vectors of 64 features": {name: round(1e3 * least, 2) for name, least in vectors.items()},
    }


def whole_fit(earlier: Path | None, steps: int | None, method: str) -> dict[str, Any]:
    """CPU seconds of `ict fit` for gray images, made from digits by shifts and noise."""
    found, draws = load_digits(), np.random.default_rng(0)
    rows = draws.permutation(np.arange(FITTED) % len(found.target))
    images = np.empty((FITTED, FITTED_SIDE, FITTED_SIDE), np.uint8)
    for image, row in zip(images, rows, strict=True):
        small = Image.fromarray((found.images[row] * 15).astype(np.uint8)).resize((20, 20), Image.Resampling.BICUBIC)
        top, left = draws.integers(0, FITTED_SIDE - 20, 2)
        image[:] = draws.integers(0, 40, image.shape)
        image[top : top + 20, left : left + 20] |= np.asarray(small)
    y = np.full(FITTED, -1)
    for label in range(10):
        some = np.flatnonzero(found.target[rows] == label)[: FITTED_LABELS // 10]
        y[some] = label
    sources = Path(__file__).parent.parent / "src"
    runs = {"float32": (sources, "exact")}
    if runs_fast("fast", CPU):
        runs["bfloat16"] = (sources, "fast")
    if earlier is not None:
        runs["earlier"] = (earlier / "src", "exact")
    costs: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / "digits.npz", x=images, y=y)
        processes = {}
        for name, (source, mode) in runs.items():  # at the same time, so that they meet the same load
            command = [sys.executable, "-m", "ict", "fit", "digits.npz", "--out", name, "--method", method]
            command += ["--mode", mode] if mode == "fast" else []  # no option of the earlier release
            command += ["--steps", str(steps)] if steps else []
            environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "ICT_CACHE": place}
            processes[name] = subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.DEVNULL)
        for name, process in processes.items():
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise RuntimeError(f"the fit '{name}' ended with status {status}")
            config = json.loads((Path(place) / name / "config.json").read_text())
            fitted = config.get("about", {}).get("method")
            costs[name] = {"cpu_seconds": round(used.ru_utime + used.ru_stime, 1), "method": fitted}
            print(name, costs[name], flush=True)
    found_ratios = {
        f"{name} over earlier": round(costs[name]["cpu_seconds"] / costs["earlier"]["cpu_seconds"], 2)
        for name in costs
        if "earlier" in costs and name != "earlier"
    }
    about = {"images": FITTED, "labels": FITTED_LABELS, "side": FITTED_SIDE, "steps": steps, "asked": method}
    return {**about, **costs, **found_ratios}


def write(path: Path, content: dict[str, Any]) -> None:
    write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())


def ratios(repeats: int) -> dict[str, Any]:
    with untouched_globals(CPU, 1):
        return {
            "update": updates(repeats),
            "predict": predictions(repeats),
            "predicting 64x64 RGB, GB at most": {str(n): round(memory(n), 2) for n in (512, 2048)},
            "import": imports(),
            "jpeg to 32x32": decoding(repeats),
            "sizes": sizes(max(repeats // 2, 1)),
            "seed": 0,
            "repeats": repeats,
            **provenance(CPU),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--earlier", type=Path, help="folder with the sources of an earlier release")
    parser.add_argument(
        "--steps", type=int, help="updates of the whole fit, to see that it runs: experts get no cheaper"
    )
    parser.add_argument("--method", default="auto", help="of the whole fit; auto may choose another in each release")
    parser.add_argument(
        "--parts", default="ratios,cores,fit", help="what to measure; the rest stays as it is in the file"
    )
    arguments = parser.parse_args()
    repeats, parts = arguments.repeats, arguments.parts.split(",")
    content = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if "ratios" in parts:
        content |= ratios(repeats)
        write(arguments.out, content)
    if "cores" in parts:
        content |= {"all cores": cores(repeats)}
        write(arguments.out, content)
    if "fit" in parts:
        content |= {"fit": whole_fit(arguments.earlier, arguments.steps, arguments.method) | provenance(CPU)}
        write(arguments.out, content)


if __name__ == "__main__":
    main()
