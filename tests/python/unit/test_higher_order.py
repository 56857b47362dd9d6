"""Gradients of gradients: ``autograd.grad(create_graph=True)`` against finite differences.

Every row of the op table with a gradient is differentiated twice: right, or a NotSupportedError
that names the operator. What MXNet 1.9.1 can differentiate twice must be right.
"""

from __future__ import annotations

from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from op_table import (
    Case,
    _generator,
    call,
    call_hybrid,
    find_op,
    grad_inputs,
    host,
    to_device,
    weighted_sum,
)
from pairing import pairs
from recording import variable
from test_ops import DIFFERENTIABLE

# These operators must have second gradients: MXNet 1.9.1 has them, or layers that gradient
# penalties use need them.
REQUIRED = """
Activation BatchNorm Cast Concat Convolution Deconvolution Dropout Embedding Flatten FullyConnected
GroupNorm InstanceNorm L2Normalization LRN LayerNorm LeakyReLU Pad Pooling Reshape SliceChannel
SwapAxis UpSampling _copy _contrib_AdaptiveAvgPooling2D _contrib_BilinearResize2D
_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt
_mul_scalar _power_scalar _rdiv_scalar _rpower_scalar abs add_n arccos arccosh arcsin arcsinh arctan
arctanh batch_dot broadcast_add broadcast_div broadcast_mul broadcast_power broadcast_sub cbrt clip
cos cosh dot elemwise_add elemwise_div elemwise_mul elemwise_sub erf exp expand_dims expm1 gamma
gammaln linalg_gemm2 log log10 log1p log2 log_softmax max mean min negative norm pick prod rcbrt
reciprocal relu rsqrt sigmoid sin sinh slice softmax softmin softsign sqrt square squeeze sum take
tan tanh tile transpose where
""".split()

CASES = [c for c in DIFFERENTIABLE if all(c.inputs[i].size for i in grad_inputs(c))]


def _head(case: Case, arrays: list[Any], runner: Callable[..., Any]) -> Any:
    """Return a sum of squares: no operator is linear in it."""
    outputs = runner(case, arrays)
    rng = _generator(case.name, "weights")
    weights = [rng.uniform(0.5, 1.5, o.shape) for o in outputs]
    return weighted_sum([o * o for o in outputs], weights)


def _directions(case: Case) -> list[np.ndarray]:
    rng = _generator(case.name, "directions")
    return [rng.uniform(0.5, 1.5, case.inputs[i].shape) for i in grad_inputs(case)]


def _second(case: Case, runner: Callable[..., Any]) -> list[np.ndarray]:
    """Return the gradients of the first gradient's product with fixed directions."""
    arrays = [to_device(a, "float64", strided=False) for a in case.inputs]
    variables = [arrays[i] for i in grad_inputs(case)]
    for x in variables:
        x.attach_grad()
    with autograd.record(train_mode=case.training):
        head = _head(case, arrays, runner)
        grads = autograd.grad([head], variables, create_graph=True, train_mode=case.training)
        total = nd.zeros((1,), dtype="float64")
        for grad, direction in pairs(grads, _directions(case)):
            total = total + (grad * nd.array(direction, dtype="float64")).sum()
    total.backward(train_mode=case.training)
    return [host(v.grad) for v in variables]


def _first(case: Case, inputs: list[np.ndarray]) -> float:
    """Return the first gradient's product with the directions."""
    arrays = [to_device(a, "float64", strided=False) for a in inputs]
    variables = [arrays[i] for i in grad_inputs(case)]
    for x in variables:
        x.attach_grad()
    with autograd.record(train_mode=case.training):
        head = _head(case, arrays, call)
    head.backward(train_mode=case.training)
    return sum(float((host(v.grad) * d).sum()) for v, d in pairs(variables, _directions(case)))


