"""Formats: how 1.x writes down the nesting of inputs and outputs, which GluonTS stores."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite.gluon.block import _flatten, _regroup
from pairing import pairs


def test_flatten_and_regroup():
    a, b, c = nd.ones((1,)), nd.ones((2,)), nd.ones((3,))
    nested = [a, [b, [c]], None, (a,)]
    flat, fmt = _flatten(nested, "input")
    assert fmt == [0, [0, [0]], -1, [0]]
    assert [entry if entry is None else entry.shape for entry in flat] == [
        (1,), (2,), (3,), None, (1,),
    ]  # fmt: skip
    again = _regroup(flat, fmt)
    assert again[1][1][0] is c and again[2] is None and again[3] == [a]
    assert _flatten(a, "input") == ([a], 0)
    pair = mx.sym.split(mx.sym.var("x"), num_outputs=2)
    assert _flatten([pair, pair[0]], "output")[1] == [2, 0]
    assert _regroup([a, b, c], [2, 0]) == [[a, b], c]


def test_what_does_not_fit_a_format_is_refused():
    a = nd.ones((1,))
    with pytest.raises(ValueError, match="input of HybridBlock.*3 of type int"):
        _flatten([a, 3], "input")
    for flat, fmt in (([a], [0, 0]), ([a, a], [0]), ([a], [-1])):
        with pytest.raises(ValueError, match=r"given for the format|format has None"):
            _regroup(flat, fmt)


class Nest(gluon.HybridBlock):
    def hybrid_forward(self, F, x, pair):
        return x + pair[0], [x * pair[1], (x, [x - 1])]


def inputs():
    return nd.array([1, 2]), [nd.array([10, 20]), nd.array([3, 4])]


def test_an_exported_block_with_its_formats(tmp_path):
    net = Nest()
    net.hybridize()
    assert (net._in_format, net._out_format) == (None, None)
    wanted = net(*inputs())
    assert net._in_format == [0, [0, 0]]
    assert net._out_format == [0, [0, [0, [0]]]]
    net.export(str(tmp_path / "net"))
    names = ["data0", "data1", "data2"]
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), names)
    x, pair = inputs()
    assert len(block(x, *pair)) == 4
    block._in_format, block._out_format = net._in_format, net._out_format
    for symbolic in (False, True):
        if symbolic:
            variables = [mx.sym.var(name) for name in "abc"]
            out = block(variables[0], variables[1:])
            flat = mx.sym.Group(_flatten(out, "output")[0])
            args = {name: array for name, array in zip("abc", [x, *pair])}
            out = _regroup(flat.bind(mx.cpu(), args).forward(), block._out_format)
        else:
            out = block(x, pair)
        assert _flatten(out, "output")[1] == net._out_format
        for got, want in pairs(_flatten(out, "output")[0], _flatten(wanted, "output")[0]):
            np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
    block._out_format = None
    assert len(block(x, *pair)) == 4


def test_formats_of_a_block_that_was_not_called():
    net = Nest()
    net._in_format = [0, [0, 0]]
    assert net._in_format == [0, [0, 0]] and net._out_format is None


def test_cached_graph_of_a_block():
    """Tools such as mxboard read the symbol from ``block._cached_graph``."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize()
    assert net._cached_graph == ()
    net(mx.nd.ones((1, 2)))
    assert net._cached_graph == ()  # not hybridized
    net.hybridize()
    assert net._cached_graph == ()  # not run yet
    x = mx.nd.array([[1.0, -2.0]])
    expected = net(x).asnumpy()
    inputs, symbol = net._cached_graph
    assert [entry.name for entry in inputs] == ["data"]
    args = {name: param.data() for name, param in net.collect_params().items()}
    assert sorted(symbol.list_arguments()) == sorted([*args, "data"])
    got = symbol.bind(mx.cpu(), {**args, "data": x}).forward()[0]
    np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5)
    assert net[0]._cached_graph == ()
    net.hybridize(False)
    assert net._cached_graph == ()
    net._cached_graph = (1, 2)  # scripts of 1.x may set it
    assert net._cached_graph == (1, 2)


def test_cached_graph_of_a_symbol_block():
    data = mx.sym.var("data")
    out = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    block = mx.gluon.SymbolBlock(out, data)
    inputs, symbol = block._cached_graph
    assert [entry.name for entry in inputs] == ["data"]
    assert symbol.list_arguments() == ["data", "fc_weight", "fc_bias"]
    block.hybridize(False)
    assert block._cached_graph[1].list_outputs() == ["fc_output"]
