"""Calls of ``mx.sym`` that leave something open: inputs, dimensions, or a whole shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxlite import nd, sym

# Written by tests/data/make_compositions.py: {operator: [[parameters, arguments, states, outputs]]}
PATH = Path(__file__).resolve().parents[2] / "data" / "compositions_1.9.1.json"
COMPOSED: dict[str, list[tuple[dict[str, str], list[str], list[str], list[str]]]]
COMPOSED = json.loads(PATH.read_text())


def call(op: str, **arguments: Any) -> Any:
    """Return the symbol of a call of an operator under the name ``n``."""
    return vars(sym._internal)[op](name="n", **arguments)


def names(symbol: Any) -> list[list[str]]:
    """Return names of arguments, states and outputs without the node's name."""
    listed = symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs()
    return [[name.removeprefix("n_") for name in part] for part in listed]


@pytest.mark.parametrize("op", COMPOSED)
def test_inputs_that_are_left_out_have_the_names_of_1x(op: str) -> None:
    for params, *expected in COMPOSED[op]:
        assert names(call(op, **params)) == expected, params


@pytest.mark.parametrize("op", [op for op in COMPOSED if "num_args" not in COMPOSED[op][0][0]])
def test_any_one_input_may_be_given(op: str) -> None:
    params, arguments, states, outputs = COMPOSED[op][-1]
    for name in [*arguments, *states]:
        found = call(op, **params, **{name: sym.var("given")})
        shown = ["given" if other == name else other for other in arguments]
        hidden = ["given" if other == name else other for other in states]
        assert names(found) == [shown, hidden, outputs], name


_RATES = {"lrs": (1.0, 1.0), "wds": (0.0, 0.0)}
_LAMB = {"num_tensors": 2, "learning_rates": (1, 1), "wds": (0, 0), "step_count": (1, 1)}


# With MXNet 1.9.1 the names are the same, but the last one is wrong there: it has weight_0 twice.
@pytest.mark.parametrize(
    ("op", "params", "arguments"),
    [
        ("multi_sum_sq", {"num_arrays": 2}, "array_0 array_1"),
        ("multi_all_finite", {"num_arrays": 2}, "array_0 array_1"),
        ("multi_all_finite", {}, "array_0"),
        ("amp_multicast", {"num_outputs": 2}, "data_0 data_1"),
        ("multi_sgd_update", {"num_weights": 2, **_RATES}, "weight_0 grad_0 weight_1 grad_1"),
        ("preloaded_multi_sgd_update", {"num_weights": 1}, "weight_0 grad_0 lrs wds"),
        ("_multi_lamb_update", _LAMB, "weight_0 grad_0 weight_1 grad_1"),
    ],
)
def test_the_number_of_inputs_may_have_another_name(
    op: str, params: dict[str, Any], arguments: str
) -> None:
    assert names(call(op, **params))[0] == arguments.split()


def test_inputs_of_operators_over_many_arrays_compute() -> None:
    squares = sym.multi_sum_sq(sym.var("a"), num_arrays=2, name="n")
    assert squares.list_arguments() == ["a", "n_array_1"]
    [found] = squares.eval(a=nd.array([1, 2]), n_array_1=nd.array([3]))
    assert found.asnumpy().tolist() == [5, 9]
    [squares] = sym.multi_sum_sq(array_1=sym.var("b"), num_arrays=2, name="n")
    assert squares.list_arguments() == ["n_array_0", "b"]


OPEN = {
    "zeros": sym.zeros,
    "ones": lambda shape: sym.ones(shape=shape),
    "full": lambda shape: sym.full(shape, 3),
    "uniform": lambda shape: sym.random.uniform(0, 1, shape=shape),
    "normal": lambda shape: sym.random_normal(0, 1, shape=shape),
    "gamma": lambda shape: sym.random.gamma(2, 1, shape=shape),
    "randint": lambda shape: sym.random.randint(0, 5, shape=shape),
}


@pytest.mark.parametrize("shape", [(0, 0), (-1, -1), (0, 3), (-1, 3), [2, -1], (), None], ids=str)
@pytest.mark.parametrize("make", OPEN.values(), ids=OPEN)
def test_users_decide_what_a_shape_leaves_open(make: Any, shape: Any) -> None:
    x = sym.var("x")
    net = sym.elemwise_add(sym.cast(make(shape), "float32"), x)
    assert net.infer_shape(x=(2, 3))[:2] == ([(2, 3)], [(2, 3)])
    assert net.eval(x=nd.zeros((2, 3)))[0].shape == (2, 3)
    if shape and 3 in shape:
        assert net.infer_shape_partial(x=(2, 0))[0] == [(2, 3)]


@pytest.mark.parametrize("make", OPEN.values(), ids=OPEN)
def test_what_stays_open_is_an_error(make: Any) -> None:
    assert make((-1, 3)).infer_shape_partial()[1] == [(0, 3)]
    with pytest.raises(ValueError, match="shape .* cannot be inferred"):
        make((-1, 3)).eval()
    with pytest.raises(ValueError, match="parameter shape must be at least -1, got .*-2"):
        make((-2, 3))


def test_integers_are_drawn_as_int32_whatever_users_take() -> None:
    net = sym.random.randint(0, 5, shape=(0, 3))
    assert net.infer_type()[1] == [np.int32]
    both = sym.Group([net, sym.elemwise_add(net, sym.var("x", dtype="int32"))])
    assert both.eval(x=nd.zeros((2, 3), dtype="int32"))[0].dtype == np.int32
    assert sym.random.uniform().eval()[0].shape == (1,)  # neither a shape nor users


@pytest.mark.parametrize("function", [nd.zeros, nd.ones, lambda s: nd.random.uniform(shape=s)])
def test_arrays_have_no_open_dimensions(function: Any) -> None:
    with pytest.raises(ValueError, match=r"parameter shape must be at least 0, got \(-1, 2\)"):
        function((-1, 2))


def test_users_decide_how_far_a_range_counts() -> None:
    count = sym.arange(1, step=0.1, repeat=2, infer_range=True)
    values = sym.elemwise_add(count, sym.var("x")).eval(x=nd.zeros(8))[0].asnumpy()
    np.testing.assert_allclose(values, [1, 1, 1.1, 1.1, 1.2, 1.2, 1.3, 1.3], rtol=1e-6)
    with pytest.raises(ValueError, match="must be a multiple of repeat 2, got 7"):
        sym.elemwise_add(count, sym.var("x")).eval(x=nd.zeros(7))
    assert sym.arange(2, 7, infer_range=True).infer_shape()[1] == [(5,)]
    assert sym.arange(3).eval()[0].asnumpy().tolist() == [0, 1, 2]
