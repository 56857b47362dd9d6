"""Errors inside symbols name the node and the user's line that composed it."""

from __future__ import annotations

import inspect

import mxlite as mx
import pytest
from mxlite import nd

LINE: dict[str, int] = {}


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def reshaped() -> mx.sym.Symbol:
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    LINE["resh"] = here() + 1
    data = mx.sym.reshape(data, shape=(3, 5), name="resh")
    return mx.sym.relu(data)


def taken() -> mx.sym.Symbol:
    LINE["tk"] = here() + 1
    return mx.sym.take(mx.sym.var("data"), mx.sym.var("i"), mode="raise", name="tk")


def place(name: str) -> str:
    return f"{__file__}:{LINE[name]}"


def error_of(call) -> str:
    with pytest.raises(mx.MXNetError) as caught:
        call()
        nd.waitall()
    return str(caught.value)


def block_of(symbol: mx.sym.Symbol, *names: str) -> mx.gluon.SymbolBlock:
    block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(name) for name in names])
    block.initialize()
    return block


ARRAYS = {"data": nd.ones((2, 8)), "fc1_weight": nd.ones((4, 8)), "fc1_bias": nd.ones(4)}
SHAPES = {
    "infer_shape": lambda s: s.infer_shape(data=(2, 8)),
    "simple_bind": lambda s: s.simple_bind(mx.cpu(), data=(2, 8)),
    "bind": lambda s: s.bind(mx.cpu(), ARRAYS),
    "module": lambda s: mx.mod.Module(s, label_names=None).bind([("data", (2, 8))]),
    "block": lambda s: block_of(s, "data")(ARRAYS["data"]),
    "copied": lambda s: s.__copy__().infer_shape(data=(2, 8)),
}


@pytest.mark.parametrize("way", SHAPES)
def test_a_shape_that_does_not_fit(way):
    text = error_of(lambda: SHAPES[way](reshaped()))
    assert "Error in operator resh: Reshape: data of shape (2, 4)" in text
    assert f"\n    composed at {place('resh')}" in text
    assert text.count("composed at") == 1


def test_a_hybridized_symbol_block_names_the_node():
    block = block_of(reshaped(), "data")
    block.hybridize()
    text = error_of(lambda: block(ARRAYS["data"]))
    assert "Error in operator resh: " in text and f"composed at {place('resh')}" in text
    assert f"in SymbolBlock {block.name!r}, called with (2, 8) float32" in text


def test_executors_and_modules_name_the_node_of_a_wrong_value():
    executor = taken().bind(mx.cpu(), {"data": nd.ones((2, 8)), "i": nd.array([5.0])})
    text = error_of(executor.forward)
    assert "index 5 is out of range" in text
    assert f"while running node tk ({place('tk')}) of tk" in text
    module = mx.mod.Module(taken(), data_names=("data", "i"), label_names=None)
    module.bind([("data", (2, 8)), ("i", (2,))], for_training=False)
    module.init_params()
    batch = mx.io.DataBatch([nd.ones((2, 8)), nd.array([0.0, 5.0])])
    text = error_of(lambda: module.forward(batch))
    assert f"while running node tk ({place('tk')})" in text


def test_a_block_of_a_symbol_from_a_file_has_names_without_lines():
    loaded = mx.sym.load_json(taken().tojson())
    text = error_of(lambda: block_of(loaded, "data", "i")(nd.ones((2, 8)), nd.array([5.0])))
    assert "while running node tk of " in text


def test_a_hybridized_block_names_the_line_of_its_forward():
    class Taker(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, i):  # noqa: N803
            LINE["forward"] = here() + 1
            return F.take(x, i, mode="raise")

    block = Taker()
    block.hybridize()
    text = error_of(lambda: block(nd.ones((2, 8)), nd.array([5.0])))
    assert f"({place('forward')})" in text


def test_names_that_a_symbol_does_not_have_are_refused():
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    for infer in (symbol.infer_shape, symbol.infer_shape_partial):
        with pytest.raises(mx.MXNetError, match="no argument 'dat'; did you mean 'data'"):
            infer(dat=(2, 3))
    with pytest.raises(TypeError, match="no argument 'x'; its arguments are data, fc_weight"):
        symbol.infer_type(x="float32")
