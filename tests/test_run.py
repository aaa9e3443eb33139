"""What a run reads, writes, refuses and leaves alone."""

import json
import math
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import ict
from ict.base.errors import Diverged, UserError
from ict.data.arrays import from_arrays
from ict.data.dataset import Dataset, Examples
from ict.data.split import Indices
from ict.engine import evaluate as evaluate_module
from ict.engine import loop
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import evaluate, train
from ict.experiment.run_folder import Folder
from ict.recipes.recipe import change
from tests.tiny import N_STEPS, crash_at, same_bits, tiny

CPU = torch.device("cpu")


def test_the_folder_holds_everything_and_result_json_its_facts(tmp_path: Path) -> None:
    run = train(tiny(), seed=4, out=tmp_path)
    names = {p.name for p in tmp_path.iterdir()}
    assert {
        "recipe.json",
        "split.npz",
        "metrics.jsonl",
        "inputs.safetensors",
        "model.safetensors",
        "result.json",
    } <= names
    assert f"checkpoint-{N_STEPS:09d}.pt" in names and not [n for n in names if n.endswith(".tmp")]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result == json.loads(json.dumps(run.result))
    assert (result["recipe"], result["seed"], result["steps"], result["device"]) == ("tiny/ict", 4, N_STEPS, "cpu")
    assert result["test_error"] == result["test_error_teacher"] and 0 < result["test_error"] < 1
    assert result["threads"] == 1 and result["versions"]["torch"] == torch.__version__
    assert result["n_labeled"] == 20 and result["n_valid"] == 20 and not result["partial"]
    split = Indices.load(tmp_path / "split.npz")
    assert len(split.labeled) == 20 and not set(split.valid) & set(split.unlabeled)
    assert ict.Recipe is type(Folder(tmp_path).load_recipe()[0])


def test_the_saved_error_is_the_networks_error(tmp_path: Path) -> None:
    """Recounted by hand from the files: weights, transform and data."""
    run = train(tiny(), seed=1, out=tmp_path)
    recipe, seed = Folder(tmp_path).load_recipe()
    data = load_data(recipe, seed)
    network = ict.NETWORKS["convnet"](data.shape, 10, **recipe.network.options)
    network.load_state_dict(load_file(tmp_path / "model.safetensors"))
    network.eval()
    scale = load_file(tmp_path / "inputs.safetensors")
    x = (data.test.x.float() / 255 - scale["mean"]) / scale["std"]
    wrong = (network(x).argmax(1) != data.test.y).float().mean().item()
    assert run.result["test_error"] == pytest.approx(wrong, abs=1e-6)
    assert evaluate(tmp_path)["test_error"] == run.result["test_error"]
    probabilities = run.predict_proba(data.test.x)
    assert (probabilities.argmax(1) != data.test.y).float().mean().item() == pytest.approx(wrong, abs=1e-6)


def test_a_model_that_came_from_elsewhere_is_evaluated_by_three_files(tmp_path: Path) -> None:
    run = train(tiny(), seed=3, out=tmp_path / "there")
    (tmp_path / "here").mkdir()
    for name in ("recipe.json", "inputs.safetensors", "model.safetensors"):
        (tmp_path / "there" / name).rename(tmp_path / "here" / name)
    found = evaluate(tmp_path / "here", device="cpu")
    assert found["test_error"] == run.result["test_error"] and found["n_test"] == run.result["n_test"]
    scale = load_file(tmp_path / "here/inputs.safetensors")
    save_file({**scale, "mean": scale["mean"] + 9}, tmp_path / "here/inputs.safetensors")
    assert evaluate(tmp_path / "here")["test_error"] > found["test_error"], "the scaling is the run's, not fitted anew"


def test_without_an_average_the_student_is_evaluated() -> None:
    result = train(tiny(), settings=["average.decay=none"]).result
    assert result["test_error_teacher"] is None and result["test_error"] == result["test_error_student"]


