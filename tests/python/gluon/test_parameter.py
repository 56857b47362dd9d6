"""Parameters and their dictionaries: names, deferred shapes, contexts, gradients, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, recorded
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_array_equal


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


def test_set_data_before_the_shape_is_known_is_kept_for_later() -> None:
    layer = ready(nn.Dense(2))
    layer.weight.set_data(nd.array([[1, 2, 3], [4, 5, 6]]))
    layer.weight._finish_deferred_init()
    assert_array_equal(layer.weight.data().asnumpy(), [[1, 2, 3], [4, 5, 6]])


def test_cast_converts_a_value_that_waits_for_the_shape() -> None:
    layer = ready(nn.Dense(2))
    layer.weight.set_data(nd.array([[1, 2, 3], [4, 5, 6]]))
    layer.cast("float16")
    layer.weight._finish_deferred_init()
    assert layer.weight.data().dtype == np.float16
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


def test_repr_shows_name_shape_and_type() -> None:
    param = gluon.Parameter("w", shape=(3, 0), dtype="float32")
    assert repr(param) == "Parameter w (shape=(3, 0), dtype=float32)"


def test_a_constant_has_its_value_and_no_gradient() -> None:
    constant = ready(gluon.Constant("c", [[1, 2]]))
    constant.grad_req = "write"
    assert constant.grad_req == "null"
    assert_array_equal(constant.data().asnumpy(), [[1, 2]])


# -- errors -------------------------------------------------------------------------------------


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
        (lambda: gluon.Parameter("p", grad_req="often"), "grad_req is 'often', expected 'write'"),
        (lambda: gluon.Parameter("p", stype="dense"), "stype is 'dense'"),
        (lambda: gluon.Parameter("p", shape=(0,)).initialize(), r"invalid shape: \(0,\)"),
        (lambda: gluon.Parameter("p", shape=(1,)).initialize(ctx="cpu"), "ctx must be mx.cpu"),
        (lambda: gluon.Parameter("p", shape=(1,)).initialize(ctx=[]), "list of contexts is empty"),
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
        with pytest.raises(ValueError, match=f"{option} is 'coo'"):
            gluon.Parameter("w", shape=(2, 2), **{option: "coo"})


# -- dictionaries -------------------------------------------------------------------------------


def test_get_makes_a_parameter_once_and_merges_shapes() -> None:
    params = gluon.ParameterDict("net_")
    first = params.get("w", shape=(3, 0), allow_deferred_init=True)
    assert first.name == "net_w"
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


def test_update_refuses_another_parameter_of_the_same_name() -> None:
    one, two = gluon.ParameterDict("n_"), gluon.ParameterDict("n_")
    one.get("w", shape=(1,))
    two.get("w", shape=(1,))
    with pytest.raises(ValueError, match="different Parameters with the same name 'n_w'"):
        one.update(two)


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


def test_load_dict_copies() -> None:
    net = nn.Dense(1, in_units=1, prefix="n_")
    values = {"arg:n_weight": nd.array([[2]]), "n_bias": nd.array([3])}
    net.collect_params().load_dict(values)
    values["n_bias"][:] = 9
    assert net.bias.data().asscalar() == 3


def test_load_dict_restores_a_prefix_and_names_the_file() -> None:
    net = ready(nn.Dense(1, in_units=2, prefix="a_"))
    arrays = {"weight": nd.ones((1, 2)), "arg:bias": nd.ones((1,))}
    net.collect_params().load_dict(arrays, restore_prefix="a_")
    assert_array_equal(net.weight.data().asnumpy(), [[1, 1]])
    with pytest.raises(ValueError, match="file 'some.params'"):
        net.collect_params().load_dict(arrays, filename="some.params")


def test_a_dictionary_takes_parameters_from_a_dict():
    params = gluon.ParameterDict("net_")
    mine = gluon.Parameter("shared_weight", shape=(2,))
    params.update({mine.name: mine})
    assert params["shared_weight"] is mine
    params.update({mine.name: mine})
    with pytest.raises(ValueError, match="'shared_weight'"):
        params.update({"shared_weight": gluon.Parameter("shared_weight", shape=(2,))})


@pytest.mark.parametrize("contexts", [[mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]])
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_replaced_entry_of_the_arrays_is_read_and_differentiated(
    hybridize: bool, contexts: list[mx.Context]
) -> None:
    # Bayesian networks written for 1.x put sampled weights into Parameter._data.
    net = ready(nn.Dense(2, in_units=2, use_bias=False), mx.init.One(), ctx=contexts)
    if hybridize:
        net.hybridize()
    x = nd.array([[1, 2]], ctx=contexts[0])
    assert_array_equal(net(x).asnumpy(), [[3, 3]])
    mean = nd.array([[1, 2], [3, 4]], ctx=contexts[0])
    mean.attach_grad()
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
    other = nd.array([[5]])
    other.attach_grad()
    net.weight._data[0] = other
    step()
    assert first.asscalar() == 0
    assert other.asscalar() == 4
