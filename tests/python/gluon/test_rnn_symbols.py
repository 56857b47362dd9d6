"""Recurrent cells unrolled over symbols: states begin as zeros for as many samples as there are."""

from __future__ import annotations

import mxlite as mx
import pytest
from mxlite.gluon import contrib, rnn
from mxlite.test_utils import assert_almost_equal

CELLS = {
    "rnn": lambda: rnn.RNNCell(4, input_size=3),
    "lstm": lambda: rnn.LSTMCell(4, input_size=3),
    "both ways": lambda: rnn.BidirectionalCell(
        rnn.GRUCell(4, input_size=3), rnn.GRUCell(2, input_size=3)
    ),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("layout", ["NTC", "TNC", "steps"])
def test_symbols_give_what_arrays_give(name, layout):
    cell = CELLS[name]()
    cell.initialize()
    shape = (5, 2, 3) if layout == "TNC" else (2, 5, 3)
    x = mx.nd.random.normal(shape=shape)
    data = mx.sym.Variable("data")
    feed = {"data": x}
    if layout == "steps":
        data = [mx.sym.Variable(f"step{i}") for i in range(5)]
        feed = {f"step{i}": x[:, i] for i in range(5)}
        layout = "NTC"
    expected, _ = cell.unroll(5, x, layout=layout, merge_outputs=True)
    cell.reset()
    symbol, _ = cell.unroll(5, data, layout=layout, merge_outputs=True)
    parameters = {key: p.data() for key, p in cell.collect_params().items()}
    (output,) = symbol.eval(ctx=mx.cpu(), **parameters, **feed)
    assert_almost_equal(output, expected, rtol=1e-5, atol=1e-6)


def test_states_of_convolutional_cells_too():
    cell = contrib.rnn.Conv2DLSTMCell((3, 6, 6), 2, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    cell.initialize()
    x = mx.nd.random.normal(shape=(2, 3, 3, 6, 6))
    expected, _ = cell.unroll(3, x, merge_outputs=True)
    cell.reset()
    steps = [mx.sym.Variable(f"step{i}") for i in range(3)]
    symbol, _ = cell.unroll(3, steps, merge_outputs=True)
    parameters = {key: p.data() for key, p in cell.collect_params().items()}
    feed = {f"step{i}": x[:, i] for i in range(3)}
    (output,) = symbol.eval(ctx=mx.cpu(), **parameters, **feed)
    assert_almost_equal(output, expected, rtol=1e-5, atol=1e-6)
