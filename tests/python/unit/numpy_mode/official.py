"""Arrays of mx.np with official values, and comparisons with official NumPy."""

import warnings

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd

np = mx.np
TOLERANCE = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-12}


@pytest.fixture(autouse=True)
def quiet():
    """Ignore the warnings of official NumPy, for example of overflow."""
    with onp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def of(values, dtype=None):
    """Return an mx.np array with the values and dtype of an official one."""
    values = onp.asarray(values, dtype)
    return np.array(values, dtype=values.dtype)


def same(result, expected, dtype=None):
    expected = onp.asarray(expected)
    assert type(result) is np.ndarray
    assert result.shape == expected.shape
    assert onp.dtype(result.dtype) == onp.dtype(dtype or expected.dtype)
    tolerance = TOLERANCE.get(onp.dtype(result.dtype).name, 0)
    onp.testing.assert_allclose(result.asnumpy(), expected, rtol=tolerance, atol=tolerance)


def name_of(x):
    return onp.dtype(x.dtype).name


def finite_difference(f, x, step=1e-5):
    """Return the gradient of f(x).sum() in float64."""
    gradient = onp.zeros_like(x)
    for i in onp.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            sides.append(float(f(np.array(moved)).sum()))
        gradient[i] = (sides[0] - sides[1]) / (2 * step)
    return gradient


def check_gradient(f, *inputs):
    arrays = [np.array(onp.asarray(x, "float64")) for x in inputs]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = f(*arrays)
    y.backward()
    for i, a in enumerate(arrays):
        rest = list(arrays)

        def of_one(x, i=i, rest=rest):
            return f(*rest[:i], x, *rest[i + 1 :])

        expected = finite_difference(of_one, a.asnumpy())
        assert type(a.grad) is np.ndarray
        onp.testing.assert_allclose(a.grad.asnumpy(), expected, rtol=1e-6, atol=1e-7)