def _check(case: Case, runner: Callable[..., Any]) -> None:
    for position, second in pairs(grad_inputs(case), _second(case, runner)):
        direction = _generator(case.name, position).uniform(-1, 1, second.shape)
        values = []
        for step in (1e-5, -1e-5):
            moved = [np.asarray(a) for a in case.inputs]
            moved[position] = np.asarray(moved[position] + step * direction)
            values.append(_first(case, moved))
        want = (values[0] - values[1]) / 2e-5
        got = float((second * direction).sum())
        assert got == pytest.approx(want, rel=2e-4, abs=1e-5), f"input {position}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_order_equals_finite_differences_or_says_that_it_is_not_supported(
    case: Case,
) -> None:
    name = find_op(case.name).schema_name
    try:
        _check(case, call)
    except NotImplementedError as error:
        assert isinstance(error, mx.MXNetError)
        assert name not in REQUIRED
        assert f"{name}: the gradient of its gradient is not supported" in str(error)


def test_every_required_operator_has_a_row() -> None:
    covered = {find_op(c.name).schema_name for c in CASES}
    assert sorted(n for n in REQUIRED if find_op(n).schema_name not in covered) == []


# BatchNorm's state must be a parameter of the block: test_gradient_penalty_... below.
_HYBRID = {
    find_op(c.name).schema_name: c
    for c in CASES
    if find_op(c.name).schema_name in REQUIRED and c.name != "BatchNorm"
}


@pytest.mark.parametrize("name", sorted(_HYBRID))
def test_second_order_of_hybridized_blocks(name: str) -> None:
    _check(_HYBRID[name], call_hybrid)


def test_dropout_keeps_its_mask_in_the_second_gradient():
    x = variable(nd.array(np.linspace(0.5, 2, 40)))
    with autograd.record():
        y = nd.Dropout(x, p=0.5)
        grad = autograd.grad((y**3).sum(), x, create_graph=True)[0]
    grad.backward()
    kept = 2.0 * (y.asnumpy() != 0)
    np.testing.assert_allclose(x.grad.asnumpy(), 6 * kept**3 * x.asnumpy(), rtol=1e-5)


def test_gradient_penalty_reaches_the_parameters():
    net = mx.gluon.nn.HybridSequential()
    net.add(
        mx.gluon.nn.Conv2D(3, 3, padding=1),
        mx.gluon.nn.BatchNorm(),
        mx.gluon.nn.LeakyReLU(0.2),
        mx.gluon.nn.MaxPool2D(2),
        mx.gluon.nn.Dense(4, activation="tanh"),
        mx.gluon.nn.LayerNorm(),
        mx.gluon.nn.Dense(1),
    )
    mx.random.seed(2)
    net.initialize(mx.init.Xavier())
    net.cast("float64")
    x = variable(nd.random.normal(shape=(2, 2, 6, 6), dtype="float64"))

    def penalty():
        with autograd.record():
            grad = autograd.grad(net(x).sum(), x, create_graph=True)[0]
            value = ((grad.reshape((2, -1)).norm(axis=1) - 1) ** 2).sum()
        return value

    eager = penalty()
    eager.backward()
    weight = net[0].weight
    direction = np.random.RandomState(0).uniform(-1, 1, weight.shape)
    got = float((weight.grad().asnumpy() * direction).sum())
    start, values = weight.data().asnumpy(), []
    for step in (1e-5, -1e-5):
        weight.set_data(nd.array(start + step * direction, dtype="float64"))
        values.append(float(penalty().asscalar()))
    assert got == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)
    weight.set_data(nd.array(start, dtype="float64"))
    net.hybridize()
    assert float(penalty().asscalar()) == pytest.approx(float(eager.asscalar()), rel=1e-9)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_derivatives_of_powers_at_zero(hybrid):
    block = mx.gluon.nn.HybridLambda(lambda F, x: x**2)
    block.hybridize(hybrid)
    x = variable(nd.array([0.0, 3.0]))
    with autograd.record():
        first = autograd.grad(block(x), x, create_graph=True)[0]
        second = autograd.grad(first, x, create_graph=True)[0]
    second.backward()
    np.testing.assert_array_equal(first.asnumpy(), [0, 6])
    np.testing.assert_array_equal(second.asnumpy(), [2, 2])
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])


def test_without_create_graph_the_first_gradient_is_a_constant():
    x = variable(nd.array([2.0]))
    with autograd.record():
        y = x**3
        grad = autograd.grad(y, x, retain_graph=True)[0]
        z = grad * x
    z.backward()
    assert x.grad.asscalar() == 12.0
