"""The network that a run ends with."""

from torch import nn
from torch.optim.swa_utils import update_bn

from ict.engine.state import State
from ict.engine.step import Program
from ict.rng import Use, default_generator, fold
from ict.settings import Swa


def final_network(program: Program, state: State, settings: Swa) -> nn.Module:
    """The plain mean of the weights where there is one, else the evaluated network.

    No forward pass ever ran with the mean's weights, so its batch-norm statistics are made here from training batches.
    """
    if state.swa is None:
        return state.evaluated
    network, rng = state.swa.module, program.rng
    default_generator(rng.device).manual_seed(fold(program.seed, Use.SWA, *program.ranks.key))
    rng.reseed(fold(program.seed, Use.SWA, 1))
    batches = (program.batches.at(i, rng) for i in range(settings.batches))
    inputs = (batch.u[0] if batch.u else batch.x for batch in batches)
    update_bn(inputs, network)
    program.ranks.average_(b for b in network.buffers() if b.is_floating_point())
    return network
