"""When runs trained: which of them shared the GPU, and how long it was busy."""

from datetime import UTC, datetime, timedelta

from published import Runs, every

from ict.experiment.result import Result


def shared(runs: Runs, name: str) -> bool:
    """Whether one of these runs trained while another did: all files here are of one GPU."""
    return any(run is not other and _overlap(run, other) for run in runs[name] for other in every(runs))


def busy(runs: Runs) -> timedelta:
    """How long at least one of them trained."""
    total, until = timedelta(), datetime.min.replace(tzinfo=UTC)
    for begin, end in sorted(map(_training, every(runs))):
        total += max(end - max(begin, until), timedelta())
        until = max(end, until)
    return total


def _overlap(run: Result, other: Result) -> bool:
    (begin, end), (other_begin, other_end) = _training(run), _training(other)
    return begin < other_end and other_begin < end


def _training(run: Result) -> tuple[datetime, datetime]:
    end = datetime.fromisoformat(run["finished"])
    return end - timedelta(seconds=run["seconds"]), end
