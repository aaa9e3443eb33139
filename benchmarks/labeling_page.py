"""What `ict label` costs a person in time, on photo files: its start beside a plain loop, and every next example."""

import os
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from backbones import CONVERSION, HIGH, WIDE, cost, loop_command, make_photos
from cells import Record

sys.path.append(str(Path(__file__).parent.parent))

from tests.label_server import Server, label_server

_N_CLASSES = 4
_PAUSE = 0.1  # seconds of thought before an answer
_POLL = 0.1
_MEANWHILE = ("nothing", "a round", "a whole fit")


def page(n_photos: int, n_answers: int) -> Record:
    """Times of a start without a label that computes the features, and of a second one, which goes on to answers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_photos(folder / "photos", n_photos, n_labeled=0)
        environment = {"ICT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        os.environ |= environment  # for the servers
        cost(CONVERSION, environment)
        loop = cost(loop_command(folder / "photos"), environment)
        first = _start(folder)
        second = _start(folder, lambda server: _answer(server, n_answers))
    return {"photos": n_photos, "side": [WIDE, HIGH], "plain loop": loop, "first": first, "second": second}


def _start(folder: Path, then: Callable[[Server], Record] = lambda _: {}) -> Record:
    """Seconds to the first question, and to the first one that was chosen by the features; CPU seconds until then."""
    used, began = _cpu_seconds(), time.monotonic()
    with label_server("photos", folder=folder, nice=True) as server:
        question = server.get("/state")["questions"][0]["row"]
        server.request("GET", f"/picture/{question}/large")
        seconds = {"to the first question": round(time.monotonic() - began, 2)}
        while server.get("/state")["learning"]["stage"] in ("reading", "first"):
            time.sleep(_POLL)
        seconds["to a chosen one"] = round(time.monotonic() - began, 2)
        gigabytes = _gigabytes(server.process.pid)
        found = then(server)
        server.stop()
    return {"seconds": seconds, "gigabytes": gigabytes, "cpu_seconds": round(_cpu_seconds() - used, 1)} | found


def _answer(server: Server, n: int) -> Record:
    """Milliseconds from an answer to the next question, by what runs meanwhile; in the second half a whole fit."""
    times: dict[str, list[float]] = defaultdict(list)
    state = server.get("/state")
    for i in range(2 * n):
        if i == n:
            state = server.post("/fit")
        time.sleep(_PAUSE)
        question, before = state["questions"][0], _meanwhile(server.get("/state"))
        label = f"class{int(Path(question['name']).stem) % _N_CLASSES}"
        began = time.perf_counter()
        state = server.post("/answer", rows=[question["row"]], label=label)
        times[_MEANWHILE[max(before, _meanwhile(state))]].append(time.perf_counter() - began)
        began = time.perf_counter()
        server.request("GET", f"/picture/{state['questions'][-1]['row']}/large")
        times["a picture"].append(time.perf_counter() - began)
    return {"milliseconds": {name: _summary(1000 * np.array(some)) for name, some in times.items()}}


def _meanwhile(state: Any) -> int:
    return 2 if state["fit"]["running"] else int(state["learning"]["stage"] == "learning")


def _summary(times: Any) -> dict[str, float]:
    middle, most = np.quantile(times, [0.5, 0.95])
    return {"n": len(times), "median": round(middle, 1), "p95": round(most, 1), "largest": round(max(times), 1)}


def _cpu_seconds() -> float:
    """Of processes that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _gigabytes(server: int) -> float:
    """The largest memory so far of a process and of those that it started, added up."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    status = [Path(f"/proc/{one}/status").read_text() for one in (str(server), *children)]
    peaks = [line.split()[1] for text in status for line in text.splitlines() if line.startswith("VmHWM")]
    return round(sum(map(int, peaks)) * 1024 / 1e9, 2)
