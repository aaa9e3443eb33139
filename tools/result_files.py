"""The files under results/, as the tools that write the docs read them."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def read(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def origin(result: dict[str, Any]) -> str:
    versions = result["versions"]
    return (
        f"{result['device']} ({result['machine']}), {result['threads']} thread{'s' * (result['threads'] > 1)} a run, "
        f"torch {versions['torch']}, {result['finished'][:10]}"
    )
