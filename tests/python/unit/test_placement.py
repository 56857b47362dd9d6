"""group2ctx: parts of a symbol on contexts of their own."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd, sym

GROUPS = {"first": mx.cpu(1), "second": mx.cpu(2)}
HEADS = nd.array(np.arange(10.0).reshape(5, 2))


def two_parts() -> Any:
    with mx.AttrScope(ctx_group="first"):
        hidden = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc1")
        hidden = sym.BatchNorm(hidden, name="norm", fix_gamma=False)
    with mx.AttrScope(ctx_group="second"):
        return sym.FullyConnected(hidden, num_hidden=2, name="fc2") * 3


def bound(groups: Any) -> Any:
    with mx.name.NameManager():
        net = two_parts()
    executor = net.simple_bind(mx.cpu(0), group2ctx=groups, data=(5, 3))
    rng = np.random.RandomState(0)
    for array in executor.arg_arrays:
        array[:] = rng.uniform(-1, 1, array.shape)
    return executor


def test_arrays_are_made_where_their_nodes_run() -> None:
    executor = two_parts().simple_bind(mx.cpu(0), group2ctx=GROUPS, data=(5, 3))
    where = {name: array.ctx.device_id for name, array in executor.arg_dict.items()}
    assert where == {
        "data": 1, "fc1_weight": 1, "fc1_bias": 1, "norm_gamma": 1, "norm_beta": 1,
        "fc2_weight": 2, "fc2_bias": 2,
    }  # fmt: skip
    assert [array.ctx for array in executor.aux_arrays] == [mx.cpu(1)] * 2
    assert executor.grad_dict["fc2_weight"].ctx == mx.cpu(2)
    assert executor.outputs[0].ctx == mx.cpu(2)


def test_results_and_gradients_are_those_of_one_context() -> None:
    found = []
    for groups in (None, GROUPS):
        executor = bound(groups)
        (out,) = executor.forward(is_train=True)
        executor.backward(HEADS)
        assert out.ctx == (mx.cpu(2) if groups else mx.cpu(0))
        arrays = [out, *executor.grad_arrays, *executor.aux_arrays]
        found.append([array.asnumpy() for array in arrays])
    assert np.abs(found[0][-2]).max() > 0
    for one, two in zip(*found):
        # Gradients through the normalization are 0 except for rounding.
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_train", [False, True])
def test_a_monitor_sees_values_and_gradients_where_their_nodes_run(is_train: bool) -> None:
    seen: dict[Any, dict[str, np.ndarray]] = {}
    where: dict[str, mx.Context] = {}
    for groups in (None, GROUPS):
        executor = bound(groups)
        found = seen[groups is None] = {}

        def monitor(name: str, array: Any, found: dict[str, np.ndarray] = found) -> None:
            found[name] = array.asnumpy()
            where[name] = array.ctx

        executor.set_monitor_callback(monitor, monitor_all=True)
        executor.forward(is_train=is_train)
        if is_train:
            executor.backward(HEADS)
    assert where["fc1_output"] == where["norm_output"] == mx.cpu(1)
    assert where["fc2_output"] == mx.cpu(2)
    assert ("fc2_backward_output0" in where) == is_train
    assert seen[True].keys() == seen[False].keys()
    for name, array in seen[True].items():
        np.testing.assert_allclose(seen[False][name], array, rtol=1e-5, atol=1e-5, err_msg=name)


def test_arrays_that_were_bound_say_where_their_variables_are() -> None:
    with mx.AttrScope(ctx_group="second"):
        net = sym.var("a") + sym.var("b")
    a, b = nd.array([1, 2], ctx=mx.cpu(1)), nd.array([10, 20], ctx=mx.cpu(2))
    grads = {"a": nd.zeros((2,), ctx=mx.cpu(1)), "b": nd.zeros((2,), ctx=mx.cpu(2))}
    executor = net.bind(mx.cpu(0), {"a": a, "b": b}, grads, group2ctx=GROUPS)
    out = executor.forward(is_train=True)[0]
    assert out.ctx == mx.cpu(2) and out.asnumpy().tolist() == [11, 22]
    executor.backward(nd.array([3, 4]))
    assert [grads[name].asnumpy().tolist() for name in "ab"] == [[3, 4], [3, 4]]


@pytest.mark.parametrize("groups", [GROUPS, [GROUPS], {k: [v] for k, v in GROUPS.items()}])
def test_a_module_takes_groups(groups: Any) -> None:
    net = sym.SoftmaxOutput(two_parts(), name="softmax")
    module = mx.mod.Module(net, context=mx.cpu(0), group2ctxs=groups)
    data = mx.io.NDArrayIter(np.ones((4, 3)), np.array([0, 1, 1, 0]), batch_size=2)
    module.fit(data, num_epoch=1)
    executor = module._exec_group.execs[0]
    assert executor.arg_dict["fc2_weight"].ctx == mx.cpu(2)
    assert np.isfinite(module.predict(data).asnumpy()).all()


def test_wrong_groups_are_named() -> None:
    net = two_parts()
    with pytest.raises(TypeError, match="group2ctx: 'first' must be a Context.*, got 'cpu'"):
        net.simple_bind(mx.cpu(0), group2ctx={"first": "cpu"}, data=(5, 3))
    with pytest.raises(TypeError, match="group2ctx must be .*got list"):
        net.simple_bind(mx.cpu(0), group2ctx=[mx.cpu(1)], data=(5, 3))
    module = mx.mod.Module(net, label_names=None, group2ctxs=[GROUPS, GROUPS])
    with pytest.raises(ValueError, match="list must have 1 entries, got 2"):
        module.bind([("data", (2, 3))])
