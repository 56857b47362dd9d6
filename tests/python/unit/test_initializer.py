"""Initial values: distributions, rules by name, and errors."""

from __future__ import annotations

import json
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import init, nd
from mxlite.base import MXNetError


def filled(initializer: Any, name: str, shape: tuple[int, ...]) -> Any:
    mx.random.seed(11)
    array = nd.full(shape, -7.0)
    initializer(init.InitDesc(name), array)
    return array.asnumpy()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a_bias", 0), ("a_gamma", 1), ("a_beta", 0), ("a_moving_mean", 0), ("a_running_mean", 0),
        ("a_moving_var", 1), ("a_running_var", 1), ("a_moving_inv_var", 0), ("a_min", 0),
        ("a_max", 1),
    ],
)  # fmt: skip
def test_the_suffix_of_the_name_decides(name: str, value: float) -> None:
    np.testing.assert_array_equal(filled(init.Xavier(), name, (3,)), np.full(3, value))


def test_a_parameter_s_own_initializer_wins() -> None:
    array = nd.zeros((2,))
    init.Uniform()(init.InitDesc("a_bias", {"__init__": init.Constant(3)}), array)
    np.testing.assert_array_equal(array.asnumpy(), [3, 3])
    init.Uniform()(init.InitDesc("a_bias", {"__init__": '["one", {}]'}), array)
    np.testing.assert_array_equal(array.asnumpy(), [1, 1])


@pytest.mark.parametrize("kind", ["Uniform", "Normal", "Xavier", "MSRAPrelu", "Orthogonal", "One"])
def test_arrays_are_filled_where_they_are(kind: str) -> None:
    array = nd.zeros((40, 30), ctx=mx.cpu(1))
    getattr(init, kind)()(init.InitDesc("w_weight"), array)
    assert array.ctx == mx.cpu(1)
    assert (array.asnumpy() != 0).mean() > 0.99


def test_uniform_and_normal_have_their_scale() -> None:
    values = filled(init.Uniform(0.5), "w_weight", (100, 100))
    assert -0.5 <= values.min() < -0.49
    assert 0.49 < values.max() <= 0.5
    assert abs(values.mean()) < 0.01
    assert abs(filled(init.Normal(0.2), "w_weight", (100, 100)).std() - 0.2) < 0.005


@pytest.mark.parametrize(
    ("kind", "factor", "fan"),
    [("avg", 3, (6 * 9 + 4 * 9) / 2), ("in", 2, 6 * 9), ("out", 1, 4 * 9)],
)
def test_xavier_scales_by_the_fans(kind: str, factor: float, fan: float) -> None:
    values = filled(init.Xavier(factor_type=kind, magnitude=factor), "w_weight", (4, 6, 3, 3))
    bound = np.sqrt(factor / fan)
    assert bound * 0.95 < np.abs(values).max() <= bound


def test_he_initialization_has_the_deviation_of_its_slope() -> None:
    values = filled(init.MSRAPrelu("in", 0.5), "w_weight", (300, 200))
    assert values.std() == pytest.approx(np.sqrt(2 / (1 + 0.25) / 200), rel=0.02)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (4, 2, 2, 2)])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...], kind: str) -> None:
    matrix = filled(init.Orthogonal(2.0, kind), "w_weight", shape).reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_bilinear_is_the_kernel_of_upsampling() -> None:
    kernel = filled(init.Bilinear(), "up_weight", (2, 1, 4, 4))
    row = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(kernel[1, 0], np.outer(row, row))


def test_lstm_biases_remember() -> None:
    array = nd.ones((8,))
    init.LSTMBias(2.0)._init_weight("b", array)
    np.testing.assert_array_equal(array.asnumpy(), [0, 0, 2, 2, 0, 0, 0, 0])


