"""Which classes the evaluated network of a run takes for which, by its validation images; works on cut-off runs.

python research/confused.py OUT.json RUN... --data-dir DIR
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import confusion_matrix

from ict.base.errors import UserError
from ict.base.files import write_json
from ict.engine.checkpoint import load_latest
from ict.experiment.prepare import load_data, prepare
from ict.experiment.provenance import provenance
from ict.experiment.run_folder import Folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--data-dir")
    arguments = parser.parse_args()
    runs = [confusions(folder, arguments.data_dir) for folder in arguments.runs]
    write_json(arguments.out, {"runs": runs} | provenance(torch.device("cpu")))
    print(json.dumps(runs))


@torch.no_grad()
def confusions(folder: Path, data_dir: str | None) -> dict[str, Any]:
    home, device = Folder(folder), torch.device("cpu")
    recipe, seed = home.load_recipe()
    saved = load_latest(folder, device)
    if saved is None:
        raise UserError(f"{folder} has no checkpoint.")
    job = prepare(recipe, seed, load_data(recipe, seed, data_dir), None, device, home)
    job.state.load(saved)
    network = job.state.evaluated.eval()
    guesses = torch.cat([network(job.transform(x)).argmax(1) for x in job.valid.x.split(recipe.eval.batch)])
    table = confusion_matrix(job.valid.y, guesses, labels=range(len(job.data.classes)))
    return {
        "recipe": recipe.name,
        "seed": seed,
        "steps": job.state.step,
        "of": recipe.train.steps,
        "table": table.tolist(),
    }


if __name__ == "__main__":
    main()
