"""Traces of blocks: shapes they find, what F is, autograd.Function, arguments, kept arrays."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, sequential
from mxlite import autograd, gluon, init, nd
from mxlite.base import MXNetError, ShapeError
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import transformer
from numpy.testing import assert_allclose, assert_array_equal
from recording import recorded


def values(*shape: int) -> Any:
    return nd.array(np.random.default_rng(len(shape)).normal(size=shape))


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_forward_is_called_once_where_shapes_are_deferred() -> None:
    calls = []

    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.dense = nn.Dense(3)
                self.norm = nn.BatchNorm()

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            calls.append(x.shape)
            return self.norm(self.dense(x)), [x * 2]

    net = ready(Net(), hybridize=True)
    x = values(2, 4)
    with mx.autograd.record():
        found, more = net(x)
        found.sum().backward()
    assert calls == [(2, 4)]
    assert found.shape == (2, 3) and isinstance(more, list)
    same(more[0], x * 2)
    assert net.dense.weight.shape == (3, 4)
    net(x)  # for inference the graph is another one
    assert calls == [(2, 4)] * 2
    net(x)
    assert calls == [(2, 4)] * 2


def test_the_trace_that_told_shapes_computes_what_a_fresh_one_does() -> None:
    def network() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(3))
        net.initialize(mx.init.Constant(0.1))
        return net

    x = values(2, 3, 6, 6)
    first, known = network(), network()
    known(x)  # finds the shapes eagerly
    first.hybridize()
    known.hybridize()
    expected = known(x)
    assert float(expected.abs().sum().asscalar()) > 0
    same(first(x), expected)


def test_a_parameter_without_use_does_not_keep_the_others_from_being_found() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.used = self.params.get("used", shape=(3, 0), allow_deferred_init=True)
                self.unused = self.params.get("unused", shape=(7, 0), allow_deferred_init=True)

        def forward(self, x: Any) -> Any:
            return nd.FullyConnected(x, self.used.data(), num_hidden=3, no_bias=True)

    net = ready(Net(), mx.init.One(), hybridize=True)
    x = values(2, 4)
    same(net(x), nd.dot(x, nd.ones((4, 3))))
    assert net.used.shape == (3, 4)


def test_training_is_not_run_with_the_trace_for_inference() -> None:
    net = ready(sequential(nn.Dense(64), nn.Dropout(0.5)), mx.init.One(), hybridize=True)
    x = nd.ones((2, 4))
    assert float((net(x) == 4).min().asscalar()) == 1
    with mx.autograd.train_mode():
        assert float((net(x) == 0).max().asscalar()) == 1


class SeesF(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        self.seen = F
        mixed = F.zeros((2, 3)) + F.arange(3).reshape((1, 3)) + F.maximum(x, 1) + F.eye(2, 3)
        mixed = mixed + F.contrib.arange_like(x, axis=1).reshape((1, 3)) + F.full((2, 3), 2)
        mixed = F.broadcast_add(mixed, F.linalg.gemm2(x, F.ones((3, 3)))) + F.stack(x, x).sum(0)
        steps, _ = F.contrib.foreach(lambda d, s: (d + s, s + d), x, F.zeros((3,)))
        drawn = F.random.uniform(shape=(2, 3)) + F.random.normal(shape=(2, 3))
        return mixed + steps + F.power(x, 2) + F.sparse.dot(x, F.eye(3)) + 0 * drawn


def test_f_is_the_module_of_symbols_while_tracing() -> None:
    net = SeesF()
    x = nd.array(np.arange(6).reshape(2, 3))
    eager = net(x).asnumpy()
    assert net.seen is mx.nd and net.seen is not mx.sym
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager)
    assert net.seen is mx.sym and net.seen is not mx.nd
    with autograd.record():
        recorded = net(x)
    np.testing.assert_allclose(recorded.asnumpy(), eager)
    assert net.seen is mx.sym
    # Outside of the trace the module composes symbols again.
    assert isinstance(mx.sym.zeros((2,)), mx.sym.Symbol)
    assert mx.sym.random is not mx.nd.random


class Sign(autograd.Function):
    """sign with the gradient of the identity, twice; frees what it kept as DGL does."""

    def forward(self, x):
        self.save_for_backward(x)
        return x.sign()

    def backward(self, grad):
        (x,) = self.saved_tensors
        self.saved_tensors = None
        return 2 * grad * (x == x)


class SignNet(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.inner = gluon.nn.Dense(2, weight_initializer="ones")

    def hybrid_forward(self, F, x):  # noqa: N803
        return Sign()(self.inner(x))


@pytest.mark.parametrize("recorded_first", [False, True])
def test_a_function_in_a_hybridized_block(recorded_first):
    net = ready(SignNet(), hybridize=True)
    x = nd.array([[3, -4, 5]])
    if not recorded_first:
        assert net(x).asnumpy().tolist() == [[1, 1]]
    for train_mode in (True, False):
        with autograd.record(train_mode):
            y = net(x)
        y.backward()
        assert y.asnumpy().tolist() == [[1, 1]]
        assert net.inner.weight.grad().asnumpy().tolist() == [[6, -8, 10]] * 2
    assert net(-x).asnumpy().tolist() == [[-1, -1]]


def test_a_function_in_an_exported_block(tmp_path):
    net = ready(SignNet(), hybridize=True)
    net(nd.array([[3, -4, 5]]))
    symbol_file, params_file = net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
    assert again(nd.array([[-1, 0, 0]])).asnumpy().tolist() == [[-1, -1]]


class Product(gluon.HybridBlock):
    """``dot(x, weight)``, whose operator does not infer the shape of the weight."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            options = {"init": "ones", "allow_deferred_init": True}
            self.weight = self.params.get("weight", shape=(0, units), **options)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
        return F.dot(x, weight)