def test_the_vector_of_a_fused_network_has_weights_then_biases() -> None:
    hidden, width, directions = 3, 5, 2
    weights = 4 * hidden * directions * (width + hidden) + 4 * hidden * directions * (
        hidden * directions + hidden
    )
    biases = 4 * hidden * directions * 2 * 2
    array = nd.zeros((weights + biases,))
    init.FusedRNN("ones", hidden, 2, "lstm", True, forget_bias=4.0)._init_weight("p", array)
    values = array.asnumpy()
    assert (values[:weights] == 1).all()
    # The factors 2 are the numbers of layers and of biases of a forget gate.
    assert values[weights:].sum() == 4.0 * hidden * directions * 2 * 2
    gates = values[weights:].reshape(-1, 4, hidden)
    assert (gates[:, 1] == 4).all()


def test_each_gate_of_a_fused_network_is_scaled_by_its_own_shape() -> None:
    hidden, width = 40, 60
    array = nd.zeros((4 * hidden * (width + hidden + 2),))
    init.FusedRNN(init.Xavier(), hidden, 1, "lstm")._init_weight("p", array)
    values = np.abs(array.asnumpy())
    first = 4 * hidden * width
    for part, inner in ((values[:first], width), (values[first : first + 4 * hidden**2], hidden)):
        bound = np.sqrt(6 / (inner + hidden))
        assert 0.98 * bound < part.max() <= bound * (1 + 1e-6)


