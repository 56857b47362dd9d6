"""Hybridized blocks whose calls have different numbers of arguments."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.gluon.contrib.nn import transformer


class Sum(mx.gluon.HybridBlock):
    """``2 x``, plus further arrays."""

    def hybrid_forward(self, F: Any, x: Any, y: Any = None, z: Any = None) -> Any:  # noqa: N803
        total = 2 * x
        for more in (y, z):
            total = total if more is None else total + more
        return total


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
def test_each_number_of_arguments_has_its_graph(static: bool, order: tuple[int, ...]) -> None:
    net = Sum()
    net.hybridize(static_alloc=static)
    parts = [nd.array([float(10**power)]) for power in range(3)]
    for count in order * 3:  # the second call of each runs the compiled graph directly
        found = float(net(*parts[:count]).asscalar())
        assert found == 1 + float(sum(10**power for power in range(count)))
    assert float(net(parts[0], None, parts[2]).asscalar()) == 102.0
    with pytest.raises(TypeError):
        net(*parts, parts[0])


@pytest.mark.parametrize("first", ["x", "lengths", "mask"])
def test_an_encoder_heeds_lengths_after_a_call_without_them(first: str) -> None:
    cell = transformer.TransformerEncoderCell(8, 16, 2)
    cell.initialize(mx.init.Normal(0.5))
    x = nd.random.normal(shape=(2, 6, 8))
    lengths = nd.array([2, 4], dtype="int32")
    calls = {"x": (x,), "lengths": (x, lengths), "mask": (x, lengths, nd.ones((2, 1, 6, 6)))}
    expected = {name: cell(*args).asnumpy() for name, args in calls.items()}
    assert np.abs(expected["x"] - expected["lengths"]).max() > 0.01
    cell.hybridize()
    for name in [first, *calls, *calls]:
        found = cell(*calls[name]).asnumpy()
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