class Inferring(Product):
    def infer_shape(self, *args: Any) -> None:
        self.weight.shape = (args[0].shape[1], self.weight.shape[1])


class CallingBase(Inferring):
    def infer_shape(self, *args: Any) -> None:
        super().infer_shape(*args)
        gluon.HybridBlock.infer_shape(self, *args)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("layer", [Inferring, CallingBase])
def test_a_layer_s_own_infer_shape_is_called(layer: type[Product], hybrid: bool) -> None:
    alone = ready(layer(4), hybridize=hybrid)
    np.testing.assert_array_equal(alone(nd.ones((2, 3))).asnumpy(), np.full((2, 4), 3))

    net = ready(sequential(nn.Dense(5), layer(4), layer(3), nn.Dense(2)), mx.init.One())
    net.hybridize(hybrid)
    y = recorded(net, nd.ones((2, 3)))
    np.testing.assert_array_equal(y.asnumpy(), np.full((2, 2), 3 * 5 * 4 * 3))
    assert net[1].weight.shape == net[1].weight.grad().shape == (5, 4)
    assert net[2].weight.shape == (4, 3)


@pytest.mark.parametrize("hybrid", [False, True])
def test_without_it_the_error_names_operator_and_layer(hybrid: bool) -> None:
    net = ready(Product(4), hybridize=hybrid)
    with pytest.raises(ShapeError, match=r"dot: the shape of rhs must be known(?s:.*)in Product"):
        net(nd.ones((2, 3)))


class Sum(mx.gluon.HybridBlock):
    """``2 x``, plus further arrays."""

    def hybrid_forward(self, F: Any, x: Any, y: Any = None, z: Any = None) -> Any:  # noqa: N803
        total = 2 * x
        for more in (y, z):
            total = total if more is None else total + more
        return total


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
def test_each_number_of_arguments_has_its_graph(static: bool, order: tuple[int, ...]) -> None:
    net = Sum()
    net.hybridize(static_alloc=static)
    parts = [nd.array([float(10**power)]) for power in range(3)]
    for count in order * 3:  # the second call of each runs the compiled graph directly
        found = float(net(*parts[:count]).asscalar())
        assert found == 1 + float(sum(10**power for power in range(count)))
    assert float(net(parts[0], None, parts[2]).asscalar()) == 102.0
    with pytest.raises(TypeError):
        net(*parts, parts[0])


@pytest.mark.parametrize("first", ["x", "lengths", "mask"])
def test_an_encoder_heeds_lengths_after_a_call_without_them(first: str) -> None:
    cell = transformer.TransformerEncoderCell(8, 16, 2)
    cell.initialize(mx.init.Normal(0.5))
    x = nd.random.normal(shape=(2, 6, 8))
    lengths = nd.array([2, 4], dtype="int32")
    calls = {"x": (x,), "lengths": (x, lengths), "mask": (x, lengths, nd.ones((2, 1, 6, 6)))}
    expected = {name: cell(*args).asnumpy() for name, args in calls.items()}
    assert np.abs(expected["x"] - expected["lengths"]).max() > 0.01
    cell.hybridize()
    for name in [first, *calls, *calls]:
        found = cell(*calls[name]).asnumpy()
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