def test_the_best_by_validation_is_the_smallest_logged_error(tmp_path: Path) -> None:
    result = train(tiny(), out=tmp_path).result
    seen = {r["step"]: r["valid_error_teacher"] for r in Folder(tmp_path).read_metrics() if "valid_error_teacher" in r}
    assert sorted(seen) == [6, 12, 18, 24]
    assert result["valid_error_best"] == min(seen.values())
    assert result["best_step"] == min(step for step, e in seen.items() if e == min(seen.values()))
    assert result["valid_error"] == seen[24]


@pytest.mark.parametrize("decay", ["0.9", "none"])
def test_the_curve_is_every_look_at_the_validation_set_also_without_a_folder(decay: str, tmp_path: Path) -> None:
    settings, logged = [f"average.decay={decay}"], list[loop.Record]()
    run = train(tiny(), settings=settings, log=logged.append)
    keys = ["step", "seconds", "valid_error_student", *(["valid_error_teacher"] if decay != "none" else [])]
    assert run.result["curve"] == [{k: r[k] for k in keys} for r in logged if r["step"] in (6, 12, 18, 24)]
    assert len(run.result["curve"]) == 4 and run.result["mode"] == "exact"
    crash_at(12, tmp_path, tiny(), settings=settings)
    resumed = train(tiny(), settings=settings, out=tmp_path, resume=True).result["curve"]
    assert [{k: look[k] for k in keys if k != "seconds"} for look in resumed] == [
        {k: look[k] for k in keys if k != "seconds"} for look in run.result["curve"]
    ]
    seconds = [look["seconds"] for look in resumed]
    assert seconds == sorted(seconds)
    assert train(tiny(), settings=[*settings, "split.valid=0"]).result["curve"] == []


def test_the_test_set_is_read_only_after_the_last_update(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_data(tiny().resolved(), 0)
    events: list[str] = []
    real = evaluate_module.error

    def watched(network: nn.Module, examples: Examples, *rest: Any) -> float:
        events.append("test" if examples.x.shape == data.test.x.shape else "valid")
        return real(network, examples, *rest)

    monkeypatch.setattr("ict.engine.loop.error", watched)
    monkeypatch.setattr("ict.experiment.finish.error", watched)
    monkeypatch.setattr("ict.experiment.run.error", watched)
    train(tiny(), log=lambda record: events.append(f"step {record['step']}"))
    end = events.index(f"step {N_STEPS}")
    assert "valid" in events[:end] and "test" not in events[:end]
    assert events[end:].count("test") == 3  # student, teacher, best


def test_labels_outside_the_labeled_rows_cannot_reach_training() -> None:
    data = load_data(tiny().resolved(), 0)
    rows = torch.arange(0, 200, 4)
    scrambled = torch.randint(10, data.train.y.shape, generator=torch.Generator().manual_seed(0))
    scrambled[rows] = data.train.y[rows]
    runs = [
        train(tiny(), data=Dataset(Examples(data.train.x, y), data.test, data.classes, labeled_rows=rows))
        for y in (data.train.y, scrambled)
    ]
    assert same_bits(*runs)


def test_seeds_decide_everything_and_globals_stay_as_they_were() -> None:
    torch.default_generator.manual_seed(1)
    state, numpy_state = torch.get_rng_state(), repr(np.random.get_state())
    first = train(tiny(), seed=1)
    assert torch.equal(torch.get_rng_state(), state) and repr(np.random.get_state()) == numpy_state
    torch.rand(5)
    assert same_bits(first, train(tiny(), seed=1))
    assert not same_bits(first, train(tiny(), seed=2))


def test_partial_test_set_is_marked() -> None:
    result = train(tiny(), settings=["eval.test_limit=50"]).result
    assert result["partial"] and result["n_test"] == 50


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    settings = ["optimizer.lr=1e18", "rate.shape=constant", "eval.log_every=1"]
    with pytest.raises(Diverged, match=r"not finite at step (\d+).*(last metrics).*optimizer\.lr") as caught:
        train(tiny(), out=tmp_path, settings=settings, checkpoint_seconds=0)
    step = int(str(caught.value).split("at step ")[1].split()[0])
    kept = sorted(int(p.stem.split("-")[1]) for p in tmp_path.glob("checkpoint-*.pt"))
    assert kept and max(kept) <= step and not (tmp_path / "result.json").exists()
    assert all(math.isfinite(r["loss"]) for r in Folder(tmp_path).read_metrics())


def test_sigterm_saves_at_a_step_boundary_and_interrupts(tmp_path: Path) -> None:
    def stop(record: loop.Record) -> None:
        if record["step"] == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), out=tmp_path, log=stop)
    assert signal.getsignal(signal.SIGTERM) is before
    assert [p.name for p in tmp_path.glob("checkpoint-*.pt")] == ["checkpoint-000000008.pt"]
    assert same_bits(train(tiny()), train(tiny(), out=tmp_path, resume=True))


