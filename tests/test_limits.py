"""Settings at which one method must become another."""

import torch

from ict.algorithms.ict import ICT
from ict.algorithms.manifold_mixup import ManifoldMixup
from ict.algorithms.mean_teacher import MeanTeacher
from ict.algorithms.mixup import Mixup
from ict.algorithms.pi import Pi
from ict.algorithms.supervised import Supervised
from ict.algorithms.vadd import VAdD
from ict.algorithms.vat import VAT
from ict.base.rng import Rng
from ict.contract import Algorithm
from ict.engine.averages import WeightAverage
from ict.engine.forward import Forward
from tests.naive import U, V, batch_of
from tests.scripted import ScriptedDraws, tanh_network


def total(algorithm: Algorithm, w: float, rng: Rng | ScriptedDraws) -> float:
    batch = batch_of(*(U, V)[: algorithm.needs.views])
    student, teacher = Forward(tanh_network(1)), Forward(tanh_network(2), gradient=False)
    return algorithm.loss(student, teacher, batch, torch.tensor(w, dtype=torch.float64), rng).total.item()


def rng() -> Rng:
    return Rng(torch.device("cpu"), 11)


def test_ict_with_no_weight_is_mixup() -> None:
    assert total(ICT(alpha=0.7), 0.0, rng()) == total(Mixup(alpha=0.7), 0.0, rng())


def test_ict_with_no_weight_and_no_mixing_is_supervised() -> None:
    assert total(ICT(mix_labeled=False), 0.0, rng()) == total(Supervised(), 0.0, rng())


def test_manifold_mixup_at_depth_0_is_mixup() -> None:
    assert total(ManifoldMixup(alpha=0.7, depth=0), 0.0, rng()) == total(Mixup(alpha=0.7), 0.0, rng())


def test_ict_in_hidden_layers_with_no_weight_is_manifold_mixup() -> None:
    assert total(ICT(alpha=0.7, depth=1), 0.0, ScriptedDraws([0.3, 0.3], [[1], [0]])) == total(
        ManifoldMixup(alpha=0.7, depth=1), 0.0, ScriptedDraws([0.3], [[1]])
    )


def test_consistency_methods_with_no_weight_are_supervised() -> None:
    supervised = total(Supervised(), 0.0, rng())
    for method in (Pi(), MeanTeacher(), VAT(), VAdD(entropy=0.0)):
        assert total(method, 0.0, rng()) == supervised


def test_a_vanishing_perturbation_has_no_divergence() -> None:
    assert abs(total(VAT(epsilon=1e-9), 5.0, rng()) - total(Supervised(), 0.0, rng())) < 1e-12


def test_the_pi_model_is_a_mean_teacher_whose_teacher_is_the_student() -> None:
    student = tanh_network(1)
    w = torch.tensor(4.0, dtype=torch.float64)
    teacher = Forward(student, gradient=False)
    pi, mean_teacher = (m.loss(Forward(student), teacher, batch_of(U, V), w, rng()) for m in (Pi(), MeanTeacher()))
    assert pi.total.item() == mean_teacher.total.item()


def test_mixup_at_lambda_one_is_supervised_and_small_alpha_goes_there() -> None:
    supervised = total(Supervised(), 0.0, rng())
    assert total(Mixup(), 0.0, ScriptedDraws([1.0])) == supervised
    draws = Rng(torch.device("cpu"), 3)
    # lambda is 0 or 1: the batch itself, or the batch in another order
    near = [abs(total(Mixup(alpha=1e-4), 0.0, draws) - supervised) < 1e-6 for _ in range(40)]
    assert sum(near) >= 39


def test_ict_at_lambda_one_is_a_mean_teacher_on_one_view() -> None:
    student, teacher = tanh_network(1), tanh_network(2)
    u = torch.from_numpy(U)
    consistency = (student(u).softmax(1) - teacher(u).softmax(1)).square().mean()
    expected = total(Supervised(), 0.0, rng()) + 4.0 * consistency.item()
    assert abs(total(ICT(mix_labeled=False), 4.0, ScriptedDraws([1.0])) - expected) < 1e-12


def test_an_average_with_decay_zero_is_the_student() -> None:
    student = tanh_network(1)
    ema = WeightAverage(student)
    with torch.no_grad():
        for p in student.parameters():
            p.add_(1.0)
    ema.update(0.0)
    assert all(torch.equal(a, b) for a, b in zip(ema.module.parameters(), student.parameters(), strict=True))
