"""Recurrent layers and cells."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, sequential
from mxlite import autograd, gluon
from mxlite.gluon import nn, rnn
from mxlite.gluon.contrib import rnn as contrib_rnn
from numpy.testing import assert_raises_regex
from pairing import pairs
from recording import recorded

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


def data(*shape: int, seed: int = 0) -> mx.nd.NDArray:
    return mx.nd.array(np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32"))


def fill(block: gluon.Block) -> None:
    """Initialize with values that depend on nothing but position and shape."""
    block.initialize(mx.init.Uniform(0.4), force_reinit=True)


def layers(**options: Any) -> dict[str, Any]:
    return {
        "relu": rnn.RNN(HIDDEN, activation="relu", **options),
        "tanh": rnn.RNN(HIDDEN, activation="tanh", **options),
        "lstm": rnn.LSTM(HIDDEN, **options),
        "gru": rnn.GRU(HIDDEN, **options),
    }


def values(nested: Any) -> list[np.ndarray]:
    if isinstance(nested, (list, tuple)):
        return [v for part in nested for v in values(part)]
    return [nested.asnumpy()]


def assert_same(got: Any, want: Any, tol: float = 1e-5) -> None:
    got, want = values(got), values(want)
    assert len(got) == len(want)
    for a, b in pairs(got, want):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


@pytest.mark.parametrize("kind", ["relu", "tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_a_layer_computes_what_its_stack_of_cells_computes(
    kind: str, bidirectional: bool, layout: str
) -> None:
    options = {"num_layers": 2, "bidirectional": bidirectional, "layout": layout}
    layer = layers(input_size=INPUTS, **options)[kind]
    fill(layer)
    stack = layer._unfuse()
    x = data(*((STEPS, BATCH) if layout == "TNC" else (BATCH, STEPS)), INPUTS)
    results, grads = [], []
    for run in (
        lambda: layer(x, layer.begin_state(BATCH, mx.nd.ones)),
        lambda: stack.unroll(
            STEPS, x, stack.begin_state(BATCH, mx.nd.ones), layout, merge_outputs=True
        ),
    ):
        with autograd.record():
            output, states = run()
            loss = (output * output).sum()
            for state in states:
                loss = loss + state.sum()
        loss.backward()
        results.append((output, states))
        grads.append([p.grad().asnumpy() for p in layer.collect_params().values()])
    fused, cells = results
    assert_same(fused[0], cells[0])
    # The layer joins the states of all layers and directions, h before c.
    kinds = 2 if kind == "lstm" else 1
    assert_same(fused[1], [mx.nd.stack(*cells[1][k::kinds]) for k in range(kinds)])
    for a, b in pairs(*grads):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["relu", "lstm", "gru"])
def test_hybridized_layers_give_the_same(kind: str) -> None:
    layer = layers(num_layers=2, bidirectional=True)[kind]
    fill(layer)
    x = data(STEPS, BATCH, INPUTS)
    eager, with_states = layer(x), layer(x, layer.begin_state(BATCH))
    layer.hybridize()
    for _ in range(2):  # with and without states, in turn
        assert_same(layer(x), eager)
        assert_same(layer(x, layer.begin_state(BATCH)), with_states)
    smaller = layer(data(2, 1, INPUTS))
    layer.hybridize(False)
    assert_same(smaller, layer(data(2, 1, INPUTS)))


def test_the_input_size_is_found_inside_a_hybridized_net() -> None:
    net = ready(sequential(rnn.LSTM(7, bidirectional=True, layout="NTC"), rnn.GRU(3), nn.Dense(2)))
    net.hybridize()
    assert net(data(4, 5, 6)).shape == (4, 2)
    assert net[0].l0_i2h_weight.shape == (28, 6)
    assert net[0].r0_i2h_weight.shape == (28, 6)
    assert net[1].l0_i2h_weight.shape == (9, 14)


def test_names_of_parameters_are_those_of_1x(tmp_path: Any) -> None:
    layer = rnn.LSTM(3, 2, bidirectional=True, input_size=2, prefix="net_")
    names = [f"net_{s}{k}_{w}" for k in (0, 1) for s in "lr" for w in _WEIGHTS]
    assert sorted(layer.collect_params()) == sorted(names)
    fill(layer)
    layer.save_parameters(tmp_path / "lstm.params")
    saved = mx.nd.load(str(tmp_path / "lstm.params"))
    assert "_unfused.1.r_cell.h2h_weight" in saved
    other = rnn.LSTM(3, 2, bidirectional=True)
    other.load_parameters(tmp_path / "lstm.params")
    x = data(STEPS, BATCH, 2)
    assert_same(other(x), layer(x))
    plain = ready(rnn.GRU(3, input_size=2))
    plain.save_parameters(tmp_path / "gru.params")
    assert "_unfused.0.i2h_bias" in mx.nd.load(str(tmp_path / "gru.params"))


_WEIGHTS = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")


def test_sequence_length_equals_separate_short_sequences() -> None:
    for kind, layer in layers(num_layers=2, bidirectional=True, use_sequence_length=True).items():
        fill(layer)
        x, lengths = data(STEPS, BATCH, INPUTS), [5, 2, 3]
        output, states = layer(x, layer.begin_state(BATCH), mx.nd.array(lengths))
        for n, length in enumerate(lengths):
            alone, own = layer(x[:length, n : n + 1], layer.begin_state(1), mx.nd.array([length]))
            assert_same(output[:length, n : n + 1], alone)
            assert (output[length:, n].asnumpy() == 0).all(), kind
            for state, single in zip(states, own):
                assert_same(state[:, n : n + 1], single)


def test_projection_matches_the_cell_with_projection() -> None:
    layer = rnn.LSTM(HIDDEN, projection_size=2, input_size=INPUTS)
    fill(layer)
    cell = ready(contrib_rnn.LSTMPCell(HIDDEN, 2, input_size=INPUTS))
    for name, param in cell._reg_params.items():
        param.set_data(layer._reg_params[f"l0_{name}"].data())
    x = data(STEPS, BATCH, INPUTS)
    output, states = layer(x, layer.begin_state(BATCH))
    by_cell, cell_states = cell.unroll(STEPS, x, layout="TNC", merge_outputs=True)
    assert_same(output, by_cell)
    assert_same([s[0] for s in states], cell_states)
    assert_raises_regex(NotImplementedError, "cannot be unfused", layer._unfuse)


def test_clipped_states_stay_in_their_bounds() -> None:
    layer = rnn.LSTM(HIDDEN, state_clip_min=-0.1, state_clip_max=0.2)
    fill(layer)
    _, (_, cell) = layer(10 * data(STEPS, BATCH, INPUTS), layer.begin_state(BATCH))
    assert cell.min().asscalar() == pytest.approx(-0.1)
    assert cell.max().asscalar() == pytest.approx(0.2)


def test_dropout_between_layers_acts_in_training_only() -> None:
    layer = rnn.LSTM(32, 2, dropout=0.5)
    fill(layer)
    x = data(STEPS, BATCH, INPUTS)
    assert_same(layer(x), layer(x))
    results = []
    for _ in range(2):
        mx.random.seed(3)
        with autograd.record():
            results.append([layer(x), layer(x)])
    assert_same(*results)
    assert not np.allclose(*values(results[0]))


def test_gradients_of_dropout_between_layers_are_those_of_the_drawn_mask() -> None:
    layer = rnn.RNN(8, 2, activation="relu", dropout=0.5, dtype="float64", input_size=3)
    layer.initialize(mx.init.Uniform(0.5))
    x = data(4, 2, 3).astype("float64")
    weight = layer.l0_i2h_weight

    def loss(shift: float) -> float:
        changed = original.copy()
        changed[0, 1] += shift
        weight.set_data(mx.nd.array(changed, dtype="float64"))
        mx.random.seed(11)
        with autograd.train_mode():
            return float(layer(x).sum().asscalar())

    original = weight.data().asnumpy()
    mx.random.seed(11)
    recorded(lambda: layer(x).sum())
    got = weight.grad().asnumpy()[0, 1]
    assert got == pytest.approx((loss(1e-6) - loss(-1e-6)) / 2e-6, rel=1e-5)
    assert abs(got) > 0


def test_layers_of_other_types() -> None:
    for dtype in ("float64", "float16"):
        layer = ready(rnn.GRU(HIDDEN, dtype=dtype))
        output, state = layer(data(STEPS, BATCH, INPUTS).astype(dtype), layer.begin_state(BATCH))
        assert output.dtype == state[0].dtype == np.dtype(dtype)
    layer = ready(rnn.GRU(HIDDEN, input_size=INPUTS))
    layer.cast("float64")
    assert layer(data(STEPS, BATCH, INPUTS).astype("float64")).dtype == np.float64
    assert layer.begin_state(BATCH)[0].dtype == np.float64


def test_representations_of_layers() -> None:
    assert repr(rnn.RNN(4, input_size=3)) == "RNN(3 -> 4, TNC)"
    layer = rnn.LSTM(3, 2, "NTC", dropout=0.1, bidirectional=True)
    assert repr(layer) == "LSTM(None -> 3, NTC, num_layers=2, dropout=0.1, bidirectional)"


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (lambda: rnn.LSTM(3, layout="CTN"), None, "layout must be 'TNC' or 'NTC', got 'CTN'"),
        (
            lambda: rnn.RNN(3, activation="elu"),
            None,
            "activation must be 'relu' or 'tanh', got 'elu'",
        ),
        (lambda: rnn.LSTM(3), [(4, 5)], r"3 dimensions .*, got shape \(4, 5\)"),
        (
            lambda: rnn.LSTM(3),
            [(4, 2, 5), [mx.nd.zeros((1, 3, 3)), mx.nd.zeros((1, 2, 3))]],
            r"must have shapes .*\(1, 2, 3\).*, got .*\(1, 3, 3\)",
        ),
        (lambda: rnn.LSTM(3), [(4, 2, 5), None, mx.nd.array([4, 4])], "without use_sequence_len"),
        (
            lambda: rnn.GRU(3, use_sequence_length=True),
            [(4, 2, 5)],
            "sequence_length must be given with",
        ),
    ],
)
def test_misuse_of_layers(make: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        layer = ready(make())
        layer(data(*arguments[0]), *arguments[1:])


def cell_kinds() -> dict[str, Any]:
    stack = rnn.HybridSequentialRNNCell()
    stack.add(rnn.LSTMCell(HIDDEN))
    stack.add(rnn.DropoutCell(0.3))
    stack.add(rnn.ResidualCell(rnn.GRUCell(HIDDEN)))
    return {
        "rnn": rnn.RNNCell(HIDDEN),
        "lstm": rnn.LSTMCell(HIDDEN, activation="relu", recurrent_activation="softsign"),
        "gru": rnn.GRUCell(HIDDEN),
        "zoneout": rnn.ZoneoutCell(rnn.LSTMCell(HIDDEN), 0.2, 0.1),
        "residual": rnn.ResidualCell(rnn.RNNCell(HIDDEN, activation="relu")),
        "bidirectional": rnn.BidirectionalCell(rnn.GRUCell(4), rnn.LSTMCell(3)),
        "stack": stack,
        "lstmp": contrib_rnn.LSTMPCell(HIDDEN, 2),
        "vardrop": contrib_rnn.VariationalDropoutCell(rnn.GRUCell(HIDDEN), 0.1, 0.2, 0.3),
    }


@pytest.mark.parametrize("kind", list(cell_kinds()))
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("merge", [None, True, False])
def test_unroll_takes_and_gives_lists_and_arrays(kind: str, layout: str, merge: Any) -> None:
    cell = cell_kinds()[kind]
    cell.initialize()
    steps = [data(BATCH, HIDDEN, seed=t) for t in range(STEPS)]
    axis = layout.find("T")
    from_list, states = cell.unroll(STEPS, steps, layout=layout, merge_outputs=merge)
    options, stacked = {"layout": layout, "merge_outputs": merge}, mx.nd.stack(*steps, axis=axis)
    from_array, more_states = cell.unroll(STEPS, stacked, **options)
    if merge is True:
        assert from_list.shape[axis] == STEPS
        assert from_list.shape == from_array.shape
    if merge is False:
        assert isinstance(from_list, list)
        assert len(from_list) == len(from_array) == STEPS

    def merged(outputs: Any) -> Any:
        return mx.nd.stack(*outputs, axis=axis) if isinstance(outputs, list) else outputs

    assert_same(merged(from_list), merged(from_array))
    assert_same(states, more_states)


@pytest.mark.parametrize("kind", list(cell_kinds()))
def test_valid_length_equals_separate_short_sequences(kind: str) -> None:
    cell = cell_kinds()[kind]
    cell.initialize()
    x, lengths = data(BATCH, STEPS, HIDDEN), [5, 2, 3]
    outputs, states = cell.unroll(STEPS, x, valid_length=mx.nd.array(lengths), merge_outputs=True)
    for n, length in enumerate(lengths):
        alone, own = cell.unroll(length, x[n : n + 1, :length], merge_outputs=True)
        assert_same(outputs[n : n + 1, :length], alone)
        assert (outputs[n, length:].asnumpy() == 0).all()
        assert_same([s[n : n + 1] for s in states], own)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "stack", "lstmp", "residual", "zoneout"])
def test_hybridized_cells_step_and_unroll_the_same(kind: str) -> None:
    cell = cell_kinds()[kind]
    cell.initialize()
    x, steps = data(BATCH, STEPS, HIDDEN), []
    want = cell.unroll(STEPS, x, merge_outputs=True)
    cell.hybridize()
    assert_same(cell.unroll(STEPS, x, merge_outputs=True), want)
    cell.reset()
    states = cell.begin_state(BATCH)
    for t in range(STEPS):
        output, states = cell(x[:, t], states)
        steps.append(output)
    assert_same(mx.nd.stack(*steps, axis=1), want[0])
    assert_same(states, want[1])


def test_unrolling_inside_a_hybridized_block() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                cell = rnn.LSTMCell(HIDDEN)
                self.cell = contrib_rnn.VariationalDropoutCell(cell, 0.2, 0.2, 0.2)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            outputs, _ = self.cell.unroll(STEPS, x, merge_outputs=True)
            return outputs

    net = ready(Net())
    x = data(BATCH, STEPS, INPUTS)
    want = net(x)
    net.hybridize()
    for _ in range(2):
        assert_same(net(x), want)
    recorded(lambda: net(x).sum())
    assert np.abs(net.cell.base_cell.i2h_weight.grad().asnumpy()).max() > 0


def test_zoneout_keeps_old_values_of_random_elements() -> None:
    cell = rnn.ZoneoutCell(rnn.RNNCell(200), zoneout_outputs=0.5, zoneout_states=0.25)
    cell.initialize(mx.init.Uniform(0.5))
    x, old = data(2, 8), mx.nd.full((2, 200), 7.0)
    with autograd.train_mode():
        output, (state,) = cell(x, [old])
    zeros = (output.asnumpy() == 0).mean()  # the output before the first is zero
    kept = (state.asnumpy() == 7).mean()
    assert 0.4 < zeros < 0.6
    assert 0.15 < kept < 0.35


def test_variational_masks_are_the_same_at_all_steps() -> None:
    for states in (0.0, 0.4):
        base = rnn.RNNCell(50, activation="relu", i2h_bias_initializer="ones")
        cell = contrib_rnn.VariationalDropoutCell(base, drop_outputs=0.5, drop_states=states)
        cell.initialize(mx.init.Uniform(0.01))
        with autograd.train_mode():
            outputs, _ = cell.unroll(STEPS, data(BATCH, STEPS, INPUTS), merge_outputs=True)
            again, _ = cell.unroll(STEPS, data(BATCH, STEPS, INPUTS), merge_outputs=True)
        dropped = outputs.asnumpy() == 0
        assert 0.3 < dropped.mean() < 0.7
        assert (dropped == dropped[:, :1]).all()
        assert (dropped != (again.asnumpy() == 0)).any()  # a new sequence, new masks


def test_dynamic_unroll_is_unroll() -> None:
    cell = ready(rnn.LSTMCell(HIDDEN))
    for layout in ("TNC", "NTC"):
        x = data(*((STEPS, BATCH) if layout == "TNC" else (BATCH, STEPS)), INPUTS)
        lengths = mx.nd.array([5, 1, 3])
        for valid in (None, lengths):
            options = {"layout": layout, "valid_length": valid}
            got = contrib_rnn.dynamic_unroll(cell, x, cell.begin_state(BATCH), **options)
            want = cell.unroll(STEPS, x, layout=layout, merge_outputs=True, valid_length=valid)
            assert_same(got, want)


def test_states_and_names_of_cells() -> None:
    stack = rnn.SequentialRNNCell(prefix="s_")
    with stack.name_scope():
        stack.add(rnn.LSTMCell(3, input_size=2))
        stack.add(rnn.ZoneoutCell(rnn.RNNCell(4, input_size=3), 0.1, 0.2))
    assert [info["shape"] for info in stack.state_info(7)] == [(7, 3), (7, 3), (7, 4)]
    assert len(stack) == 2
    assert stack[0].prefix == "s_lstm0_"
    assert sorted(stack.collect_params())[0] == "s_lstm0_h2h_bias"
    assert repr(stack) == (
        "SequentialRNNCell(\n(0): LSTMCell(2 -> 12)\n"
        "(1): ZoneoutCell(p_out=0.1, p_state=0.2, RNNCell(3 -> 4, tanh))\n)"
    )
    states = stack.begin_state(batch_size=2, func=mx.nd.ones, dtype="float64")
    assert [s.shape for s in states] == [(2, 3), (2, 3), (2, 4)]
    assert all(s.dtype == np.float64 and (s.asnumpy() == 1).all() for s in states)
    assert repr(rnn.DropoutCell(0.3)) == "DropoutCell(rate=0.3, axes=())"
    assert repr(rnn.BidirectionalCell(rnn.GRUCell(3, input_size=2), rnn.GRUCell(4))) == (
        "BidirectionalCell(forward=GRUCell(2 -> 9), backward=GRUCell(None -> 12))"
    )
    assert repr(contrib_rnn.LSTMPCell(5, 3, input_size=2)) == "LSTMPCell(2 -> 20 -> 3)"


def test_misuse_of_cells() -> None:
    cell = ready(rnn.LSTMCell(HIDDEN))
    with pytest.raises(ValueError, match="steps of inputs, 5, got 4"):
        cell.unroll(4, data(BATCH, STEPS, INPUTS))
    with pytest.raises(ValueError, match="layout must be .*, got 'NCHW'"):
        cell.unroll(4, data(BATCH, STEPS, INPUTS), layout="NCHW")
    assert_raises_regex(
        TypeError, "inputs must be an NDArray or a list of NDArrays, got None", cell.unroll, 4, None
    )
    both = rnn.BidirectionalCell(rnn.GRUCell(3), rnn.GRUCell(3))
    with pytest.raises(NotImplementedError, match="cannot be stepped"):
        both(data(2, 3), both.begin_state(2))
    assert_raises_regex(ValueError, "modify the cells inside", rnn.ZoneoutCell, both, 0.1)
    rnn.ZoneoutCell(cell, 0.1)
    assert_raises_regex(ValueError, "call the modifier cell instead", cell.begin_state, 2)
    assert_raises_regex(ValueError, "cannot be modified twice", rnn.ResidualCell, cell)
    assert_raises_regex(TypeError, "rate must be a number.*, got '0.5'", rnn.DropoutCell, "0.5")


def test_layers_and_cells_compose_symbols(tmp_path: Any) -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(rnn.LSTM(HIDDEN, 2, layout="NTC", bidirectional=True), nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = data(BATCH, STEPS, INPUTS)
    want = net(x)
    net.export(str(tmp_path / "net"))
    files = [str(tmp_path / name) for name in ("net-symbol.json", "net-0000.params")]
    loaded = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    assert_same(loaded(x), want)
    cell = rnn.BidirectionalCell(rnn.LSTMCell(HIDDEN, prefix="a_"), rnn.GRUCell(3, prefix="b_"))
    valid = mx.sym.var("valid")
    output, states = cell.unroll(STEPS, mx.sym.var("x"), merge_outputs=True, valid_length=valid)
    assert output.infer_shape(x=x.shape, valid=(BATCH,))[1] == [(BATCH, STEPS, HIDDEN + 3)]
    assert len(states) == 3