class Basis(gluon.HybridBlock):
    """Multiplies by powers that its first forward makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.basis: Any = None
        self.calls = 0
        with self.name_scope():
            self.theta = nn.Dense(3, use_bias=False)
            self.project = nn.HybridLambda(lambda F, x: F.dot(x, self.basis))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        self.calls += 1
        if self.basis is None:
            t = F.arange(0, 4) / 2
            self.basis = F.stack(*[t**i for i in range(3)])
        return self.project(self.theta(x))


POWERS = np.array([[1, 1, 1, 1], [0, 0.5, 1, 1.5], [0, 0.25, 1, 2.25]], np.float32)


@pytest.mark.parametrize("size", [0, 2])
def test_what_was_made_of_nothing_is_made_again(size: int) -> None:
    """With ``size`` 0, the first trace only finds the shape of the weight."""
    net = Basis()
    if size:
        net.theta = nn.Dense(3, use_bias=False, in_units=size)
    net.initialize(init.One())
    net.hybridize()
    for rows in (2, 5):
        x = nd.array(np.arange(rows * 2).reshape(rows, 2))
        expected = x.asnumpy().sum(axis=1, keepdims=True) * POWERS.sum(axis=0)
        assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
        recorded(net, x)
        assert_allclose(net.theta.weight.grad(), np.outer(POWERS.sum(1), x.asnumpy().sum(0)))
    assert net.calls > 1


def test_a_block_inside_of_another_keeps_arrays() -> None:
    net = ready(sequential(Basis(), Basis()), init.One(), hybridize=True)
    x = np.ones((2, 3), np.float32)
    expected = np.full((2, 3), 3) @ POWERS
    expected = expected.sum(1, keepdims=True) * POWERS.sum(0)
    assert_allclose(net(nd.array(x)).asnumpy(), expected)
    with autograd.record():
        assert_allclose(net(nd.array(x)).asnumpy(), expected)


class Kept(gluon.HybridBlock):
    """Keeps the arrays that it computes from its input, its weight and a global array."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kept: Any = None
        self.elsewhere = nd.array([10, 20])
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(2,), init=init.Constant(3))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        if self.kept is None:
            pair = F.split(F.concat(x * weight, x + self.elsewhere, dim=0), 2, axis=0)
            self.kept = pair[1] - pair[0]
        return self.kept * 2, x


def test_what_was_made_of_inputs_and_weights_follows_them() -> None:
    net = ready(Kept(), hybridize=True)
    for values in ([[1, 2]], [[4, 5], [6, 7]]):
        x = nd.array(values)
        with autograd.record():
            out, _ = net(x)
        out.backward()
        expected = 2 * (x.asnumpy() + [10, 20] - x.asnumpy() * 3)
        assert_array_equal(out.asnumpy(), expected)
        assert_array_equal(net(x)[0].asnumpy(), expected)
        assert_array_equal(net.weight.grad().asnumpy(), -2 * x.asnumpy().sum(0))
    net.weight.set_data(nd.zeros((2,)))
    assert_array_equal(net(nd.array([[1, 2]]))[0].asnumpy(), [[22, 44]])


def test_another_block_gets_no_inputs_of_this_one() -> None:
    first = ready(Kept(), hybridize=True)
    first(nd.array([[1, 2]]))
    second = ready(Kept(), hybridize=True)
    second.kept = first.kept
    with pytest.raises(MXNetError, match="while another hybridized forward was traced"):
        second(nd.array([[1, 2]]))
    first.hybridize(False)
    with pytest.raises(MXNetError, match="return it from forward instead of keeping it"):
        first(nd.array([[1, 2]]))


def test_a_state_kept_from_a_trace_is_renewed_once() -> None:
    class Norm(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.kept: Any = None
            with self.name_scope():
                self.norm = nn.BatchNorm(momentum=0.5)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            if self.kept is None:
                self.kept = self.norm(x)
            return self.kept + self.kept

    net = ready(Norm(), hybridize=True)
    x = nd.array([[2, 4], [6, 8]])
    net(x)
    with autograd.record():
        net(x)
    assert_array_equal(net.norm.running_mean.data().asnumpy(), [2, 3])
