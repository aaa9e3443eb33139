"""Seconds from starting Python to the first update of a paper-scale run in fast mode, with cold and warm caches.

    python benchmarks/startup.py --out results/h200/startup.json

The caches are those of Triton and of torch's compiler. Images are made up in the shape of CIFAR-10.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from ict.experiment.provenance import provenance

_CHILD = """
import sys
import time
sys.path.insert(0, "benchmarks")
from step import made_up, recipe_for
from ict.experiment.run import train
from ict.recipes.recipe import change

class Started(Exception): ...

def first(record):
    print("first update", time.time(), flush=True)
    raise Started

recipe = change(recipe_for("cnn13", "ict"), ["eval.log_every=1"])
data = made_up(50_000)
data.train.y[4000:] = -1
try:
    train(recipe, data=data, device="cuda", mode="fast", log=first)
except Started:
    pass
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/h200/startup.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as caches:
        seconds = {name: started(Path(caches)) for name in ("cold", "warm")}
    content = {"seconds_to_first_update": seconds, **provenance(torch.device("cuda"))}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(content, indent=2))


def started(caches: Path) -> float:
    places = {"TRITON_CACHE_DIR": str(caches / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor")}
    began = time.time()
    out = subprocess.run([sys.executable, "-c", _CHILD], env=os.environ | places, capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    return round(float(out.stdout.split()[-1]) - began, 1)


if __name__ == "__main__":
    main()
