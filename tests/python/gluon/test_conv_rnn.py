"""Recurrent cells with convolutions, and cells unrolled over symbols."""

from __future__ import annotations

import mxlite as mx
import pytest
from blocks import ready
from mxlite.gluon import rnn
from mxlite.gluon.contrib import rnn as contrib_rnn
from test_rnn import BATCH, HIDDEN, INPUTS, STEPS, assert_same, data


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutional_cells_with_one_pixel_are_dense_cells(kind: str, dims: int) -> None:
    kind_of_cell = getattr(contrib_rnn, f"Conv{dims}D{kind}Cell")
    conv = kind_of_cell((INPUTS, *(1,) * dims), HIDDEN, i2h_kernel=1, h2h_kernel=1)
    conv.initialize()
    dense = getattr(rnn, f"{kind}Cell")(HIDDEN, input_size=INPUTS)
    dense.initialize()
    for name, param in dense._reg_params.items():
        param.set_data(conv._reg_params[name].data().reshape(param.shape))
    x = data(BATCH, STEPS, INPUTS)
    want, states = dense.unroll(STEPS, x, merge_outputs=True)
    images = x.reshape((BATCH, STEPS, INPUTS) + (1,) * dims)
    got, conv_states = conv.unroll(STEPS, images, merge_outputs=True)
    assert_same(got.reshape(want.shape), want)
    assert_same([s.reshape((BATCH, HIDDEN)) for s in conv_states], states)


def test_convolutional_cells_keep_the_shape_of_their_state() -> None:
    cell = contrib_rnn.Conv2DLSTMCell((3, 9, 7), 4, (3, 2), 3, i2h_pad=(1, 0), h2h_dilate=2)
    assert cell.state_info(2)[0]["shape"] == (2, 4, 9, 6)
    assert cell.i2h_weight.shape == (16, 3, 3, 2)
    assert repr(cell) == "Conv2DLSTMCell(3 -> 16, tanh, NCHW)"
    cell.initialize()
    output, states = cell(data(2, 3, 9, 7), cell.begin_state(2))
    assert output.shape == states[1].shape == (2, 4, 9, 6)
    last = contrib_rnn.Conv1DGRUCell((8, 3), 4, 3, 3, i2h_pad=1, conv_layout="NWC")
    assert last.state_info(2) == [{"shape": (2, 8, 4), "__layout__": "NWC"}]
    assert last.h2h_weight.shape == (12, 3, 4)
    first = contrib_rnn.Conv1DGRUCell((3, 8), 4, 3, 3, i2h_pad=1)
    for cell in (last, first):
        cell.initialize()
    for name in ("i2h_weight", "h2h_weight"):
        values_of = getattr(last, name).data()
        getattr(first, name).set_data(values_of.swapaxes(1, 2))
    x = data(2, STEPS, 8, 3)
    want, _ = last.unroll(STEPS, x, merge_outputs=True)
    got, _ = first.unroll(STEPS, x.swapaxes(2, 3), merge_outputs=True)
    assert_same(got.swapaxes(2, 3), want)


def test_misuse_of_convolutional_cells() -> None:
    with pytest.raises(ValueError, match="h2h_kernel must have odd sizes"):
        contrib_rnn.Conv2DRNNCell((3, 8, 8), 4, 3, 2)
    with pytest.raises(ValueError, match="input_shape must have 3 dimensions"):
        contrib_rnn.Conv2DRNNCell((3, 8), 4, 3, 3)
    with pytest.raises(ValueError, match=r"i2h_pad must be an int or a tuple of 1, got \(1, 1\)"):
        contrib_rnn.Conv1DRNNCell((3, 8), 4, 3, 3, i2h_pad=(1, 1))
    with pytest.raises(ValueError, match="conv_layout must be .*got 'NHWC'"):
        contrib_rnn.Conv1DRNNCell((3, 8), 4, 3, 3, conv_layout="NHWC")


CELLS = {
    "rnn": lambda: rnn.RNNCell(4, input_size=3),
    "lstm": lambda: rnn.LSTMCell(4, input_size=3),
    "both ways": lambda: rnn.BidirectionalCell(
        rnn.GRUCell(4, input_size=3), rnn.GRUCell(2, input_size=3)
    ),
    "convolution": lambda: contrib_rnn.Conv2DLSTMCell((3, 6, 6), 2, 3, 3, i2h_pad=1),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("layout", ["NTC", "TNC", "steps"])
def test_symbols_give_what_arrays_give(name: str, layout: str) -> None:
    """States begin as zeros for as many samples as there are."""
    cell = ready(CELLS[name]())
    image = (6, 6) if name == "convolution" else ()
    x = data(*((5, 2, 3) if layout == "TNC" else (2, 5, 3)), *image)
    symbols, feed = mx.sym.Variable("data"), {"data": x}
    if layout == "steps":
        symbols = [mx.sym.Variable(f"step{i}") for i in range(5)]
        feed, layout = {f"step{i}": x[:, i] for i in range(5)}, "NTC"
    expected, _ = cell.unroll(5, x, layout=layout, merge_outputs=True)
    cell.reset()
    symbol, _ = cell.unroll(5, symbols, layout=layout, merge_outputs=True)
    parameters = {key: p.data() for key, p in cell.collect_params().items()}
    assert_same(symbol.eval(ctx=mx.cpu(), **parameters, **feed), [expected])
