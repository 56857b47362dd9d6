"""Numbers that no integer is: refused as values, and right as bounds of integers."""

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_integers_take_no_number_that_is_none(dtype, value):
    x = nd.zeros((2,), dtype=dtype)
    for act in (
        lambda: x.__setitem__(0, value),
        lambda: x.__setitem__(slice(None), np.float64(value)),
        lambda: nd.full((2,), value, dtype=dtype),
        lambda: mx.sym.full((2,), value, dtype=dtype).eval(),
    ):
        with pytest.raises(ValueError, match=f"_full: parameter value: .* that {dtype} holds"):
            act()
    if abs(value) != 1e30:  # NumPy casts it with a warning
        for act in (
            lambda: x.__setitem__(slice(None), [value, 1]),
            lambda: nd.array([value], dtype=dtype),
        ):
            with pytest.raises(ValueError, match="NaN or infinity given"):
                act()
    assert x.asnumpy().tolist() == [0, 0]
    x[:] = 3.5  # a fraction is cut, as in 1.x
    assert x.asnumpy().tolist() == [3, 3]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_integers_compared_with_infinity(dtype):
    values = np.array([0, 1, 100], dtype)
    x = nd.array(values, dtype=dtype)
    for infinity in (float("inf"), 1e30):
        assert (x < infinity).asnumpy().tolist() == [1, 1, 1]
        assert (x >= infinity).asnumpy().tolist() == [0, 0, 0]
        assert nd.minimum(x, infinity).asnumpy().tolist() == values.tolist()
        if dtype != "uint8":
            negative = nd.array(-values, dtype=dtype)
            assert (negative > -infinity).asnumpy().tolist() == [1, 1, 1]
            assert (negative <= -infinity).asnumpy().tolist() == [0, 0, 0]
            assert nd.maximum(negative, -infinity).asnumpy().tolist() == (-values).tolist()


ARITHMETIC = {
    "_plus_scalar": lambda x, s: x + s,
    "_minus_scalar": lambda x, s: x - s,
    "_rminus_scalar": lambda x, s: s - x,
    "_mul_scalar": lambda x, s: s * x,
    "_div_scalar": lambda x, s: x / s,
    "_rdiv_scalar": lambda x, s: s / x,
    "_mod_scalar": lambda x, s: x % s,
    "_rmod_scalar": lambda x, s: s % x,
    "_power_scalar": lambda x, s: x**s,
    "_rpower_scalar": lambda x, s: s**x,
}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_integers_and_numbers_that_no_integer_holds_have_no_result(name, dtype):
    x = nd.array([1, 1], dtype=dtype)
    for value in (float("nan"), float("inf"), -float("inf"), 1e30):
        with pytest.raises(ValueError, match=rf"{name}: scalar .* beside data of dtype {dtype}"):
            ARITHMETIC[name](x, value)
        with pytest.raises(ValueError, match=name):
            ARITHMETIC[name](mx.sym.var("x"), value).eval(x=x)
        assert np.isnan(ARITHMETIC["_plus_scalar"](x.astype("float32"), np.nan).asnumpy()).all()
    if dtype != "bool":
        with pytest.raises(ValueError, match="_plus_scalar: scalar nan"):
            x += float("nan")
    assert x.asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32"])
def test_every_comparison_with_nan_is_false(dtype):
    values = np.array([0, 1, 1], dtype)
    x, nan = nd.array(values, dtype=dtype), float("nan")
    for compare in ("equal", "greater", "greater_equal", "lesser", "lesser_equal"):
        got = getattr(nd, compare)(x, nan)
        assert got.asnumpy().tolist() == [0, 0, 0], compare
    assert (x != nan).asnumpy().tolist() == [1, 1, 1]
    assert nd.logical_and(x, nan).asnumpy().tolist() == [0, 1, 1]
    assert nd.logical_or(x, nan).asnumpy().tolist() == [1, 1, 1]
    assert nd.logical_xor(x, nan).asnumpy().tolist() == [1, 0, 0]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_integers_have_no_bound_nan(dtype):
    x = nd.array([1, 2], dtype=dtype)
    for act in (
        lambda: nd.maximum(x, float("nan")),
        lambda: nd.minimum(x, float("nan")),
        lambda: nd.clip(x, 0, float("nan")),
        lambda: nd.clip(x, float("nan"), 9),
    ):
        with pytest.raises(ValueError, match="nan.* given beside data of dtype"):
            act()
    assert nd.clip(x, -float("inf"), 1).asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_powers_of_numbers_without_logarithm_have_no_gradient_in_integers(dtype):
    for base in (0, -1):
        x = nd.array([1, 2, 3], dtype=dtype)
        x.attach_grad()
        with mx.autograd.record():
            y = base**x
        y.backward()
        assert x.grad.asnumpy().tolist() == [0, 0, 0]
