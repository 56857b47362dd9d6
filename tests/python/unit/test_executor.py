"""Executors: bind, simple_bind, forward, backward, gradients, states, reshaping, monitors."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import MXNetError

sym, nd = mx.sym, mx.nd


def product() -> Any:
    return sym.var("a") * sym.var("b")


def test_bind_runs_on_the_given_arrays() -> None:
    a, b = nd.array([1, 2, 3]), nd.array([4, 5, 6])
    executor = product().bind(mx.cpu(), {"a": a, "b": b})
    assert executor.forward()[0].asnumpy().tolist() == [4, 10, 18]
    a[:] = 2
    assert executor.forward()[0].asnumpy().tolist() == [8, 10, 12]
    assert executor.arg_dict["a"] is a
    assert executor.arg_arrays[1] is b


def test_gradients_go_into_the_given_arrays() -> None:
    a, b = nd.array([1, 2, 3]), nd.array([4, 5, 6])
    grads = [nd.zeros(3), nd.zeros(3)]
    executor = product().bind(mx.cpu(), [a, b], args_grad=grads)
    executor.forward(is_train=True)
    executor.backward(nd.array([1, 10, 100]))
    assert grads[0].asnumpy().tolist() == [4, 50, 600]
    assert grads[1].asnumpy().tolist() == [1, 20, 300]
    executor.backward([nd.ones(3)])  # once more from the same forward
    assert executor.grad_dict["a"].asnumpy().tolist() == [4, 5, 6]


def test_the_users_arrays_keep_their_own_gradients() -> None:
    a = nd.array([3.0])
    a.attach_grad()
    executor = (sym.var("a") * 5).bind(mx.cpu(), [a], args_grad=[nd.zeros(1)])
    executor.forward(is_train=True)
    executor.backward()
    assert a.grad.asscalar() == 0
    assert executor.grad_arrays[0].asscalar() == 5


@pytest.mark.parametrize(
    "request_", [{"a": "add", "b": "null"}, ["add", "null"]], ids=["dict", "list"]
)
def test_gradient_requests_by_name(request_: Any) -> None:
    executor = bound_product(grad_req=request_)
    executor.arg_dict["b"][:] = 3
    for expected in (3, 6):
        executor.forward(is_train=True)
        executor.backward(nd.ones(2))
        assert (executor.grad_dict["a"].asnumpy() == expected).all()
    assert executor.grad_dict["b"] is None


def bound_product(**options: Any) -> Any:
    return product().simple_bind(mx.cpu(), a=(2,), b=(2,), **options)


def bind(args: Any, **options: Any) -> Any:
    return product().bind(mx.cpu(), args, **options)


def bind_norm() -> Any:
    norm = sym.BatchNorm(sym.var("x"), name="bn")
    return norm.bind(mx.cpu(), [nd.ones((2, 3)), nd.ones(3), nd.ones(3)])


ONES = nd.ones(2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bound_product(grad_req="sometimes"), ValueError, "'sometimes'"),
        (
            lambda: bound_product(grad_req=["write"]),
            ValueError,
            "grad_req must have 2 entries, .*, got 1",
        ),
        (lambda: bound_product(grad_req=3), TypeError, "grad_req"),
        (lambda: bound_product().forward(c=ONES), TypeError, "Unknown argument c"),
        (
            *(lambda: bound_product().forward(a=nd.ones(3)), ValueError),
            r"Argument a, need: \(2,\), received: \(3,\)",
        ),
        (lambda: bound_product().forward(a=[1, 2]), ValueError, "NDArrays and numpy"),
        (
            lambda: bound_product().backward([ONES] * 2),
            ValueError,
            "the number of outputs, 1, got 2",
        ),
        (lambda: bound_product().backward([np.ones(2)]), TypeError, "NDArray"),
        (lambda: bind({"a": ONES}), ValueError, "key `b` is missing in `args`"),
        (lambda: bind([ONES]), ValueError, "Length of args"),
        (lambda: bind([ONES, 3]), TypeError, "must be an NDArray, got"),
        (lambda: bind([ONES, nd.ones(3)]), ValueError, "Error in operator"),
        (
            lambda: bind([ONES, ONES], args_grad=[nd.ones(3), None]),
            *(ValueError, r"gradient of .* must have its shape, .*, got \(3,\)"),
        ),
        (bind_norm, ValueError, "bn_moving_mean"),
        (
            lambda: sym.dot(sym.var("a"), sym.var("b")).simple_bind(mx.cpu(), a=(2, 3)),
            *(MXNetError, "shapes of b cannot be inferred|of a, b cannot"),
        ),
    ],
)
def test_wrong_calls_are_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_values_of_arguments_can_be_given_to_forward() -> None:
    executor = bound_product()
    out = executor.forward(a=nd.array([1, 2]), b=np.array([3.0, 4.0]))
    assert out[0].asnumpy().tolist() == [3, 8]


@pytest.mark.parametrize("monitored", [False, True])
@pytest.mark.parametrize("is_train", [False, True])
def test_outputs_taken_once_have_the_values_of_every_forward(
    monitored: bool, is_train: bool
) -> None:
    a = sym.var("a")
    net = sym.Group([a * sym.var("b"), a, a + 1])
    executor = net.simple_bind(mx.cpu(), a=(2,), b=(2,))
    if monitored:
        executor.set_monitor_callback(lambda name, array: None)
    taken, by_name = executor.outputs, executor.output_dict
    first = taken[0]
    executor.forward(is_train=is_train, b=nd.array([3, 4]), a=nd.array([1, 2]))
    assert first.asnumpy().tolist() == [3, 8]
    returned = executor.forward(is_train=is_train, a=nd.array([5, 6]))
    executor.forward(is_train=is_train, a=nd.array([7, 8]))
    for outputs in (taken, list(by_name.values()), returned, executor.outputs):
        assert [x.asnumpy().tolist() for x in outputs] == [[21, 32], [7, 8], [8, 9]]
    executor.backward([nd.ones((2,)), nd.zeros((2,)), nd.ones((2,))])
    assert executor.grad_dict["a"].asnumpy().tolist() == [4, 5]
    assert executor.arg_dict["a"].asnumpy().tolist() == [7, 8]


def test_results_made_of_an_earlier_output_keep_their_values() -> None:
    executor = bound_product()
    (output,) = executor.forward(a=nd.array([1, 2]), b=nd.array([3, 4]))
    doubled = output * 2
    executor.forward(a=nd.array([5, 6]))
    assert doubled.asnumpy().tolist() == [6, 16]
    assert output.asnumpy().tolist() == [15, 24]


def test_a_network_learns_and_its_statistics_move() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=16, name="fc1")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu")
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 4)).astype("f")
    y = (np.abs(x[:, 0]) + x[:, 1] > 0.5).astype("f") + (x[:, 2] > 0.7)
    executor = net.simple_bind(mx.cpu(), data=x.shape, softmax_label=y.shape)
    learned = [n for n in executor.arg_dict if n not in ("data", "softmax_label")]
    for name in learned:
        array = executor.arg_dict[name]
        array[:] = rng.normal(scale=0.5, size=array.shape)
    for state in executor.aux_dict.values():
        state[:] = 1
    for _ in range(200):
        executor.forward(is_train=True, data=x, softmax_label=y)
        executor.backward()
        for name in learned:
            executor.arg_dict[name][:] -= 0.1 * executor.grad_dict[name]
    assert (executor.forward(is_train=True)[0].asnumpy().argmax(1) == y).mean() > 0.95
    before = executor.aux_dict["bn_moving_mean"].asnumpy()
    assert not (before == 1).any()
    executor.forward(is_train=False)
    np.testing.assert_array_equal(executor.aux_dict["bn_moving_mean"].asnumpy(), before)


def test_backward_without_a_training_forward_runs_one() -> None:
    executor = bound_product()
    executor.arg_dict["b"][:] = 7
    executor.forward(is_train=False)
    executor.backward(nd.ones(2))
    assert (executor.grad_dict["a"].asnumpy() == 7).all()


def test_simple_bind_takes_types_and_infers_outputs() -> None:
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), type_dict={"x": "float64"}, x=(4, 2))
    assert executor.arg_dict["fc_weight"].dtype == np.float64
    assert executor.outputs[0].shape == (4, 3)
    assert list(executor.output_dict) == ["fc_output"]
    assert executor.forward()[0].dtype == np.float64


def test_copy_params_from() -> None:
    net = sym.BatchNorm(sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc"), name="bn")
    executor = net.simple_bind(mx.cpu(), x=(2, 5))
    executor.copy_params_from({"fc_bias": nd.ones(3)}, {"bn_moving_var": nd.full((3,), 4)})
    assert (executor.arg_dict["fc_bias"].asnumpy() == 1).all()
    assert (executor.aux_dict["bn_moving_var"].asnumpy() == 4).all()
    with pytest.raises(ValueError, match='"fc_bia" that is not in the arguments.*did you mean'):
        executor.copy_params_from({"fc_bia": nd.ones(3)})
    executor.copy_params_from({"other": nd.ones(3)}, allow_extra_params=True)


def test_reshape_shares_parameters() -> None:
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), x=(4, 5))
    executor.arg_dict["fc_weight"][:] = 1
    small = executor.reshape(x=(2, 5))
    assert small.forward(x=nd.ones((2, 5)))[0].asnumpy().tolist() == [[5] * 3] * 2
    small.arg_dict["fc_weight"][:] = 2
    assert (executor.arg_dict["fc_weight"].asnumpy() == 2).all()
    with pytest.raises(ValueError, match="allow_up_sizing=True"):
        executor.reshape(x=(8, 5))
    assert executor.reshape(x=(8, 5), allow_up_sizing=True).forward()[0].shape == (8, 3)
    with pytest.raises(ValueError, match="arg:fc_weight changed"):
        executor.reshape(x=(2, 4))


def test_reshape_shares_outputs_that_are_not_larger() -> None:
    x = sym.var("x")
    big = (x * 1).bind(mx.cpu(), [nd.ones((3, 2))], [nd.zeros((3, 2))])
    held = big.forward(is_train=True)[0]
    small = big.reshape(x=(2, 2))
    small.forward(x=nd.full((2, 2), 4))
    assert small.outputs[0].asnumpy().tolist() == [[4, 4]] * 2
    assert held is big.outputs[0] and held.asnumpy().tolist() == [[4, 4], [4, 4], [1, 1]]
    big.backward(nd.ones((3, 2)))  # what the first forward has computed is still there
    assert big.grad_arrays[0].asnumpy().tolist() == [[1, 1]] * 3
    big.forward(x=nd.full((3, 2), 5))
    assert small.outputs[0].asnumpy().tolist() == [[5, 5]] * 2
    large = big.reshape(x=(4, 2), allow_up_sizing=True)
    large.forward(x=nd.full((4, 2), 6))
    assert held.asnumpy().tolist() == [[5, 5]] * 3


def test_shared_executor_gives_its_parameters() -> None:
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    one = net.simple_bind(mx.cpu(), x=(4, 5))
    two = net.simple_bind(
        mx.cpu(), shared_arg_names=["fc_weight", "fc_bias"], shared_exec=one, x=(2, 5)
    )
    one.arg_dict["fc_bias"][:] = 9
    assert (two.forward()[0].asnumpy() == 9).all()
    assert two.grad_dict["fc_bias"] is one.grad_dict["fc_bias"]


def test_outputs_without_a_gradient_given_have_no_influence() -> None:
    x = sym.var("x")
    executor = sym.Group([x * 2, x * 10]).bind(mx.cpu(), [nd.ones((2,))], [nd.zeros((2,))])
    executor.forward(is_train=True)
    executor.backward([nd.array([1, 3])])
    assert executor.grad_arrays[0].asnumpy().tolist() == [2, 6]


def test_a_monitor_sees_every_output() -> None:
    seen: dict[str, Any] = {}
    net = sym.relu(sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc"), name="act")
    executor = net.simple_bind(mx.cpu(), x=(2, 5))
    executor.set_monitor_callback(lambda name, array: seen.update({name: array.shape}))
    executor.forward()
    assert seen == {"fc_output": (2, 3), "act_output": (2, 3)}
    names: list[str] = []
    executor.set_monitor_callback(lambda name, array: names.append(name), monitor_all=True)
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 3)))
    assert names == [
        "x", "fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias", "fc_output",
        "act_input0", "act_output",
        "act_backward_output", "fc_backward_output0", "fc_backward_output1", "fc_backward_output2",
    ]  # fmt: skip


def test_a_monitor_stays_when_the_executor_is_reshaped() -> None:
    x = sym.var("x")
    net = sym.concat(x, x, dim=0, name="both")
    executor = net.simple_bind(mx.cpu(), x=(2, 5))
    names: list[str] = []
    executor.set_monitor_callback(lambda name, array: names.append(name), monitor_all=True)
    executor.reshape(x=(1, 5)).forward()
    assert names == ["x", "both_arg0", "x", "both_arg1", "both_output"]


def test_simple_bind_looks_at_shapes_only() -> None:
    net = sym.take(sym.var("x"), sym.var("i"), axis=1, mode="clip")
    executor = net.simple_bind(mx.cpu(), x=(2, 5), i=(3,), axis=1, mode="clip")
    assert executor.outputs[0].shape == (2, 3)


@pytest.mark.parametrize("op", ["shape_array", "size_array", "argmax", "topk"])
def test_gradients_of_constants_are_not_looked_at(op: str) -> None:
    executor = getattr(sym, op)(sym.var("x")).simple_bind(mx.cpu(), x=(2, 5))
    executor.grad_arrays[0][:] = 7
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 5)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [[0] * 5] * 2


def test_one_array_for_two_arguments_and_no_argument_at_all() -> None:
    x = nd.array([1.0, 2.0])
    executor = product().bind(mx.cpu(), [x, x])
    assert executor.forward()[0].asnumpy().tolist() == [1, 4]
    assert sym.ones((2,)).bind(mx.cpu(), []).forward()[0].asnumpy().tolist() == [1, 1]


def test_a_variable_can_be_an_output() -> None:
    a = sym.var("a")
    executor = sym.Group([a, a * 2]).bind(mx.cpu(), [nd.ones(2)], args_grad=[nd.zeros(2)])
    outputs = executor.forward(is_train=True)
    assert [o.asnumpy().tolist() for o in outputs] == [[1, 1], [2, 2]]
    executor.backward([nd.ones(2), nd.ones(2)])
    assert (executor.grad_arrays[0].asnumpy() == 3).all()


def test_head_gradients_are_cast_to_the_types_of_the_outputs() -> None:
    x, grad = mx.nd.array([1, 2], dtype="float64"), mx.nd.zeros((2,), dtype="float64")
    executor = (sym.var("x") * 2).bind(mx.cpu(), [x], args_grad=[grad])
    executor.forward(is_train=True)
    executor.backward(mx.nd.array([3, 4], dtype="float32"))
    np.testing.assert_array_equal(grad.asnumpy(), [6, 8])


@pytest.mark.parametrize("request_, after", [("write", [0, 0]), ("add", [5, 5])])
def test_an_argument_without_influence_has_gradient_0(request_: str, after: list[int]) -> None:
    grad = mx.nd.full((2,), 5)
    executor = sym.sign(sym.var("x")).bind(mx.cpu(), [mx.nd.ones((2,))], [grad], request_)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2,)))
    np.testing.assert_array_equal(grad.asnumpy(), after)


def test_a_second_backward_repeats_the_draws_and_leaves_running_statistics() -> None:
    data = sym.var("data")
    net = sym.Dropout(sym.BatchNorm(data, fix_gamma=False, name="bn"), p=0.5)
    executor = net.simple_bind(mx.cpu(), grad_req="write", data=(64, 8))
    executor.arg_dict["data"][:] = nd.random.normal(shape=(64, 8))
    executor.arg_dict["bn_gamma"][:] = 1
    heads = nd.random.normal(shape=(64, 8))
    output = executor.forward(is_train=True)[0].asnumpy()
    executor.backward([heads])
    first = {name: grad.asnumpy() for name, grad in executor.grad_dict.items()}
    moving = executor.aux_dict["bn_moving_mean"].asnumpy()
    after = nd.random.uniform(shape=(3,)).asnumpy()
    mx.random.seed(3)
    executor.backward([heads])
    drawn = nd.random.uniform(shape=(3,)).asnumpy()
    for name, grad in executor.grad_dict.items():
        np.testing.assert_array_equal(grad.asnumpy(), first[name])
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), output)
    np.testing.assert_array_equal(executor.aux_dict["bn_moving_mean"].asnumpy(), moving)
    mx.random.seed(3)
    np.testing.assert_array_equal(nd.random.uniform(shape=(3,)).asnumpy(), drawn)
    assert (after != drawn).any()


def test_backward_gives_up_what_forward_kept() -> None:
    data = sym.var("data")
    for _ in range(8):
        data = sym.tanh(data) * 1.5
    executor = data.simple_bind(mx.cpu(), data=(1 << 20,))
    executor.forward(is_train=True)
    nd.waitall()
    before = mx._core.memory_stats()["in_use"]
    executor.backward([nd.ones((1 << 20,))])
    nd.waitall()
    assert mx._core.memory_stats()["in_use"] <= before - (16 << 20)


def test_memory_of_results():
    """Chains of multiplications of arrays of 4 MB."""
    shape = (1024, 1024)

    def megabytes(net, **kwargs):
        lines = net.simple_bind(mx.cpu(), x=shape, **kwargs).debug_str().split("\n")
        assert lines[-2:] == ["Total 0 TempSpace resource requested", ""]
        assert lines[-3].startswith("Total ") and lines[-3].endswith(" MB allocated")
        return int(lines[-3].split()[1])

    x = mx.sym.var("x")
    chain = x
    for _ in range(6):
        chain = chain * chain
    assert megabytes(chain, grad_req="null") == 8  # one is read, one is written
    # All six results stay for backward; the gradients of a node and of its input exist together.
    assert megabytes(chain) == 6 * 4 + 8
    assert megabytes(mx.sym.BlockGrad(chain)) == 8
    for stop in (mx.sym.BlockGrad, mx.sym.sign):  # both factors' results, gradient
        assert megabytes(stop(chain) * x) == 4 + 4 + 4
    halves = mx.sym.Group([chain.astype("float16"), x * 2])
    assert megabytes(halves, grad_req="null") == 8


def test_simple_bind_infers_the_symbol_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(original: Any) -> Any:
        def infer(*args: Any) -> Any:
            made.append(original(*args))
            return made[-1]

        return infer

    for module in (mx.executor.binding, mx.executor.executor):
        monkeypatch.setattr(module, "infer", counted(module.infer))
    executor = bound_product()
    assert len(made) == 1
    assert executor.forward()[0].shape == (2,)
