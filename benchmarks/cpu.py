"""What the engine costs over the bare formula: an ICT update on digits against the same update of the single file.

    python benchmarks/cpu.py [--out results/cpu.json]

Both run the same arithmetic on the same batches, in turns and in one process, one thread; the medians are compared.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.experiment.provenance import provenance
from ict.recipes import RECIPES

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import ict_from_scratch as scratch

LIMIT = 1.15  # the engine may cost this many times as much
ROUNDS, UPDATES = 15, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    recipe = RECIPES["digits-100/ict"].resolved()
    data = load_data(recipe, seed=0)
    with untouched_globals(cpu):
        job = prepare(recipe, 0, data, None, cpu)
        rows = torch.from_numpy(job.indices.labeled), torch.from_numpy(job.indices.unlabeled)
        single = scratch.ICT(data.train.x, data.train.y, *rows, seed=0)
        step = iter(range(10**9))
        steps: dict[str, Callable[[], object]] = {
            "engine": lambda: update(job.program, job.state),
            "single file": lambda: single.update(next(step) % scratch.STEPS),
            "engine again": lambda: update(job.program, job.state),
        }
        times: dict[str, list[float]] = {name: [] for name in steps}
        for round_number in range(arguments.rounds + 1):
            for name, one_update in steps.items():
                job.state.step = 0
                began = time.perf_counter()
                for _ in range(UPDATES):
                    one_update()
                if round_number:  # the first one warms up
                    times[name].append(1000 * (time.perf_counter() - began) / UPDATES)
    milliseconds = {name: median(values) for name, values in times.items()}
    ratio = min(milliseconds["engine"], milliseconds["engine again"]) / milliseconds["single file"]
    result = {
        "benchmark": "ICT update on digits, engine over single file",
        "ratio": round(ratio, 3),
        "limit": LIMIT,
        "milliseconds": {name: round(value, 3) for name, value in milliseconds.items()},
        "spread": round(abs(milliseconds["engine"] / milliseconds["engine again"] - 1), 3),
        **provenance(cpu),
        "settings": recipe.to_dict(),
    }
    print(json.dumps({k: v for k, v in result.items() if k != "settings"}, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
