"""Parameters, their dictionaries and subclasses: deferred shapes, contexts, gradients, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_array_equal
from recording import recorded, variable


def test_a_parameter_is_initialized_on_every_context() -> None:
    param = gluon.Parameter("weight", shape=(3, 2))
    param.initialize(init="xavier", ctx=[mx.cpu(0), mx.cpu(1)])
    assert param.list_ctx() == [mx.cpu(0), mx.cpu(1)]
    assert param.data(mx.cpu(1)).context == mx.cpu(1)
    assert_array_equal(param.data(mx.cpu(0)).asnumpy(), param.data(mx.cpu(1)).asnumpy())
    assert len(param.list_data()) == len(param.list_grad()) == 2
    assert param.grad(mx.cpu(1)).shape == (3, 2)


def test_without_context_the_current_one_counts() -> None:
    param = ready(gluon.Parameter("weight", shape=(1,)), ctx=[mx.cpu(1), mx.cpu(2)])
    with mx.cpu(2):
        assert param.data().context == mx.cpu(2)
    with pytest.raises(RuntimeError, match=r"'weight' was not initialized on context cpu\(0\)"):
        param.data()


def test_an_own_initializer_wins_over_the_network_s() -> None:
    param = gluon.Parameter("thing", shape=(2,), init=mx.init.Constant(4))
    param.initialize(default_init=mx.init.One())
    assert_array_equal(param.data().asnumpy(), [4, 4])


def test_a_second_initialization_warns_and_changes_nothing() -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), init="ones")
    with pytest.warns(UserWarning, match="'p' is already initialized, ignoring"):
        param.initialize(init="zeros")
    assert_array_equal(param.data().asnumpy(), [1, 1])
    param.initialize(init="zeros", force_reinit=True)
    assert_array_equal(param.data().asnumpy(), [0, 0])


def test_the_gradient_takes_what_grad_req_says() -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), init="ones")

    def run() -> list[float]:
        recorded(lambda: (param.data() * nd.array([2, 3])).sum())
        return list(param.grad().asnumpy())

    assert run() == [2, 3]
    assert run() == [2, 3]
    param.grad_req = "add"
    assert run() == [2, 3]
    assert run() == [4, 6]
    param.zero_grad()
    assert list(param.grad().asnumpy()) == [0, 0]
    param.grad_req = "null"
    with pytest.raises(RuntimeError, match="gradient array for Parameter 'p' because grad_req"):
        param.grad()
    param.grad_req = "write"
    assert run() == [2, 3]


def test_a_parameter_that_is_not_differentiable_stays_without_gradient() -> None:
    param = gluon.Parameter("running_mean", shape=(2,), differentiable=False)
    param.grad_req = "write"
    assert param.grad_req == "null"


def test_set_data_writes_into_the_same_arrays() -> None:
    param = ready(gluon.Parameter("p", shape=(2, 2)), ctx=[mx.cpu(0), mx.cpu(1)])
    before = param.data(mx.cpu(1))
    param.set_data(nd.array([[1, 2], [3, 4]]))
    assert param.data(mx.cpu(1)) is before
    assert_array_equal(before.asnumpy(), [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"shape \(3,\) is incompatible with .* \(2, 2\)"):
        param.set_data(nd.ones((3,)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_value_that_is_set_before_the_shape_is_known_is_kept_and_cast(dtype: str) -> None:
    layer = ready(nn.Dense(2))
    layer.weight.set_data(nd.array([[1, 2, 3], [4, 5, 6]]))
    if dtype != "float32":
        layer.cast(dtype)
    layer.weight._finish_deferred_init()
    assert layer.weight.data().dtype == np.dtype(dtype)
    assert_array_equal(layer.weight.data().asnumpy(), [[1, 2, 3], [4, 5, 6]])


def test_cast_converts_value_and_gradient() -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), init="ones")
    param.cast("float16")
    assert param.data().dtype == param.grad().dtype == np.float16
    param.dtype = "float64"
    assert param.data().dtype == np.float64


def test_reset_ctx_moves_the_value() -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), init="ones", ctx=mx.cpu(0))
    param.reset_ctx([mx.cpu(1), mx.cpu(2)])
    assert param.list_ctx() == [mx.cpu(1), mx.cpu(2)]
    assert_array_equal(param.data(mx.cpu(2)).asnumpy(), [1, 1])
    assert param.grad(mx.cpu(1)).context == mx.cpu(1)


def test_the_gradient_takes_no_memory_until_it_is_needed() -> None:
    size = 4 << 20
    nd.waitall()
    before = mx._core.memory_stats()["in_use"]
    param = ready(gluon.Parameter("p", shape=(size // 4,)), init="zeros")
    nd.waitall()
    assert size <= mx._core.memory_stats()["in_use"] - before < 2 * size
    assert param.grad().shape == (size // 4,)
    nd.waitall()
    assert mx._core.memory_stats()["in_use"] - before >= 2 * size


def test_a_constant_has_its_value_and_no_gradient() -> None:
    constant = ready(gluon.Constant("c", [[1, 2]]))
    constant.grad_req = "write"
    assert constant.grad_req == "null"
    assert_array_equal(constant.data().asnumpy(), [[1, 2]])


def test_an_uninitialized_parameter_says_so() -> None:
    param = gluon.Parameter("p", shape=(2,))
    for act in (param.data, param.list_data, param.grad, param.list_grad, param.list_ctx):
        with pytest.raises(RuntimeError, match="'p' has not been initialized") as caught:
            act()
        assert isinstance(caught.value, MXNetError)


def test_a_deferred_parameter_says_what_to_do() -> None:
    layer = ready(nn.Dense(3))
    with pytest.raises(gluon.DeferredInitializationError, match="Please pass one batch of data"):
        layer.weight.data()
    assert layer.weight.list_ctx() == [mx.cpu()]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: gluon.Parameter("p", grad_req="often"), "grad_req must be 'write'.*, got 'often'"),
        (lambda: gluon.Parameter("p", stype="dense"), "stype must be .*got 'dense'"),
        (lambda: gluon.Parameter("p", shape=(0,)).initialize(), r"invalid shape: \(0,\)"),
        (lambda: gluon.Parameter("p", shape=(1,)).initialize(ctx="cpu"), "ctx must be mx.cpu"),
        (
            lambda: gluon.Parameter("p", shape=(1,)).initialize(ctx=[]),
            "ctx must have at least 1 context, got an empty list",
        ),
        (lambda: gluon.Parameter("p", shape=(1,)).reset_ctx(mx.cpu()), "Cannot reset context"),
    ],
)
def test_bad_arguments_are_named(act: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        act()
    assert isinstance(caught.value, MXNetError)


def test_storage_types_are_kept_and_wrong_ones_named() -> None:
    for option in ("stype", "grad_stype"):
        param = gluon.Parameter("w", shape=(2, 2), **{option: "row_sparse"})
        assert getattr(param, option) == "row_sparse"
        with pytest.raises(ValueError, match=f"{option} must be .*got 'coo'"):
            gluon.Parameter("w", shape=(2, 2), **{option: "coo"})


def test_get_makes_a_parameter_once_and_merges_shapes() -> None:
    params = gluon.ParameterDict("net_")
    first = params.get("w", shape=(3, 0), dtype="float32", allow_deferred_init=True)
    assert repr(first) == "Parameter net_w (shape=(3, 0), dtype=float32)"
    assert params.get("w", shape=(0, 4)) is first
    assert first.shape == (3, 4)
    with pytest.raises(MXNetError, match="'net_w' because desired attribute .* 'shape'"):
        params.get("w", shape=(5, 4))
    with pytest.raises(MXNetError, match="attribute 'grad_req': desired 'add' vs stored 'write'"):
        params.get("w", grad_req="add")


def test_a_shared_dictionary_is_searched_first() -> None:
    first = gluon.ParameterDict("a_")
    weight = first.get("w", shape=(2,))
    second = gluon.ParameterDict("a_", shared=first)
    assert second.get("w") is weight


def test_constants_are_compared_by_value() -> None:
    params = gluon.ParameterDict("net_")
    constant = params.get_constant("c", [1, 2])
    assert params.get_constant("c", nd.array([1, 2])) is constant
    with pytest.raises(MXNetError, match="already exists but its value"):
        params.get_constant("c", [1, 3])
    with pytest.raises(MXNetError, match="No constant named 'net_d'"):
        params.get_constant("d")


def test_update_takes_dictionaries_and_refuses_another_parameter_of_a_name() -> None:
    params, other = gluon.ParameterDict("n_"), gluon.ParameterDict("n_")
    mine = other.get("w", shape=(1,))
    params.update(other)
    params.update({mine.name: mine})
    assert params["n_w"] is mine
    for update in (gluon.ParameterDict("n_"), {"n_w": gluon.Parameter("n_w", shape=(2,))}):
        if isinstance(update, gluon.ParameterDict):
            update.get("w", shape=(1,))
        with pytest.raises(ValueError, match="different Parameters with the same name 'n_w'"):
            params.update(update)


def test_setattr_and_list_ctx_reach_all() -> None:
    net = ready(nn.Dense(2, in_units=3), ctx=[mx.cpu(0), mx.cpu(1)])
    net.collect_params().setattr("lr_mult", 0.5)
    assert [param.lr_mult for param in net.collect_params().values()] == [0.5, 0.5]
    assert net.collect_params().list_ctx() == [mx.cpu(0), mx.cpu(1)]


def test_save_and_load_with_a_prefix_taken_off_and_put_on(tmp_path: Path) -> None:
    path = str(tmp_path / "a.params")
    one = ready(nn.Dense(2, in_units=3, prefix="one_"))
    one.collect_params().save(path, strip_prefix="one_")
    assert sorted(nd.load(path)) == ["bias", "weight"]
    two = nn.Dense(2, in_units=3, prefix="two_")
    two.collect_params().load(path, ctx=mx.cpu(1), restore_prefix="two_")
    assert_array_equal(two.weight.data().asnumpy(), one.weight.data().asnumpy())
    assert two.weight.list_ctx() == [mx.cpu(1)]
    with pytest.raises(ValueError, match="'one_weight' does not start with 'two_'"):
        one.collect_params().save(path, strip_prefix="two_")


def test_load_dict_copies_restores_a_prefix_and_names_the_file() -> None:
    params = nn.Dense(1, in_units=1, prefix="n_").collect_params()
    values = {"arg:n_weight": nd.array([[2]]), "n_bias": nd.array([3])}
    params.load_dict(values)
    values["n_bias"][:] = 9
    assert params["n_bias"].data().asscalar() == 3
    arrays = {"weight": nd.array([[4]]), "arg:bias": nd.ones((1,))}
    params.load_dict(arrays, restore_prefix="n_")
    assert params["n_weight"].data().asscalar() == 4
    with pytest.raises(ValueError, match="file 'some.params'"):
        params.load_dict(arrays, filename="some.params")


@pytest.mark.parametrize("contexts", [[mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]])
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_replaced_entry_of_the_arrays_is_read_and_differentiated(
    hybridize: bool, contexts: list[mx.Context]
) -> None:
    # Bayesian networks written for 1.x put sampled weights into Parameter._data.
    net = ready(nn.Dense(2, in_units=2, use_bias=False), mx.init.One(), ctx=contexts)
    net.hybridize(hybridize)
    x = nd.array([[1, 2]], ctx=contexts[0])
    assert_array_equal(net(x).asnumpy(), [[3, 3]])
    mean = variable(nd.array([[1, 2], [3, 4]], ctx=contexts[0]))
    position = net.weight._ctx_map[contexts[0].device_typeid & 1][0]
    for scale in (2, 3):
        with autograd.record():
            net.weight._data[position] = mean * scale
            y = net(x)
        y.backward()
        assert_array_equal(y.asnumpy(), [[5 * scale, 11 * scale]])
        assert_array_equal(mean.grad.asnumpy(), [[scale, 2 * scale]] * 2)
        assert_array_equal(net.weight.data(contexts[0]).asnumpy(), mean.asnumpy() * scale)


def test_a_trainer_updates_the_arrays_that_replaced_others() -> None:
    net = ready(nn.Dense(1, in_units=1, use_bias=False), mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    x = nd.ones((1, 1))

    def step() -> None:
        recorded(net, x)
        trainer.step(1)

    step()
    first = net.weight.data()
    other = variable(nd.array([[5]]))
    net.weight._data[0] = other
    step()
    assert first.asscalar() == 0
    assert other.asscalar() == 4


class Scaled(gluon.Parameter):
    """Uses another parameter's arrays and returns them times 2."""

    def __init__(self, other):
        self._deferred_init = other._deferred_init
        super().__init__(
            other.name, other.grad_req, other._shape, other.dtype,
            allow_deferred_init=other._allow_deferred_init, differentiable=other._differentiable,
        )  # fmt: skip
        self._var = other._var
        self._data = other._data
        self._grad = other._grad
        self._ctx_list = other._ctx_list
        self._ctx_map = other._ctx_map
        self._trainer = other._trainer

    def data(self, ctx=None):
        return 2 * self._check_and_get(self._data, ctx)


