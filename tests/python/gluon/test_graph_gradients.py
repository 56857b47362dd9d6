"""Gradients of hybridized blocks and bound symbols are those of eager calls."""

from __future__ import annotations

from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized
from mxlite import autograd, nd

Function = Callable[..., Any]
WAYS = ("eager", "hybridized", "bound")


class Net(mx.gluon.HybridBlock):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
        return self._function(F, *inputs)


def listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def gradients(
    way: str, function: Function, arrays: list[Any], heads: dict[int, float] | None = None
) -> list[np.ndarray]:
    """Return the gradients; `heads` has head gradients by output, None means ones for all."""
    values = [nd.array(a) for a in arrays]
    if way == "bound":
        names = [f"x{i}" for i in range(len(values))]
        outputs = listed(function(mx.sym, *map(mx.sym.var, names)))
        symbol = mx.sym.Group(outputs if heads is None else [outputs[i] for i in heads])
        grads = [nd.zeros(v.shape) for v in values]
        given = dict(zip(names, values))
        used = symbol.list_arguments()
        executor = symbol.bind(
            mx.cpu(), {n: given[n] for n in used}, {n: g for n, g in zip(names, grads) if n in used}
        )
        made = executor.forward(is_train=True)
        numbers = [1.0] * len(made) if heads is None else heads.values()
        executor.backward([nd.full(y.shape, h) for y, h in zip(made, numbers)])
        return [g.asnumpy() for g in grads]
    net = Net(function)
    if way == "hybridized":
        net.hybridize()
    for v in values:
        v.attach_grad()
    with autograd.record():
        outputs = listed(net(*values))
    chosen = dict.fromkeys(range(len(outputs)), 1.0) if heads is None else heads
    heads = [nd.full(outputs[i].shape, h) for i, h in chosen.items()]
    autograd.backward([outputs[i] for i in chosen], heads)
    return [v.grad.asnumpy() for v in values]


X = np.array([0.5, -1.0], np.float32)
SLOPE = 1 - np.tanh(X) ** 2