class _Recorded(init.Initializer):
    """Fills with 2 and keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[int, ...], Any]] = []

    def __call__(self, desc: str, arr: nd.NDArray) -> None:
        self.calls.append((desc, arr.shape, getattr(desc, "global_init", None)))
        arr[:] = 2


def test_the_gates_of_a_fused_network_are_initialized_by_name() -> None:
    network, array = _Recorded(), nd.zeros((2 * (3 * 2 * (4 + 2 + 2)),))
    desc = init.InitDesc("gru_parameters", global_init=network)
    init.FusedRNN(None, 2, 1, "gru", True)._init_weight(desc, array)
    assert (array.asnumpy() == 2).all()
    assert [name for name, _, _ in network.calls] == [
        f"{side}0_{group}_{gate}_{kind}"
        for kind in ("weight", "bias")
        for side in "lr"
        for group in ("i2h", "h2h")
        for gate in "rzo"
    ]
    assert [shape for _, shape, _ in network.calls[:6]] == [(2, 4)] * 3 + [(2, 2)] * 3
    assert {shape for _, shape, _ in network.calls[12:]} == {(2,)}
    assert all(given is network for _, _, given in network.calls)


def test_patterns_choose_the_initializers_of_gates() -> None:
    array = nd.zeros((4 * 2 * (3 + 2 + 2),))
    rules = [(".*_i2h_.*weight", 1), (".*h2h_o_weight", 2), (".*_bias", 3), (".*", 4)]
    mixed = init.Mixed([rule for rule, _ in rules], [init.Constant(v) for _, v in rules])
    desc = init.InitDesc("lstm_parameters", global_init=mixed)
    init.FusedRNN(None, 2, 1, "lstm", forget_bias=9)._init_weight(desc, array)
    values = array.asnumpy()
    np.testing.assert_array_equal(values[:24], 1)
    np.testing.assert_array_equal(values[24:40].reshape(4, 4), [[4] * 4] * 3 + [[2] * 4])
    # Constant fills weights only; a bias starts with 0 whatever pattern it has.
    np.testing.assert_array_equal(values[40:].reshape(2, 4, 2)[:, 1], 9)
    np.testing.assert_array_equal(values[40:].reshape(2, 4, 2)[:, [0, 2, 3]], 0)


def test_load_takes_values_and_falls_back(tmp_path: Any) -> None:
    nd.save(tmp_path / "a", {"arg:w": nd.array([1, 2])})
    load = init.Load(str(tmp_path / "a"), default_init=init.One())
    np.testing.assert_array_equal(filled(load, "w", (2,)), [1, 2])
    np.testing.assert_array_equal(filled(load, "v_weight", (2,)), [1, 1])
    with pytest.raises(ValueError, match=r"'w' must have its shape, \(3,\), got \(2,\)"):
        filled(load, "w", (3,))


def test_mixed_takes_the_first_pattern() -> None:
    mixed = init.Mixed([".*bias", ".*"], [init.Zero(), init.Constant(9)])
    assert filled(mixed, "a_bias", (1,)) == 0
    assert filled(mixed, "a_weight", (1,)) == 9
    with pytest.raises(ValueError, match="no pattern matches parameter 'x'"):
        init.Mixed(["y"], [init.Zero()])("x", nd.zeros((1,)))


def test_the_text_of_an_initializer_makes_it_again() -> None:
    text = init.Xavier(magnitude=2.5).dumps()
    assert json.loads(text) == [
        "xavier",
        {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 2.5},
    ]
    assert init.create(text) == init.Xavier(magnitude=2.5)
    assert init.create("zeros") == init.Zero()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: init.create("xavir"), "'xavir' is not registered; did you mean 'xavier'"),
        (
            lambda: filled(init.Xavier(), "a_weight", (3,)),
            r"must have at least 2 dimensions, got shape \(3,\)",
        ),
        (
            lambda: filled(init.Xavier("cauchy"), "a_weight", (3, 3)),
            "rnd_type must be .*got 'cauchy'",
        ),
        (lambda: filled(init.Zero(), "a_thing", (3,)), "'a_thing' ends in no known suffix"),
        (lambda: init.Mixed(["a"], []), "that of patterns, 1, got 0"),
        (lambda: init.Zero()(3, nd.zeros((1,))), "the description must be .*got 3"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "must be") for text in ("[", "[" * 100_000, "{", "[1, 2, 3]")),
        *((text, "must be") for text in ('["xavier", 5]', '["xavier"]', "[{}]")),
        ('["uniform", {"scales": 1}]', "does not describe a Uniform: .*scales"),
        ('["uniform", {"initializer": "zero"}]', "does not describe a Uniform"),
        ('{"scale": 1}', "a registered class, got None in"),
        ("[1, {}]", "got 1 in"),
        ('["[1, {}]", {}]', "got '\\[1, {}\\]' in"),
        ('["uniforn", {}]', "'uniforn' is not registered"),
    ],
)
def test_damaged_descriptions_are_value_errors(text: str, words: str) -> None:
    """Symbol files have such texts as attributes of their variables."""
    with pytest.raises(MXNetError, match=f"initializer: .*{words}") as caught:
        init.create(text)
    assert isinstance(caught.value, ValueError)


def test_descriptions_take_no_further_arguments() -> None:
    with pytest.raises(
        ValueError, match="initializer: the JSON text .* must be given alone, got 1"
    ):
        init.create('["uniform", {}]', scale=2)
    assert init.create('{"initializer": "uniform", "scale": 3}') == init.Uniform(3)


@pytest.mark.parametrize("make", [nd.array, np.array, list])
def test_a_constant_array_is_broadcast(make: Any) -> None:
    cases = [([2.0], (4,)), ([1.0, 2.0], (3, 2)), ([[1.0], [2.0]], (2, 3)), ([[1.0, 2.0]], (2,))]
    for value, shape in cases:
        parameter = mx.gluon.Parameter("w", shape=shape, init=init.Constant(make(value)))
        parameter.initialize()
        expected = np.broadcast_to(np.reshape(value, np.shape(value)[-len(shape) :]), shape)
        np.testing.assert_array_equal(parameter.data().asnumpy(), expected)
    parameter = mx.gluon.Parameter("w", shape=(4,), init=init.Constant(make([1.0, 2.0, 3.0])))
    with pytest.raises(ValueError, match=r"Constant: .*'w', \(4,\), got \(3,\)"):
        parameter.initialize()
