"""mx.nd.CachedOp: a symbol called on arrays."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd, sym
from recording import differentiated


def test_a_symbol_is_called_with_its_inputs_in_order() -> None:
    op = mx.nd.CachedOp(sym.FullyConnected(num_hidden=2, name="fc") + 2)
    data, weight, bias = nd.array([[1, 2]]), nd.array([[1, 0], [3, 4]]), nd.array([10, 20])
    out = differentiated(lambda weight: op(data, weight, bias), weight, head=nd.array([[1, 10]]))
    np.testing.assert_array_equal(out.asnumpy(), [[13, 33]])
    np.testing.assert_array_equal(weight.grad.asnumpy(), [[1, 2], [10, 20]])
    bias[:] = 0
    target = nd.zeros((1, 2))
    assert op(data, weight, bias, out=target) is target
    np.testing.assert_array_equal(target.asnumpy(), [[3, 13]])


def test_states_are_written_and_several_outputs_are_a_list() -> None:
    data = sym.var("x")
    norm = sym.BatchNorm(data, momentum=0, fix_gamma=False, name="norm")
    op = mx.nd.CachedOp(sym.Group([norm, data * 2]), [("static_alloc", True)])
    x = nd.array(np.arange(6).reshape(3, 2))
    mean, var = nd.zeros((2,)), nd.ones((2,))
    with autograd.train_mode():
        normalized, doubled = op(x, nd.ones((2,)), nd.zeros((2,)), mean, var)
    np.testing.assert_array_equal(mean.asnumpy(), [2, 3])
    np.testing.assert_array_equal(doubled.asnumpy(), x.asnumpy() * 2)
    assert abs(normalized.asnumpy().mean()) < 1e-6


DENSE = sym.FullyConnected(num_hidden=2, name="fc")
TWICE = (sym.var("a") * 2).tojson()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nd.CachedOp(3), TypeError, "CachedOp: sym must be a Symbol, got int"),
        (
            lambda: nd.CachedOp(DENSE)(nd.ones(1)),
            ValueError,
            r"number of arrays must be 3, got 1 \(.*fc_",
        ),
        (
            lambda: sym._internal._CachedOp(sym.var("x")),
            *(TypeError, "subgraph must be a symbol's JSON text, got None"),
        ),
        (
            lambda: sym._internal._CachedOp(sym.var("x"), sym.var("y"), subgraph=TWICE),
            *(TypeError, r"number of inputs must be 1, got 2; the names are \['a'\]"),
        ),
        (
            lambda: sym._internal._CachedOp(3, subgraph=TWICE),
            *(TypeError, "a must be a Symbol of one output, got 3"),
        ),
        (lambda: sym.var("x")._gen_atomic_symbol(), ValueError, "x is a variable"),
    ],
)
def test_wrong_calls_are_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_an_executor_shows_its_symbol() -> None:
    net = sym.relu(sym.var("x"))
    assert net.simple_bind(mx.cpu(), x=(2,)).get_optimized_symbol() is net


def test_a_symbol_in_json_is_called_like_an_operator() -> None:
    inner = sym.BatchNorm(sym.var("x") * sym.var("w"), momentum=0, fix_gamma=False, name="norm")
    assert inner.list_inputs()[2:] == ["norm_gamma", "norm_beta", "norm_moving_mean",
                                       "norm_moving_var"]  # fmt: skip
    data, scale = sym.var("data"), sym.var("scale")
    net = sym._internal._CachedOp(data + 1, scale, subgraph=inner.tojson(), name="part") * 2
    assert net.list_arguments() == ["data", "scale", "part_norm_gamma", "part_norm_beta"]
    assert net.list_auxiliary_states() == ["part_norm_moving_mean", "part_norm_moving_var"]
    x = nd.array(np.arange(6).reshape(3, 2))
    values = {
        "data": x, "scale": nd.ones((3, 2)), "part_norm_gamma": nd.ones((2,)),
        "part_norm_beta": nd.full((2,), 5),
    }  # fmt: skip
    states = {"part_norm_moving_mean": nd.zeros((2,)), "part_norm_moving_var": nd.ones((2,))}
    executor = net.bind(mx.cpu(), values, aux_states=states)
    (out,) = executor.forward(is_train=True)
    np.testing.assert_allclose(out.asnumpy().mean(axis=0), [10, 10], rtol=1e-5)
    np.testing.assert_allclose(states["part_norm_moving_mean"].asnumpy(), [3, 4])
    twice = sym._internal._CachedOp(data, data, subgraph=(sym.var("a") - sym.var("b")).tojson())
    (zeros,) = twice.bind(mx.cpu(), {"data": x}).forward()
    np.testing.assert_array_equal(zeros.asnumpy(), np.zeros((3, 2)))


def test_an_operator_of_a_symbol_on_new_variables() -> None:
    inner = sym.FullyConnected(sym.relu(sym.var("x")), num_hidden=3, name="fc")
    atomic = inner._gen_atomic_symbol()
    assert atomic.list_arguments() == ["fc_data", "fc_weight", "fc_bias"]
    assert atomic.infer_shape(fc_data=(2, 4))[1] == [(2, 3)]
