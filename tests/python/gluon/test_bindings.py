"""Changes of parameters and children concern the graphs that use them, and no others."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import pytest
from blocks import hybridized, ready, recorded, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.parameter.bindings import Binding, Bindings


def network(prefix: str = "net_", value: float = 1.0, **options: Any) -> Any:
    """Return a hybridized network of two layers that multiplies the sum of 2 inputs by 2."""
    net = nn.HybridSequential(prefix=prefix, **options)
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2, use_bias=False), nn.Dense(1, in_units=2, use_bias=False))
    net.initialize(mx.init.Constant(value))
    net.hybridize()
    return net


X = nd.array([[1, 2]])

# -- changes of one network leave the others alone -------------------------------------------------


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


# -- changes of a network reach it -----------------------------------------------------------------


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
