"""Train variants of recipes one after the other and keep what their validation images say; the test set is dropped.

    python research/tune.py VARIANTS.jsonl OUT.jsonl --data-dir DIR [--seconds 500]

A line of VARIANTS names a run and says what is varied: {"id": "w200", "recipe": "cifar10-4000/ict-fast", "seed": 10,
"set": ["train.weight=200"]}. OUT gets a line a run as each one ends; those that it has already are left out.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ict.experiment.run import train

KEPT = ("recipe_id", "steps", "seconds", "valid_error", "valid_error_best", "machine", "commit", "finished")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variants", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir")
    parser.add_argument("--mode", choices=("exact", "fast"), default="fast")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further run after this long")
    arguments = parser.parse_args()
    began = time.monotonic()
    done = {line["id"] for line in lines(arguments.out)} if arguments.out.exists() else set()
    for variant in lines(arguments.variants):
        if variant["id"] in done or time.monotonic() - began > arguments.seconds:
            continue
        run = {"seed": variant["seed"], "settings": variant["set"], "data_dir": arguments.data_dir}
        result = train(variant["recipe"], **run, mode=arguments.mode, test=False).result
        row = variant | {key: result[key] for key in KEPT} | {"curve": result["curve"]}
        with arguments.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{row['id']}: {100 * row['valid_error']:.2f} % in {row['seconds']:.0f} s", flush=True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


if __name__ == "__main__":
    main()
