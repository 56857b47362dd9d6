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
