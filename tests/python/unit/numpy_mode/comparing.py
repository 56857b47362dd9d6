"""Compares functions of mx.np with NumPy: values, dtypes, gradients, hybridized calls."""

import mxlite as mx
import numpy as onp
from mxlite import autograd, gluon

np = mx.np


def of(value):
    """Return official arrays as mx.np arrays of their dtype, also inside of lists and tuples."""
    if isinstance(value, onp.ndarray):
        return np.array(value, dtype=value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(of(part) for part in value)
    return value


def numbers(*shape, seed=0, dtype="float64"):
    """Return different random numbers, or small integers for an integer dtype."""
    rng = onp.random.default_rng([seed, *shape])
    if onp.dtype(dtype).kind in "iub":
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def parts(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def assert_same(results, expected, tolerance=1e-10, dtypes=True):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        wanted = onp.asarray(wanted)
        assert type(result) is np.ndarray
        assert result.shape == wanted.shape
        if dtypes:
            assert result.dtype == wanted.dtype
        if wanted.dtype == bool:
            onp.testing.assert_array_equal(result.asnumpy(), wanted)
        else:
            onp.testing.assert_allclose(result.asnumpy(), wanted, rtol=tolerance, atol=tolerance)


class Call(gluon.HybridBlock):
    """Calls a function in a forward that can be hybridized."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arrays):
        return self.function(*arrays)


def gradients(function, arrays, heads):
    """Return results and gradients of a function of mx.np arrays."""
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        results = parts(function(*arrays))
        heads = heads if heads is not None else [numbers(*r.shape, seed=7) for r in results]
        loss = sum((r * of(h)).sum() for r, h in zip(results, heads))
    loss.backward()
    return results, [a.grad.asnumpy() for a in arrays], heads


def check_gradient(function, official, arrays, hybrid=True):
    """Compare gradients with a central difference along a direction, and hybridized calls."""
    results, grads, heads = gradients(function, [of(a) for a in arrays], None)
    directions = [numbers(*a.shape, seed=11 + i) for i, a in enumerate(arrays)]
    step = 1e-5

    def loss(sign):
        moved = [a + sign * step * d for a, d in zip(arrays, directions)]
        return sum((onp.asarray(r) * h).sum() for r, h in zip(parts(official(*moved)), heads))

    expected = (loss(1) - loss(-1)) / (2 * step)
    found = sum((g * d).sum() for g, d in zip(grads, directions))
    onp.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    if hybrid:
        net = Call(function)
        net.hybridize()
        again, hybrid_grads, _ = gradients(net, [of(a) for a in arrays], heads)
        assert_same(again, [r.asnumpy() for r in results])
        for one, other in zip(grads, hybrid_grads):
            onp.testing.assert_allclose(one, other, rtol=1e-12)


def check(function, official, arrays, gradient=True, hybrid=True, dtypes=True):
    """Compare a function of arrays with its official form."""
    assert_same(parts(function(*map(of, arrays))), parts(official(*arrays)), 1e-10, dtypes)
    if gradient:
        check_gradient(function, official, arrays, hybrid)