class Dropped(Scaled):
    """Returns the arrays after dropout."""

    def data(self, ctx=None):
        return mx.nd.Dropout(self._check_and_get(self._data, ctx), 0.5)


def replaced(net, kind):
    """Replace a layer's weight by one of another class, and return it."""
    param = kind(net.weight)
    net._reg_params["weight"] = param
    net._params._params[param.name] = param
    object.__setattr__(net, "weight", param)
    return param


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_computed_data(hybridize, when):
    net = nn.Dense(3, in_units=2, use_bias=False)
    if when == "after":
        net.initialize(mx.init.One())
        if hybridize:
            net.hybridize()
            net(mx.nd.ones((1, 2)))
    param = replaced(net, Scaled)
    if when == "before":
        net.initialize(mx.init.One())
        net.hybridize(hybridize)
    x = mx.nd.array([[1, 2], [3, 4]])
    y = recorded(net, x)
    assert y.asnumpy().tolist() == [[6, 6, 6], [14, 14, 14]]
    assert param.grad().asnumpy().tolist() == [[8, 12]] * 3


@pytest.mark.parametrize("hybridize", [False, True])
def test_dropout_is_drawn_once_per_call(hybridize):
    net = nn.Dense(64, in_units=64, use_bias=False)
    replaced(net, Dropped)
    net.initialize(mx.init.One())
    net.hybridize(hybridize)
    x = mx.nd.ones((1, 64))
    assert net(x).asnumpy().tolist() == [[64] * 64]
    with autograd.train_mode():
        first, second = net(x).asnumpy(), net(x).asnumpy()
    assert (first != second).any()
    # Dropped twice, the sums would be about 64 too, but multiples of 4.
    assert set(np.unique(first % 4)) == {0, 2}


