"""Blocks and symbols: export, SymbolBlock, blocks called with symbols, formats of nestings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.block import _flatten, _regroup
from pairing import pairs
from recording import recorded

sym = mx.sym


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def convnet(prefix: str = "net_") -> Any:
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(
            nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(),
            nn.Dropout(0.5), nn.Dense(5, activation="tanh"), nn.LayerNorm(), nn.Dense(3),
        )  # fmt: skip
    net.initialize(mx.init.Xavier())
    return net


def batch() -> Any:
    return nd.array(np.random.default_rng(0).normal(size=(2, 3, 8, 8)))


def exported(folder: Path) -> tuple[Any, Any, Any, list[Any]]:
    """Return a hybridized network, its input, its output and its files."""
    net, x = convnet(), batch()
    net.hybridize()
    return net, x, net(x), list(net.export(str(folder / "m")))


def imported(files: Any, names: Any = "data") -> Any:
    return gluon.SymbolBlock.imports(files[0], names, files[1])


def test_a_block_called_with_a_symbol_composes_it() -> None:
    net = convnet()
    symbol = net(sym.var("data"))
    assert symbol.list_outputs() == ["net_dense1_fwd_output"]
    states = ["net_batchnorm0_running_mean", "net_batchnorm0_running_var"]
    assert symbol.list_auxiliary_states() == states
    # Equal as sets: collect_params has them in another order.
    assert set(symbol.list_inputs()) == {"data", *net.collect_params()}


def test_nodes_have_the_names_of_1_x() -> None:
    internals = convnet()(sym.var("data")).get_internals().list_outputs()
    assert [name for name in internals if name.endswith("_output")] == [
        "net_conv0_fwd_output", "net_conv0_relu_fwd_output", "net_batchnorm0_fwd_output",
        "net_pool0_fwd_output", "net_flatten0_flatten0_output", "net_dropout0_fwd_output",
        "net_dense0_fwd_output", "net_dense0_tanh_fwd_output", "net_layernorm0_layernorm0_output",
        "net_dense1_fwd_output",
    ]  # fmt: skip


def test_the_composed_symbol_computes_what_the_block_computes() -> None:
    net, x = convnet(), batch()
    expected = net(x)
    symbol = net(sym.var("data"))
    values = {name: param.data() for name, param in net.collect_params().items()}
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), {"data": x, **values}, aux_states=states)
    close(executor.forward()[0], expected)


def test_hybrid_forward_gets_mx_sym() -> None:
    seen = []

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            seen.append(F)
            return F.concat(x, F.zeros_like(x), dim=1) * 2

    net = Net()
    symbol = net(sym.var("x"))
    assert seen == [mx.sym]
    assert symbol.eval(x=nd.ones((1, 2)))[0].asnumpy().tolist() == [[2, 2, 0, 0]]


def test_forward_may_ask_parameters_for_data() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.scale = self.params.get("scale", shape=(1, 2), init="ones")

        def forward(self, x: Any) -> Any:
            return mx.nd.broadcast_mul(x, self.scale.data())

    assert Net(prefix="n_")(sym.var("x")).list_arguments() == ["x", "n_scale"]


def test_shared_parameters_are_one_variable() -> None:
    one = nn.Dense(2, in_units=2, prefix="d_")
    two = nn.Dense(2, in_units=2, prefix="d_", params=one.collect_params())
    assert two(one(sym.var("x"))).list_arguments() == ["x", "d_weight", "d_bias"]


def test_variables_tell_what_the_parameter_is() -> None:
    dense = nn.Dense(3, in_units=2, prefix="d_")
    dense.weight.lr_mult = 2.0
    attrs = dense.weight.var().list_attr()
    assert attrs["__shape__"] == "(3, 2)"
    assert attrs["__dtype__"] == "0"
    assert attrs["__lr_mult__"] == "2.0"
    assert dense.weight.var().list_outputs() == ["d_weight"]


def test_export_and_import(tmp_path: Path) -> None:
    net, x, expected, _ = exported(tmp_path)
    files = net.export(str(tmp_path / "model"), epoch=7)
    assert [Path(file).name for file in files] == ["model-symbol.json", "model-0007.params"]
    saved = nd.load(files[1])
    assert {name.split(":")[0] for name in saved} == {"arg", "aux"}
    assert "aux:net_batchnorm0_running_mean" in saved
    block = imported(files, ["data"])
    close(block(x), expected)
    block.hybridize(False)
    close(block(x), expected)


def test_export_needs_a_run_of_the_hybridized_block(tmp_path: Path) -> None:
    net = convnet()
    net(batch())
    with pytest.raises(RuntimeError, match="first call block.hybridize\\(\\)"):
        net.export(str(tmp_path / "model"))


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, states: Any) -> Any:  # noqa: N803
            return x + states[0], [states[1] * 2, F.split(x, num_outputs=2, axis=1)[0]]

    net = hybridized(Net())
    x, states = nd.ones((2, 4)), [nd.ones((2, 4)), nd.full((2, 4), 3)]
    expected = net(x, states)
    files = net.export(str(tmp_path / "many"))
    assert files[1] is None
    block = gluon.SymbolBlock.imports(files[0], ["data0", "data1", "data2"])
    got = block(x, *states)
    close(got[0], expected[0])
    close(got[1], expected[1][0])
    close(got[2], expected[1][1])


def test_the_exported_block_trains(tmp_path: Path) -> None:
    _, x, _, files = exported(tmp_path)
    block = imported(files)
    trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
    weight = block.collect_params()["net_dense1_weight"]
    mean = block.collect_params()["net_batchnorm0_running_mean"]
    before, mean_before = weight.data().asnumpy(), mean.data().asnumpy()
    recorded(lambda: (block(x) ** 2).sum())
    trainer.step(2)
    assert not np.allclose(weight.data().asnumpy(), before)
    assert not np.allclose(mean.data().asnumpy(), mean_before)
    assert mean.grad_req == "null"


def test_a_symbol_block_in_another_block(tmp_path: Path) -> None:
    _, x, _, files = exported(tmp_path)
    inner = imported(files)

    class Outer(gluon.HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.inner = inner
                self.top = nn.Dense(2)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return self.top(F.relu(self.inner(x)))

    outer = Outer(prefix="outer_")
    outer.top.initialize()
    expected = outer(x)
    outer.hybridize()
    close(outer(x), expected)
    close(imported(outer.export(str(tmp_path / "o")))(x), expected)


def test_features_of_a_network_share_its_parameters() -> None:
    net, x = convnet(), batch()
    net(x)
    internals = net(sym.var("data")).get_internals()
    outputs = [internals["net_pool0_fwd_output"], internals["net_dense0_tanh_fwd_output"]]
    block = gluon.SymbolBlock(outputs, sym.var("data"), params=net.collect_params())
    maps, features = block(x)
    assert maps.shape == (2, 4, 3, 3)
    close(features, nn.HybridSequential.forward(net[:6], x))
    assert block.collect_params()["net_conv0_weight"] is net[0].weight


def test_begin_states_of_an_imported_symbol_take_the_batch(tmp_path: Path) -> None:
    step = sym.FullyConnected(sym.var("x"), num_hidden=8, name="i2h") + sym.FullyConnected(
        sym.zeros(shape=(0, 4)), num_hidden=8, name="h2h"
    )
    step.save(tmp_path / "cell-symbol.json")
    block = ready(gluon.SymbolBlock.imports(tmp_path / "cell-symbol.json", ["x"]))
    assert block(nd.ones((3, 5))).shape == (3, 8)
    assert block(nd.ones((6, 5))).shape == (6, 8)


def test_uninitialized_import_finds_its_shapes(tmp_path: Path) -> None:
    block = gluon.SymbolBlock.imports(exported(tmp_path)[3][0], ["data"])
    assert ready(block)(batch()).shape == (2, 3)


def test_parameters_survive_save_and_load(tmp_path: Path) -> None:
    net, x = convnet(), batch()
    symbol_block = gluon.SymbolBlock(net(sym.var("data")), sym.var("data"), net.collect_params())
    expected = symbol_block(x)
    symbol_block.save_parameters(tmp_path / "p.params")
    other = gluon.SymbolBlock(convnet()(sym.var("data")), sym.var("data"))
    other.load_parameters(tmp_path / "p.params")
    close(other(x), expected)


def test_half_precision_leaves_statistics_in_float32(tmp_path: Path) -> None:
    block = imported(exported(tmp_path)[3])
    block.cast("float16")
    params = block.collect_params()
    assert np.dtype(params["net_conv0_weight"].dtype) == np.float16
    assert np.dtype(params["net_batchnorm0_gamma"].dtype) == np.float32


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    files = exported(tmp_path)[3]
    with pytest.raises(mx.base.ValueError_, match="has no input 'image'"):
        imported(files, ["image"])
    with pytest.raises(FileNotFoundError, match="nothing-symbol.json"):
        gluon.SymbolBlock.imports(str(tmp_path / "nothing-symbol.json"), ["data"])
    with pytest.raises(TypeError, match="must be variable"):
        gluon.SymbolBlock(sym.var("x") + 1, sym.var("x") * 2)
    block = imported(files)
    with pytest.raises(ValueError, match="number of inputs must be 1 \\(data\\), got 2"):
        block(batch(), batch())


@pytest.mark.parametrize(("value", "kind"), [(np.ones((2, 3)), "ndarray"), (3, "int")])
def test_a_symbol_block_names_the_input_that_is_no_array(value: Any, kind: str) -> None:
    block = gluon.SymbolBlock(sym.var("x") + sym.var("y"), [sym.var("x"), sym.var("y")])
    with pytest.raises(TypeError, match=f"input y must be an NDArray or a Symbol, got a {kind}"):
        block(nd.ones((2, 3)), value)


def test_an_argument_that_forward_does_not_use_stays_an_argument(tmp_path: Path) -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="net_")
            with self.name_scope():
                self.dense = nn.Dense(2)

        def hybrid_forward(self, F: Any, x: Any, unused: Any) -> Any:  # noqa: N803
            return self.dense(x)

    net = ready(Net(), hybridize=True)
    x, unused = nd.ones((2, 3)), nd.ones((7,))
    expected = net(x, unused)
    files = net.export(str(tmp_path / "m"))
    names = ["data0", "data1"]
    with pytest.warns(UserWarning, match="does not use the input 'data1'"):
        block = gluon.SymbolBlock.imports(files[0], names, files[1])
    np.testing.assert_array_equal(block(x, unused).asnumpy(), expected.asnumpy())
    with pytest.raises(ValueError, match="has no input 'data1'"):
        gluon.SymbolBlock.imports(files[0], names)


def test_a_symbol_block_has_no_row_sparse_parameters() -> None:
    data, weight = mx.sym.var("data"), mx.sym.var("weight", stype="row_sparse")
    with pytest.raises(AssertionError, match="'weight' because its storage type is 'row_sparse'"):
        mx.gluon.SymbolBlock(mx.sym.dot(data, weight), data)


def test_a_block_whose_forward_was_called_by_name_can_be_exported(tmp_path):
    net = ready(sequential(gluon.nn.Dense(3)), hybridize=True)
    x = nd.ones((2, 4))
    y = net.forward(x)
    close(imported(net.export(str(tmp_path / "net")))(x), y)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("symbol_first", [False, True])
def test_arrays_and_symbols_together_are_refused(hybrid, symbol_first):
    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b):
            return a + b

    net = hybridized(Sum(), hybrid)
    inputs = [nd.ones(3), mx.sym.var("a")]
    with pytest.raises(ValueError, match="all NDArrays or all Symbols"):
        net(*(inputs[::-1] if symbol_first else inputs))


def test_a_symbol_block_is_printed_with_its_symbol():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    block = gluon.SymbolBlock([a + b, mx.sym.relu(a, name="r")], [a, b])
    lines = repr(block).splitlines()
    assert (lines[0], lines[2]) == ("SymbolBlock(", ")")
    assert lines[1].startswith("<Symbol group [") and lines[1].endswith(", r]> : 2 -> 2")


def test_a_block_without_parameters_gets_an_empty_file_of_them(tmp_path: Path) -> None:
    block = hybridized(nn.HybridLambda(lambda F, x: x * 2))
    block(nd.ones(2))
    prefix = str(tmp_path / "twice")
    assert block.export(prefix, 3) == (f"{prefix}-symbol.json", None)
    loaded = gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0003.params")
    np.testing.assert_array_equal(loaded(nd.ones(2)).asnumpy(), [2, 2])


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
        with pytest.raises(ValueError, match="for (the|this) format"):
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
