"""`ict predict` on CSV and Parquet: a table of many kinds of columns beside one of numbers, as ratios within one run.

    python benchmarks/table_rate.py --out results/table_rate.json [--rows 100000] [--repeats 5]

The numbers are read as older models read them, which know no other kind. One thread, CPU seconds, the median of a few
repeats, network and output included; and the largest memory of a process that predicts, by the number of rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from laptop import seconds

from ict.base.files import write_atomic
from ict.data.array_inputs import fit_inputs
from ict.data.user.read import read_data
from ict.experiment.provenance import provenance
from ict.fit.predict import predict_files
from ict.models.saved_model import SavedModel, save_model
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS

pandas: Any = import_module("pandas")
COLUMNS = 20
OLD, NEW, MIXED = "numbers, as before", "numbers", "many kinds"


def numbers(n: int) -> Any:
    draws = np.random.default_rng(n)
    return pandas.DataFrame(draws.normal(size=(n, COLUMNS)).round(4)).rename(columns=lambda i: f"f{i}")


def many_kinds(n: int) -> Any:
    """Half numbers with gaps, then words, truth values and a time."""
    draws = np.random.default_rng(n)
    frame = numbers(n).iloc[:, : COLUMNS // 2]
    frame = frame.mask(draws.random(frame.shape) < 0.05)
    words = {f"word {i}": draws.choice([f"word{j}" for j in range(12)], n) for i in range(COLUMNS // 2 - 3)}
    truths = {f"truth {i}": draws.random(n) < 0.5 for i in range(2)}
    when = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(draws.integers(0, 10**8, n), unit="s")
    return frame.assign(**words, **truths, when=when)


def model_of(frame: Any, folder: Path, known: bool) -> Path:
    """The folder of a model that was fitted to a table: not trained, which makes no difference in time."""
    frame.assign(label="a").to_csv(folder / "sample.csv", index=False)
    data = read_data(folder / "sample.csv")
    network = {"name": "mlp-norm"}
    module = NETWORKS["mlp-norm"](data.x.shape[1:], 2).eval()
    trained = TrainedNetwork(module, 0, {"network": network}, 0)
    place = folder / ("model" if known else "older model")
    table = data.table if known else None
    save_model(place, SavedModel(trained, fit_inputs(data.x), ("a", "b"), data.columns, table=table), {})
    return place


def memory(model: Path, path: Path, out: Path) -> float:
    """The largest resident memory in GB of a process that predicts."""
    code = (
        "import re, sys; from pathlib import Path; from ict.fit.predict import predict_files\n"
        "predict_files(*map(Path, sys.argv[1:]), skip_bad=False)\n"
        # not ru_maxrss, which starts at that of the process that started this one
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    command = [sys.executable, "-c", code, str(model), str(path), str(out)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rates: dict[str, dict[str, float]] = {}
    most: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in ("csv", "parquet"):
            for kind, make in ((OLD, numbers), (NEW, numbers), (MIXED, many_kinds)):
                model, path = model_of(make(2000), folder, kind != OLD), folder / f"rows.{suffix}"
                frame = make(arguments.rows)
                frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
                run = partial(predict_files, model, path, folder / "out.csv", skip_bad=False)
                rates.setdefault(suffix, {})[kind] = round(arguments.rows / seconds(run, arguments.repeats))
                print(suffix, kind, rates[suffix][kind], "rows a second", flush=True)
        for n in (arguments.rows // 4, arguments.rows):
            model = model_of(many_kinds(2000), folder, known=True)
            many_kinds(n).to_csv(folder / "rows.csv", index=False)
            most[str(n)] = round(memory(model, folder / "rows.csv", folder / "out.csv"), 3)
    ratios = {
        suffix: {kind: round(some[kind] / some[OLD], 2) for kind in (NEW, MIXED)} for suffix, some in rates.items()
    }
    result = {"rows": arguments.rows, "columns": COLUMNS, "rows a second": rates, "ratios": ratios, "GB at most": most}
    print(json.dumps(result))
    if arguments.out is not None:
        content = json.dumps(result | provenance(torch.device("cpu")), indent=1) + "\n"
        write_atomic(arguments.out, content.encode())


if __name__ == "__main__":
    main()