def test_sigterm_in_the_last_update_interrupts_too(tmp_path: Path) -> None:
    """The final evaluation can take minutes; what is left is to do it."""

    def stop(record: loop.Record) -> None:
        if record["step"] == N_STEPS:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        train(tiny(), out=tmp_path, log=stop)
    assert not (tmp_path / "result.json").exists()
    assert same_bits(train(tiny()), train(tiny(), out=tmp_path, resume=True))


def test_a_signal_that_comes_while_another_is_taken_makes_nobody_wait() -> None:
    def another(*_: object) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return another

    with loop._stop_requests(insistent=True) as stop_requested:
        assert not stop_requested()
        sys.settrace(another)  # at every line of whatever the first one's handler does
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            sys.settrace(None)
        assert stop_requested()


class OwnNetwork(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.layer = nn.Linear(n_in, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(x)
        return logits


def own_arrays() -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    y = draws.integers(0, 3, 300)
    x = draws.normal(size=(300, 5)) + 3 * np.eye(3, 5)[y]
    return x, y


def test_own_tensors_and_an_own_module(tmp_path: Path) -> None:
    x, y = own_arrays()
    hidden = np.where(np.arange(300) < 30, y, -1)
    data = from_arrays(x[:200], hidden[:200], test=(x[200:], y[200:]))
    network = OwnNetwork(5, 3)
    before = [p.clone() for p in network.parameters()]
    run = train(tiny(), data=data, network=network, out=tmp_path, settings=["train.steps=150", "train.weight=1"])
    assert run.result["test_error"] < 0.1 and run.result["n_labeled"] == 30 and run.result["n_unlabeled"] == 200
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)), "it was copied"
    assert run.predict_proba(torch.from_numpy(x[200:]).float()).shape == (100, 3)
    with pytest.raises(UserError, match="from Python"):
        evaluate(tmp_path)
    x[0] += 1
    other = from_arrays(x[:200], hidden[:200], test=(x[200:], y[200:]))
    with pytest.raises(UserError, match=r"dataset\.sha256"):
        train(
            tiny(),
            data=other,
            network=network,
            out=tmp_path,
            resume=True,
            settings=["train.steps=150", "train.weight=1"],
        )


@pytest.mark.parametrize(
    ("network", "says"), [(OwnNetwork(4, 3), "cannot take"), (OwnNetwork(5, 2), r"must return logits")]
)
def test_a_network_that_does_not_fit_is_refused_before_anything_is_written(
    network: nn.Module, says: str, tmp_path: Path
) -> None:
    x, y = own_arrays()
    with pytest.raises(UserError, match=says):
        train(tiny(), data=from_arrays(x, y), network=network, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out"):
        train(tiny(), out=tmp_path / "file" / "run")


def test_a_damaged_model_file_is_named(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"model\.safetensors"):
        evaluate(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "inputs.safetensors"])
