"""Changes of parameters and children reach their graphs, copies and pickles are independent."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.parameter.bindings import Binding, Bindings
from recording import recorded


def network(prefix: str = "net_", value: float = 1.0, **options: Any) -> Any:
    """Return a hybridized network of two layers that multiplies the sum of 2 inputs by 2."""
    net = nn.HybridSequential(prefix=prefix, **options)
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2, use_bias=False), nn.Dense(1, in_units=2, use_bias=False))
    net.initialize(mx.init.Constant(value))
    net.hybridize()
    return net


X = nd.array([[1, 2]])


def reload(net: Any, folder: Path) -> None:
    net.save_parameters(str(folder / "net.params"))
    net.load_parameters(str(folder / "net.params"), ctx=mx.cpu())


CHANGES: dict[str, Callable[[Any, Path], Any]] = {
    "initialize": lambda net, _: net.initialize(force_reinit=True),
    "reset_ctx": lambda net, _: net.collect_params().reset_ctx(mx.cpu(1)),
    "cast": lambda net, _: net.cast("float64"),
    "grad_req": lambda net, _: net.collect_params().setattr("grad_req", "null"),
    "load": reload,
    "register_child": lambda net, _: net.add(nn.Dense(3)),
    "parameter": lambda net, _: setattr(net, "extra", net.params.get("extra", shape=(1,))),
    "hybridize": lambda net, _: net.hybridize(),
    "checkpoint": lambda net, _: net.checkpoint(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_another_network_costs_nothing(
    change: Callable[[Any, Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, other = network(), network("other_")
    net(X)
    other(X)
    bound = []
    original = gluon.HybridBlock._bind
    monkeypatch.setattr(
        gluon.HybridBlock, "_bind",
        lambda self, *args: bound.append(self.name) or original(self, *args),
    )  # fmt: skip
    change(other, tmp_path)
    fresh = network("fresh_")
    fresh(X)
    assert net(X).asscalar() == 6
    assert bound == ["fresh"]


def set_all(net: Any, value: float) -> None:
    net.initialize(mx.init.Constant(value), force_reinit=True)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
def test_new_arrays_of_any_layer_are_used(hybridize: bool, checkpointed: bool) -> None:
    net = hybridized(network(), hybridize)
    if checkpointed:
        net.checkpoint()
    for value in (1.0, 2.0, 3.0):
        set_all(net[1], value)
        for _ in range(2):
            y = recorded(net, X)
            assert y.asscalar() == 6 * value
            assert net[1].weight.grad().asnumpy().tolist() == [[3, 3]]


def test_shared_parameters_reach_both_networks() -> None:
    net = network()
    other = network(params=net.collect_params())
    assert other[0].weight is net[0].weight
    assert net(X).asscalar() == other(X).asscalar() == 6
    set_all(net[0], 5)
    assert other(X).asscalar() == net(X).asscalar() == 30


def test_a_layer_that_is_called_alone_has_a_graph_of_its_own() -> None:
    net = network()
    for value in (1.0, 2.0):
        set_all(net, value)
        assert net[0](X).asnumpy().tolist() == [[3 * value] * 2]
        assert net(X).asscalar() == 6 * value * value


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_child_that_is_added_later(hybridize: bool) -> None:
    net = nn.HybridSequential()
    inner = sequential(nn.HybridLambda(lambda F, x: x + 1))
    net.add(inner)
    net.hybridize()
    assert net(X).asnumpy().tolist() == [[2, 3]]
    inner.hybridize(hybridize)
    inner.add(nn.HybridLambda(lambda F, x: x * 10))
    for _ in range(2):
        assert net(X).asnumpy().tolist() == [[20, 30]]


class Scaled(gluon.HybridBlock):
    """Multiplies by a parameter if there is one."""

    def hybrid_forward(self, F: Any, x: Any, scale: Any = None) -> Any:
        return x if scale is None else F.broadcast_mul(x, scale)


def test_a_new_parameter_of_a_layer() -> None:
    net = hybridized(sequential(Scaled()))
    assert net(X).asnumpy().tolist() == [[1, 2]]
    net[0].scale = net[0].params.get("scale", shape=(1,), init=mx.init.Constant(3))
    net.initialize()
    for _ in range(2):
        assert net(X).asnumpy().tolist() == [[3, 6]]


def test_a_context_more_ends_the_direct_calls() -> None:
    """With parameters on two contexts a call must look where its input is."""
    net = network()
    net(X)
    net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    net[1].weight.list_data()[1][:] = 7
    for _ in range(2):
        assert net(X).asscalar() == 6
        assert net(X.as_in_context(mx.cpu(1))).asscalar() == 42


def test_what_a_copied_block_knows_is_its_own() -> None:
    net = ready(nn.Dense(1, in_units=2, use_bias=False), mx.init.One())
    for _ in range(3):
        net(X)
    assert net._compilation.resolved.valid
    twin = copy.deepcopy(net._compilation.resolved), copy.deepcopy(net._bindings)
    assert not twin[0].valid and not twin[1]._references


def test_bindings_that_are_gone_take_no_memory() -> None:
    net = network()
    for _ in range(200):
        net.hybridize()
        net(X)
    assert len(net[0].weight._bindings._references) <= 16
    many = Bindings()
    kept = [Binding() for _ in range(100)]
    for binding in kept:
        many.note(binding)
        many.note(Binding())
    assert len(many._references) <= 400
    many.expire(retrace=True)
    assert not any(binding.valid for binding in kept) and all(b.retrace for b in kept)


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


WAYS = pytest.mark.parametrize("copied", [copy.deepcopy, pickled])


def trained_net(x: nd.NDArray) -> nn.HybridSequential:
    """Return a hybridized network that has run and has been trained for one step."""
    net = sequential(nn.Dense(4), nn.HybridLambda("tanh"), nn.BatchNorm(), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    step(net, trainer, x)
    return net


def step(net: gluon.Block, trainer: gluon.Trainer, x: nd.NDArray) -> None:
    recorded(lambda: (net(x) ** 2).sum())
    trainer.step(1)


@WAYS
def test_a_hybridized_network_is_copied_and_trains_alone(copied: Callable[[Any], Any]) -> None:
    x = nd.random.normal(shape=(3, 5))
    net = trained_net(x)
    before = net(x).asnumpy()
    other = copied(net)
    np.testing.assert_array_equal(other(x).asnumpy(), before)
    trainer = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.5})
    step(other, trainer, x)
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    assert (other(x).asnumpy() != before).any()


@WAYS
@pytest.mark.parametrize("grad_req", ["write", "add", "null"])
def test_a_copied_parameter_keeps_its_gradient_request(
    copied: Callable[[Any], Any], grad_req: str
) -> None:
    param = gluon.Parameter("weight", shape=(2,), grad_req=grad_req)
    param.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    other = copied(param)
    for ctx in param.list_ctx():
        other.data(ctx)[:] = 3
        np.testing.assert_array_equal(param.data(ctx).asnumpy(), [1, 1])
        if grad_req == "null":
            continue
        for _ in range(2):
            recorded(lambda array: (array * 5).sum(), other.data(ctx))
        times = 2 if grad_req == "add" else 1
        np.testing.assert_array_equal(other.grad(ctx).asnumpy(), [5 * times, 5 * times])
        np.testing.assert_array_equal(param.grad(ctx).asnumpy(), [0, 0])


@WAYS
def test_shared_parameters_stay_shared(copied: Callable[[Any], Any]) -> None:
    first = nn.Dense(3, in_units=3)
    net = ready(sequential(first, nn.Dense(3, in_units=3, params=first.params)))
    other = copied(net)
    assert other[0].weight is other[1].weight
    assert other[0].weight is not first.weight


@WAYS
def test_an_imported_block_is_copied(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    x = nd.random.normal(shape=(3, 5))
    net = trained_net(x)
    symbol, params = net.export(str(tmp_path / "model"))
    block = hybridized(gluon.SymbolBlock.imports(symbol, ["data"], params))
    before = block(x).asnumpy()
    np.testing.assert_array_equal(copied(block)(x).asnumpy(), before)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_parameters_are_pickled_by_every_protocol(protocol: int) -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    other = pickle.loads(pickle.dumps(param, protocol))
    assert [array.ctx for array in other.list_data()] == [mx.cpu(0), mx.cpu(1)]


def test_a_shallow_copy_leaves_the_original_s_gradient_alone() -> None:
    net = ready(nn.Dense(1, in_units=2, use_bias=False), hybridize=True)
    recorded(lambda: net(nd.array([[1, 2]])).sum())
    other = copy.copy(net)
    other(nd.ones((1, 2)))
    assert copy.copy(net.weight).data() is net.weight.data()
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), [[1, 2]])
