"""Counting how much of a GPU a batch fills, against torch's own counting and numbers by hand."""

import runpy

import torch
from torch.utils.flop_counter import FlopCounterMode

from ict.networks import NETWORKS

waves = runpy.run_path("research/waves.py")


def test_products_are_the_arithmetic_that_torch_counts() -> None:
    network = NETWORKS["wrn-28-2"]((3, 32, 32), 10).eval()
    x = torch.zeros(5, 3, 32, 32)
    with FlopCounterMode(display=False) as counter:
        out = network(x)
        out.sum().backward()
    of = counter.get_flop_counts()["Global"]
    backward = of[torch.ops.aten.convolution_backward]
    found = waves["products"]("wrn-28-2", 5)
    counted = 2 * sum(rows * columns * length for rows, columns, length in found)
    # a forward pass and the gradients of inputs are as much as those of weights and of inputs: the images have none
    assert counted == backward


def test_the_last_tiles_take_as_long_as_a_whole_wave() -> None:
    assert waves["filled"]([(132 * 128, 128, 64)]) == 1.0
    assert waves["filled"]([(140 * 128, 128, 64)]) == round(140 / 264, 3)
    assert waves["filled"]([(132 * 128, 64, 10)]) == 0.5