def test_a_file_of_another_run_is_named(name: str, tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run")
    other = [] if name.startswith("model") else ["inputs.zca=ridge", "inputs.zca_epsilon=0.1"]
    train(tiny(), out=tmp_path / "other", settings=["network.width=7", *other])
    # as release 0.1.0 wrote it: the file does not say to which run it belongs
    save_file(load_file(tmp_path / "other" / name), tmp_path / "run" / name)
    with pytest.raises(UserError, match=rf"{name} does not fit recipe\.json") as refused:
        evaluate(tmp_path / "run")
    assert "\n" not in str(refused.value)


def test_evaluate_before_the_end_says_what_is_missing(tmp_path: Path) -> None:
    crash_at(8, tmp_path, tiny())
    with pytest.raises(UserError, match=r"model\.safetensors is missing"):
        evaluate(tmp_path)
    with pytest.raises(UserError, match=r"holds no run"):
        evaluate(tmp_path / "nowhere")


@pytest.mark.parametrize("when", ["after", "before"])
def test_teacher_follows_the_explicit_formula(when: str) -> None:
    recipe = tiny().resolved()
    data = load_data(recipe, 0)
    job = prepare(change(recipe, [f"average.when={when}"]), 0, data, None, CPU)
    assert job.state.ema is not None
    expected = [p.detach().double() for p in job.state.student.parameters()]
    for step in range(12):
        students = [[p.detach().double().clone() for p in job.state.student.parameters()]]
        update(job.program, job.state)
        students.append([p.detach().double().clone() for p in job.state.student.parameters()])
        a = min(1 - 1 / (step + 2), 0.9)
        expected = [a * t + (1 - a) * s for t, s in zip(expected, students[when == "after"], strict=True)]
    for average, value in zip(job.state.ema.module.parameters(), expected, strict=True):
        torch.testing.assert_close(average.double(), value, rtol=1e-5, atol=1e-6)


def test_teacher_batch_norm_is_its_own_or_averaged() -> None:
    recipe = tiny().resolved()
    data = load_data(recipe, 0)
    jobs = {k: prepare(change(recipe, [f"average.batchnorm={k}"]), 0, data, None, CPU) for k in ("own", "averaged")}
    for job in jobs.values():
        for _ in range(3):
            update(job.program, job.state)
    own, averaged = (job.state.evaluated for job in jobs.values())
    assert own.training and not averaged.training
    counts = {k: [b for n, b in j.state.evaluated.named_buffers() if "num_batches" in n] for k, j in jobs.items()}
    assert {int(c) for c in counts["own"]} == {3} and {int(c) for c in counts["averaged"]} == {0}
    student = dict(jobs["averaged"].state.student.named_buffers())
    for name, buffer in averaged.named_buffers():
        if "running" in name:
            assert not torch.equal(buffer, student[name]) and not torch.equal(
                buffer.round(), torch.zeros_like(buffer) - 9
            )


def test_a_teacher_that_never_sees_data_cannot_have_its_own_statistics() -> None:
    with pytest.raises(UserError, match=r"average\.batchnorm=averaged"):
        train(tiny("supervised"), settings=["average.batchnorm=own"])


def test_a_split_without_unlabeled_examples_is_refused() -> None:
    data = load_data(tiny().resolved(), 0)
    everything = replace(data, train=Examples(data.train.x[:600], torch.arange(600) % 10))
    recipe = change(tiny(), ["split.labeled=600", "split.valid=0", "split.unlabeled=disjoint"])
    with pytest.raises(UserError, match="unlabeled examples"):
        prepare(recipe, 0, everything, None, CPU)


def test_a_supervised_method_trains_without_any_unlabeled_example() -> None:
    data = load_data(tiny().resolved(), 0)
    everything = replace(data, train=Examples(data.train.x[:600], torch.arange(600) % 10))
    recipe = change(tiny("supervised"), ["split.labeled=600", "split.valid=0", "split.unlabeled=disjoint"])
    job = prepare(recipe, 0, everything, None, CPU)
    update(job.program, job.state)
    assert len(job.indices.unlabeled) == 0 and job.state.step == 1
