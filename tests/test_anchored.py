"""Anchored ICT: its loss against naive NumPy, settings at which it is another method, and the prior's way to it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ict.algorithms.anchored_ict import AnchoredICT
from ict.algorithms.ict import ICT
from ict.algorithms.mixup import Mixup
from ict.base.errors import UserError
from ict.base.rng import Rng, Use, fold
from ict.contract import Algorithm, Batch
from ict.data.dataset import Dataset
from ict.engine.forward import Forward
from ict.engine.schedule import make_plan
from ict.engine.settings import Anchor, Average, Optimizer, Rate, Swa, Train
from ict.experiment.prepare import Job, load_data, prepare
from ict.experiment.run import train
from ict.experts.experts import Experts
from ict.recipes.recipe import Recipe, change
from tests import naive
from tests.naive import N_CLASSES, U, W, X, Y, batch_of, cross_entropy, rolled
from tests.scripted import Array, ScriptedDraws, softmax, tanh_logits, tanh_network
from tests.tiny import crash_at, same_bits, tiny

LAM_S, LAM, FLOOR = 0.3, 0.8, 1e-4
PRIOR = softmax(np.random.default_rng(3).normal(size=(8, N_CLASSES)))
PRIOR[2] = [1.0, 0.0, 0.0]  # experts can be sure
CPU = torch.device("cpu")


def anchored_batch(share: float, groups: int = 1) -> Batch:
    prior = torch.from_numpy(PRIOR)
    return replace(batch_of(U, groups=groups), prior=prior, share=torch.tensor(share, dtype=torch.float64))


def reference(student: list[Array], teacher: list[Array], share: float, temperature: float, groups: int = 1) -> float:
    y = np.eye(N_CLASSES)[Y]
    labeled = cross_entropy(
        tanh_logits(student, LAM_S * X + (1 - LAM_S) * rolled(X, groups)), LAM_S * y + (1 - LAM_S) * rolled(y, groups)
    )
    mean = np.maximum(PRIOR, FLOOR) ** share * softmax(tanh_logits(teacher, U)) ** (1 - share)
    mean = mean / mean.sum(1, keepdims=True)
    target = mean ** (1 / temperature)
    target = target / target.sum(1, keepdims=True)
    z = tanh_logits(student, LAM * U + (1 - LAM) * rolled(U, groups))
    return labeled + W * cross_entropy(z, LAM * target + (1 - LAM) * rolled(target, groups))


@pytest.mark.parametrize(("share", "temperature"), [(0.5, 0.5), (1.0, 1.0), (0.0, 1.0), (0.8, 2.0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_loss_is_the_formula(share: float, temperature: float, groups: int) -> None:
    naive.assert_same(
        AnchoredICT(temperature=temperature),
        anchored_batch(share, groups),
        ScriptedDraws([LAM_S, LAM]),
        lambda s, t: reference(s, t, share, temperature, groups),
    )


def total(algorithm: Algorithm, w: float, batch: Batch) -> float:
    student, teacher = Forward(tanh_network(1)), Forward(tanh_network(2), gradient=False)
    return algorithm.loss(student, teacher, batch, torch.tensor(w, dtype=torch.float64), Rng(CPU, 11)).total.item()


def test_with_no_share_it_is_ict_with_cross_entropy() -> None:
    plain = total(ICT(alpha=0.7, consistency="ce"), 4.0, batch_of(U))
    assert total(AnchoredICT(alpha=0.7, temperature=1.0), 4.0, anchored_batch(0.0)) == pytest.approx(plain, abs=1e-12)


def test_with_no_weight_it_is_mixup() -> None:
    assert total(AnchoredICT(alpha=0.7), 0.0, anchored_batch(0.6)) == total(Mixup(alpha=0.7), 0.0, batch_of())


def test_with_the_whole_share_it_distils_the_prior_whoever_the_teacher_is() -> None:
    student, batch = Forward(tanh_network(1)), anchored_batch(1.0)
    w, (u,) = torch.tensor(2.0, dtype=torch.float64), batch.u
    a, b = (
        AnchoredICT(temperature=1.0).loss(student, Forward(tanh_network(seed)), batch, w, ScriptedDraws([1.0, 1.0]))
        for seed in (2, 3)
    )
    assert a.total.item() == b.total.item()
    prior = PRIOR.clip(FLOOR) / PRIOR.clip(FLOOR).sum(1, keepdims=True)
    expected = -(prior * student(u).log_softmax(1).detach().numpy()).sum(1).mean()
    assert a.metrics["consistency"].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("bad", [{"alpha": 0.0}, {"temperature": 0.0}, {"floor": 0.0}])
def test_impossible_settings_name_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        AnchoredICT(**bad)


def test_the_share_falls_linearly_and_stays() -> None:
    def shares(**anchor: float) -> tuple[float, ...]:
        sections = Train(steps=100), Optimizer(), Rate(), Average(), Swa()
        return make_plan(*sections, Anchor(**anchor)).share  # type: ignore[arg-type]

    expected = [max(1 - step / 60, 0.5) for step in range(100)]
    assert shares() == pytest.approx(expected)
    assert set(shares(share=0.25, fall=0.0)) == {0.25} and set(shares(share=1.0)) == {1.0}


def test_labeled_batches_can_be_drawn_with_replacement() -> None:
    recipe = change(tiny(), ["train.labeled_order=replaced", "train.labeled_batch=7"])
    batches = job(recipe).program.batches
    drawn = torch.stack([batches.pick(step).labeled for step in range(400)])
    assert set(drawn.flatten().tolist()) == set(job(recipe).indices.labeled.tolist())
    twice = (drawn.sort(1).values.diff() == 0).any(1).float().mean()
    assert twice == pytest.approx(1 - np.prod(1 - np.arange(7) / 20), abs=0.08), "the birthday problem"
    assert drawn.flatten().bincount().max() < 4 * 400 * 7 / 20


def job(recipe: Recipe, data: Dataset | None = None) -> Job:
    return prepare(recipe.resolved(), 3, data or load_data(recipe.resolved(), 3), None, CPU)


def own_data(seed: int = 3) -> tuple[Recipe, Dataset]:
    """Data that say themselves which rows are labeled."""
    data = load_data(tiny().resolved(), seed)
    recipe = tiny("anchored")
    return replace(recipe, split=replace(recipe.split, labeled=None, valid=0)), replace(
        data, labeled_rows=torch.arange(200)
    )


def test_the_prior_is_that_of_the_experts() -> None:
    recipe, data = own_data()
    run = job(recipe, data)
    known = np.where(np.arange(len(data.train)) < 200, data.train.y.numpy(), -1)
    inputs = run.transform(data.train.x).flatten(1).numpy()
    opinion = Experts(trees=5).fit(inputs, known, 10, fold(3, Use.EXPERTS))
    assert run.prior is not None
    np.testing.assert_array_equal(run.prior.numpy(), opinion.prior)


def test_the_prior_knows_no_label_that_the_split_hides() -> None:
    recipe, data = own_data()
    hidden = torch.arange(len(data.train)) >= 200
    others = replace(data.train, y=torch.where(hidden, (data.train.y + 1) % 10, data.train.y))
    a, b = (job(recipe, each).prior for each in (data, replace(data, train=others)))
    assert a is not None and b is not None and torch.equal(a, b)


def test_each_example_meets_its_own_prior() -> None:
    run = job(tiny("anchored"))
    picked = run.program.batches.pick(0)
    batch = run.program.batches.make(picked, run.program.rng)
    assert run.prior is not None and batch.prior is not None
    assert torch.equal(batch.prior, run.prior[picked.unlabeled]) and batch.share is None


def test_the_data_may_bring_a_prior() -> None:
    data = load_data(tiny().resolved(), 3)
    prior = torch.full((len(data.train), 10), 0.1)
    assert job(tiny("anchored"), replace(data, prior=prior)).prior is prior
    with pytest.raises(UserError, match=r"prior is .*10 probabilities for each of"):
        job(tiny("anchored"), replace(data, prior=prior[1:]))
    with pytest.raises(UserError, match="sum to 1"):
        job(tiny("anchored"), replace(data, prior=2 * prior))


def test_a_run_goes_on_with_the_prior_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tiny("anchored"), seed=2)
    crash_at(12, tmp_path, tiny("anchored"), seed=2)
    monkeypatch.setattr(Experts, "fit", None)  # they are not asked again
    assert same_bits(whole, train(tiny("anchored"), seed=2, out=tmp_path, resume=True))


def test_another_prior_is_another_run(tmp_path: Path) -> None:
    crash_at(12, tmp_path / "a", tiny("anchored"), seed=2)
    crash_at(12, tmp_path / "b", tiny("anchored"), seed=5)
    (tmp_path / "b/prior.safetensors").replace(tmp_path / "a/prior.safetensors")
    with pytest.raises(UserError, match="not the prior that the run began with"):
        train(tiny("anchored"), seed=2, out=tmp_path / "a", resume=True)
    recipe, data = own_data()
    one, other = (replace(data, prior=torch.eye(10)[(data.train.y + shift) % 10]) for shift in (0, 1))
    crash_at(12, tmp_path / "own", recipe, data=one)
    with pytest.raises(UserError, match="sha256"):
        train(recipe, data=other, out=tmp_path / "own", resume=True)


def test_the_digest_of_the_prior_is_in_the_result(tmp_path: Path) -> None:
    a, b = (train(tiny("anchored"), seed=seed).result for seed in (2, 5))
    assert len(a["prior"]) == 64 and a["prior"] != b["prior"] and train(tiny()).result["prior"] is None
