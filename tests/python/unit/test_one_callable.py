"""Callables of operators: both ``mx.nd.f`` and ``mx.sym.f`` take arrays and symbols."""

from __future__ import annotations

import pickle

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, nd, sym

NAMES = [name for op in _core.list_ops() for name in (op["name"], *op["aliases"])]


def test_both_packages_have_all_operators():
    assert len(NAMES) > 500
    for name in NAMES:
        assert vars(nd._internal)[name] is not vars(sym._internal)[name]
    assert sym.softmax is sym.op.softmax is sym._internal.softmax


def test_the_operands_decide():
    x = nd.array([[-1.0, 2.0]])
    assert nd.relu(x).asnumpy().tolist() == [[0, 2]]
    assert sym.relu(data=x).asnumpy().tolist() == [[0, 2]]
    assert sym.concat([x, x], dim=0).shape == (2, 2)
    for composed in (
        nd.relu(sym.var("x")),
        nd.relu(data=sym.var("x")),
        nd.concat(sym.var("x"), sym.var("y"), dim=0),
        nd.concat([sym.var("x"), sym.var("y")], dim=0),
        nd.FullyConnected(None, sym.var("w"), num_hidden=2),
        nd.FullyConnected(num_hidden=2, weight=sym.var("w")),
    ):
        assert isinstance(composed, sym.Symbol)
    with pytest.raises(TypeError, match="must all be Symbols or all NDArrays"):
        nd.dot(x, sym.var("y"))
    with pytest.raises(TypeError, match="must all be Symbols or all NDArrays"):
        nd.dot(sym.var("y"), x)


def test_inputs_that_are_left_out_become_variables():
    with mx.name.NameManager():
        net = sym.FullyConnected(num_hidden=2)
        assert net.list_arguments() == [f"fullyconnected0_{n}" for n in ("data", "weight", "bias")]
        assert sym.softmax(axis=1).list_arguments() == ["softmax0_data"]
    assert sym.softmax(axis=1, attr={"__group__": "a"}).attr("__group__") == "a"
    for options in ({"axis": 1}, {"axis": 1, "name": "s"}, {"out": nd.ones(2)}):
        with pytest.raises(TypeError, match="missing required input 'data'"):
            nd.softmax(**options)
    zeros = sym._internal._zeros(shape=(2, 3), name="z")
    assert isinstance(zeros, sym.Symbol) and zeros.list_outputs() == ["z_output"]
    hints = {"__group__": "a", "weight_lr_mult": "2"}
    net = nd.FullyConnected(lr_mult=3, attr=hints, num_hidden=2, data=sym.var("x"), name="f")
    attrs = net.attr_dict()
    assert attrs["f"]["__lr_mult__"] == "3" and attrs["f"]["__group__"] == "a"
    assert attrs["f_weight"]["__lr_mult__"] == "2"


@pytest.mark.parametrize(
    "call",
    [
        lambda: nd.relu(3),
        lambda: nd.relu([1, 2]),
        lambda: nd.relu(data=3),
        lambda: nd.concat(3, dim=0),
        lambda: sym.relu(3),
        lambda: sym.concat(3, dim=0),
        lambda: sym.FullyConnected(data=np.ones(2), num_hidden=2),
    ],
)
def test_values_that_are_no_operands_are_refused(call):
    with pytest.raises(TypeError, match="must be an NDArray or a Symbol"):
        call()


def test_aliases_name_what_they_make():
    assert nd.flatten.__name__ == "flatten" and nd.Flatten.__name__ == "Flatten"
    assert nd.flatten.schema_name == nd.Flatten.schema_name == "Flatten"
    with mx.name.NameManager():
        assert nd.elemwise_add(sym.var("a"), sym.var("b")).name == "elemwise_add0"
        assert nd._internal._plus(sym.var("a"), sym.var("b")).name == "_plus0"
    assert "<op flatten(" in repr(nd.flatten)


@pytest.mark.parametrize(
    "function", [nd.flatten, sym.flatten, sym.Flatten, sym._internal._zeros, nd.random_uniform]
)
def test_pickled_operators_are_the_same_objects(function):
    assert pickle.loads(pickle.dumps(function)) is function
