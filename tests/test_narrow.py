"""research/narrow.py against the CNN-13 that it makes narrower."""

import torch
from narrow import Narrow
from torch import nn

from ict.networks import NETWORKS


def test_undivided_it_computes_what_cnn13_computes_but_for_half_precision() -> None:
    torch.manual_seed(0)
    whole: nn.Module = NETWORKS["cnn13"]((3, 32, 32), 10, weight_norm=False)
    same = Narrow((3, 32, 32), 10, divisor=1)
    same.load_state_dict(dict(zip(same.state_dict(), whole.state_dict().values(), strict=True)))
    x = torch.randn(16, 3, 32, 32)
    with torch.no_grad():
        logits, expected = same(x), whole(x)
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, expected)  # half precision was used
    torch.testing.assert_close(logits, expected, rtol=0, atol=0.2 * float(expected.std(0).mean()))


def test_divided_it_has_that_share_of_the_channels() -> None:
    whole: nn.Module = NETWORKS["cnn13"]((3, 32, 32), 10, weight_norm=False)
    widths = [
        [m.out_channels for m in n.modules() if isinstance(m, nn.Conv2d)] for n in (Narrow((3, 32, 32), 10), whole)
    ]
    assert [8 * n for n in widths[0]] == widths[1]