def test_symbol_has_the_plain_variable():
    net = nn.Dense(3, in_units=2, use_bias=False)
    param = replaced(net, Dropped)
    net.initialize()
    out = net(mx.sym.var("data"))
    assert out.list_arguments() == ["data", param.name]
    assert all(node["op"] != "Dropout" for node in json.loads(out.tojson())["nodes"])


def test_gradients_and_contexts():
    net = nn.Dense(1, in_units=2, use_bias=False)
    assert (net.weight._grad, net.weight._ctx_list, net.weight._ctx_map) == (None, None, None)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(2)])
    weight = net.weight
    weight.grad_req = "null"
    assert weight._grad is None
    weight.grad_req = "write"
    assert weight._ctx_list == [mx.cpu(0), mx.cpu(2)]
    assert weight._ctx_map == [[], [0, None, 1]]
    assert weight._check_and_get(weight._data, list) is weight._data
    weight._grad[1][:] = 7
    assert weight._check_and_get(weight._grad, mx.cpu(2)).asnumpy().tolist() == [[7, 7]]
    with pytest.raises(mx.MXNetError, match=r"not initialized on context cpu\(1\)"):
        weight._check_and_get(weight._data, mx.cpu(1))


def test_own_gradient_arrays():
    net = ready(nn.Dense(1, in_units=2, use_bias=False))
    mine = mx.nd.zeros((1, 2))
    net.weight._grad = [mine]
    recorded(net, mx.nd.array([[3, 4]]))
    assert mine.asnumpy().tolist() == [[3, 4]]
    assert net.weight.grad().asnumpy().tolist() == [[3, 4]]