def pair(first: str, second: str) -> Function:
    """Return a function with two outputs of one value, through the operators of these names."""

    def function(F: Any, x: Any) -> Any:
        y = F.tanh(x)
        made = {"y": y, "tanh": F.tanh(x), "tanh of a constant": F.tanh(F.BlockGrad(x))}
        return [made[n] if n in made else getattr(F, n)(y) for n in (first, second)]

    return function


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("first", "second", "of_first", "of_second"),
    [
        ("y", "BlockGrad", 1, 0),
        ("BlockGrad", "y", 0, 1),
        ("y", "identity", 1, 1),
        ("identity", "BlockGrad", 1, 0),
        ("BlockGrad", "BlockGrad", 0, 0),
        ("tanh", "tanh of a constant", 1, 0),
        ("tanh of a constant", "tanh", 0, 1),
        ("y", "y", 1, 1),
    ],
)
def test_outputs_of_one_value_have_their_own_gradients(
    way: str, first: str, second: str, of_first: float, of_second: float
) -> None:
    function = pair(first, second)
    for heads in ({0: 3.0}, {1: 5.0}, {0: 3.0, 1: 5.0}):
        factor = heads.get(0, 0) * of_first + heads.get(1, 0) * of_second
        found = gradients(way, function, [X], heads)[0]
        np.testing.assert_allclose(found, factor * SLOPE, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", ["make_loss", "MakeLoss"])
def test_a_loss_of_an_output_ignores_its_own_head_only(way: str, loss: str) -> None:
    for order in (("y", loss), (loss, "y")):
        at = order.index(loss)
        for heads, factor in (({at: 9.0}, 1), ({1 - at: 3.0}, 3), ({0: 3.0, 1: 3.0}, 4)):
            found = gradients(way, pair(*order), [X], heads)[0]
            np.testing.assert_allclose(found, factor * SLOPE, rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_outputs_of_one_value_lie_in_memory_of_their_own(hybridize: bool) -> None:
    def function(F: Any, x: Any) -> Any:
        y = F.tanh(x)
        return y, F.identity(y), F.tanh(x), F.reshape(y, shape=(2, 1)), F.identity(x)

    net = hybridized(Net(function), hybridize)
    x = nd.array(X)
    outputs = net(x)
    outputs[0][:] = 7
    outputs[4][:] = 8
    for output in outputs[1:4]:
        np.testing.assert_allclose(output.asnumpy().ravel(), np.tanh(X), rtol=1e-6)
    np.testing.assert_array_equal(x.asnumpy(), X)


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_lie_in_memory_of_their_own(hybridize: bool) -> None:
    net = hybridized(Net(lambda F, a, b: F.elemwise_add(a, b)), hybridize)
    a, b, head = nd.ones(2), nd.ones(2), nd.array([3, 4])
    a.attach_grad()
    b.attach_grad()
    for create_graph in (False, True):
        with autograd.record():
            y = net(a, b)
            found = autograd.grad(y, [a, b], [head], create_graph=create_graph)
        for gradient in found:
            gradient.detach()[:] = 7
        np.testing.assert_array_equal(head.asnumpy(), [3, 4])
        found[0].detach()[:] = 8
        np.testing.assert_array_equal(found[1].asnumpy(), [7, 7])


LAYERS = {
    "Convolution": ("Convolution", {"kernel": (2,), "num_filter": 1}, (1, 2, 2), (1, 1, 3)),
    "relu": ("Convolution", {"kernel": (2,), "num_filter": 1}, (1, 2, 2), (1, 1, 3)),
    "kernel of 1": ("Convolution", {"kernel": (1,), "num_filter": 1}, (1, 2, 1), (1, 1, 4)),
    "depthwise": (
        *("Convolution", {"kernel": (2,), "num_filter": 2, "num_group": 2}),
        *((2, 1, 2), (1, 2, 3)),
    ),
    "Deconvolution": ("Deconvolution", {"kernel": (2,), "num_filter": 1}, (2, 1, 2), (1, 1, 5)),
}


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "operator",
    ["broadcast_hypot", "broadcast_mod", "broadcast_div", "broadcast_power", "broadcast_maximum"],
)
def test_operators_behind_convolutions(way: str, name: str, operator: str) -> None:
    numbers = np.random.RandomState(3)
    below, options, *shapes = LAYERS[name]
    arrays = [numbers.uniform(0.5, 2, s).astype(np.float32) for s in ((1, 2, 4), *shapes)]
    for swapped in (False, True):

        def function(F: Any, x: Any, w: Any, y: Any, swapped: bool = swapped) -> Any:
            made = getattr(F, below)(x, w, no_bias=True, **options)
            made = F.relu(made) if name == "relu" else made
            return getattr(F, operator)(*((y, made) if swapped else (made, y)))

        for found, wanted in zip(
            gradients(way, function, arrays), gradients("eager", function, arrays)
        ):
            assert np.isfinite(wanted).all()
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("filters", [1, 3, 20])
def test_values_of_two_convolutions_are_divided(filters: int) -> None:
    numbers = np.random.RandomState(5)
    data = nd.array(numbers.uniform(0.5, 2, (1, 2, 4)))
    weight = nd.array(numbers.uniform(0.5, 2, (filters, 2, 2)))

    def function(F: Any, x: Any, w: Any) -> Any:
        a = F.sin(F.Convolution(x, w, no_bias=True, kernel=(2,), num_filter=filters))
        b = F.tanh(F.Convolution(x, w, no_bias=True, kernel=(2,), num_filter=filters))
        return a / b, F.exp(a)  # a is read later, so the quotient may take the memory of b

    net = Net(function)
    wanted = [y.asnumpy() for y in net(data, weight)]
    net.hybridize()
    for found, expected in zip(net(data, weight), wanted):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("kind", ["mask", "indices", "value"])
@pytest.mark.parametrize("swapped", [False, True])
def test_weights_that_other_operators_read(way: str, name: str, kind: str, swapped: bool) -> None:
    numbers = np.random.RandomState(4)
    arrays = [numbers.normal(size=s).astype(np.float32) for s in ((2, 2, 3), (2, 2, 1))]

    def function(F: Any, x: Any, w: Any) -> Any:
        made = getattr(F, name)(x, w, no_bias=True, kernel=(1,), num_filter=2)
        outputs = [made, F.topk(w, axis=0, k=1, ret_typ=kind)]
        return outputs[::-1] if swapped else outputs

    found, wanted = gradients(way, function, arrays), gradients("eager", function, arrays)
    assert np.abs(wanted[1]).min() > 0.01
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


DATA = np.array([[0.2, -0.4, 1.1], [0.7, 0.1, -0.3]], np.float32)
LABEL = np.array([0, 2], np.float32)
LOSSES: dict[str, Function] = {
    "SoftmaxOutput": lambda F, x, y: F.SoftmaxOutput(x, y),
    "SoftmaxOutput, out_grad": lambda F, x, y: F.SoftmaxOutput(x, y, out_grad=True),
    "Linear": lambda F, x, y: F.LinearRegressionOutput(x, F.BlockGrad(x) * 0.5),
    "Logistic": lambda F, x, y: F.LogisticRegressionOutput(x, F.BlockGrad(x) * 0.5),
    "MAE": lambda F, x, y: F.MAERegressionOutput(x, F.BlockGrad(x) * 0.5),
    "SVMOutput": lambda F, x, y: F.SVMOutput(x, y),
    "MakeLoss": lambda F, x, y: F.MakeLoss(x * x, grad_scale=0.5),
    "make_loss": lambda F, x, y: F.tanh(F.make_loss(x * x)),
}
WITHOUT_GRADIENT: dict[str, Function] = {
    "argmax": lambda F, x: F.argmax(x, axis=1),
    "BlockGrad": lambda F, x: F.BlockGrad(x),
    "several": lambda F, x: F.sign(F.BlockGrad(x) * 2),
    "comparison": lambda F, x: F.broadcast_greater(x, F.zeros_like(x)) + (x > 0.1),
    "topk": lambda F, x: F.topk(x, axis=1),
}


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("above", WITHOUT_GRADIENT)
def test_losses_below_operators_without_gradient(way: str, name: str, above: str) -> None:
    def function(F: Any, x: Any, y: Any) -> Any:
        return WITHOUT_GRADIENT[above](F, LOSSES[name](F, x, y))

    wanted = gradients("eager", function, [DATA, LABEL])[0]
    assert bool(np.abs(wanted).max() > 0.01) == (name != "SoftmaxOutput, out_grad")
    np.testing.assert_allclose(gradients(way, function, [DATA, LABEL])[0], wanted, rtol=1e-5)


class Loss(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], in_data[0] * 3)


@mx.operator.register("loss_below_block_grad")
class LossProp(mx.operator.CustomOpProp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=False)

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Loss:
        return Loss()


@pytest.mark.parametrize("way", WAYS)
def test_losses_written_in_python_below_operators_without_gradient(way: str) -> None:
    def function(F: Any, x: Any) -> Any:
        return F.BlockGrad(F.tanh(F.Custom(x * 2, op_type="loss_below_block_grad")))

    np.testing.assert_allclose(gradients(way, function, [DATA])[0], DATA * 12, rtol=1e-5)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_losses_in_an_earlier_block(inner: bool, outer: bool) -> None:
    loss, above = Net(lambda F, x: F.make_loss(x * x)), Net(lambda F, x, w: F.BlockGrad(x) * w)
    loss.hybridize(inner)
    above.hybridize(outer)
    x, w = nd.array(DATA), nd.ones(DATA.shape)
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        y = above(loss(x), w)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * DATA, rtol=1e-6)
    np.testing.assert_allclose(w.grad.asnumpy(), DATA**2, rtol=1e-6)
