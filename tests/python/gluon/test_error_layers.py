"""Errors inside blocks name the layer, its path and inputs; asynchronous ones the user's line."""

from __future__ import annotations

import mxlite as mx
import pytest
from blocks import ready, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.HybridSequential()
        for _ in range(5):
            self.features.add(nn.Conv2D(2, 3))
        self.output = nn.Dense(2)

    def forward(self, x):
        return self.output(self.features(x))


def error_of(call) -> str:
    with pytest.raises(mx.MXNetError) as caught:
        call()
        nd.waitall()
    return str(caught.value)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("shape_is_known", [False, True])
def test_the_layer_and_its_path_are_named(hybrid, shape_is_known):
    net = ready(Net(), hybridize=hybrid)
    if shape_is_known:
        net(nd.ones((1, 3, 20, 20)))
    text = error_of(lambda: net(nd.ones((1, 3, 8, 8))))
    name = net.features[3].name
    assert f"in Net.features.3 (Conv2D {name!r}), called with (1, 2, 2, 2) float32" in text
    assert text.count("\n    in ") == 1
    assert "Convolution: " in text.splitlines()[0]


def test_a_single_layer_is_named_without_path():
    layer = ready(nn.Dense(2, in_units=4))
    text = error_of(lambda: layer(nd.ones((1, 3))))
    assert f"\n    in Dense {layer.name!r}, called with (1, 3) float32" in text


def test_symbols_name_the_layer():
    net = Net()
    bad = gluon.nn.HybridLambda(lambda F, x: F.softmax(x, axes=1))
    net.features.add(bad)
    text = error_of(lambda: net(mx.sym.var("data")))
    assert f"in Net.features.5 (HybridLambda {bad.name!r}), called with symbol " in text


def test_symbol_block_names_itself_and_the_node():
    out = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="last")
    block = ready(gluon.SymbolBlock(out, mx.sym.var("data")))
    block(nd.ones((1, 3)))
    text = error_of(lambda: block(nd.ones((1, 4))))
    assert block.name in text and "(1, 4) float32" in text


def test_the_same_error_raised_twice_is_described_once():
    error = mx.base.ValueError_("wrong")

    class Raising(gluon.Block):
        def forward(self, x):
            raise error

    block = Raising()
    for _ in range(2):
        assert error_of(lambda: block(nd.ones(1))).count("\n    in ") == 1


@pytest.mark.parametrize("hybrid", [False, True])
def test_asynchronous_errors_point_to_the_users_line(hybrid):
    net = sequential(nn.HybridLambda(lambda F, x: F.Custom(x, op_type="fails_late")), nn.Flatten())
    net.initialize()
    net.hybridize(hybrid)
    x = nd.ones((2, 3))

    def call():
        net(x).asnumpy()  # this line

    text = error_of(call)
    assert "on purpose" in text
    line = call.__code__.co_firstlineno + 1
    assert "mxlite/gluon" not in text
    if "called at" in text:
        assert f"called at {__file__}:{line}" in text


class FailsLate(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ValueError("on purpose")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        pass


@mx.operator.register("fails_late")
class FailsLateProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return FailsLate()


def test_layers_of_gluon_are_not_where_a_call_comes_from():
    layer = ready(nn.Embedding(3, 2))
    out = layer(nd.array([1, 2]))
    out.wait_to_read()
    with mx.autograd.detect_anomaly():
        text = error_of(lambda: nn.HybridLambda("log")(nd.array([-1.0])))
    assert f"called at {__file__}:" in text


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_error_of_a_block_called_with_bfloat16_is_kept(hybrid):
    layer = ready(nn.Dense(2, in_units=3, dtype="bfloat16"), hybridize=hybrid)
    with pytest.raises(mx.base.ShapeError, match=r"called with \(1, 4\) bfloat16"):
        layer(nd.ones((1, 4), dtype="bfloat16"))
