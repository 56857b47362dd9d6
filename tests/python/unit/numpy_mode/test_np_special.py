"""Infinities, NaN, signed zeros and limits in element-wise functions, against NumPy."""

import math

import mxlite as mx
import numpy as onp
import pytest
from official import of, quiet, same  # noqa: F401 - quiet is a fixture

np = mx.np
nan, inf = math.nan, math.inf


SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -3, math.inf, -math.inf, math.nan, 1 - 6e-8, 1e-40]


@pytest.mark.parametrize("name", ["floor_divide", "power", "remainder", "heaviside", "divide"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(name, dtype):
    """Infinities, NaN and zeros give NumPy's results, also in their signs."""
    a, b = (part.ravel() for part in onp.meshgrid(*[onp.array(SPECIAL, dtype)] * 2))
    found, expected = getattr(np, name)(of(a), of(b)), getattr(onp, name)(a, b)
    same(found, expected)
    sign = expected == expected
    same(np.signbit(found)[sign], onp.signbit(expected)[sign])


def test_clip_and_nan_to_num():
    values = onp.array([-inf, -2, nan, 0.5, 7, inf])
    x = of(values)
    for bounds in ((0, 1), (None, 1), (-1, None), (0.5, inf), (2, -1), (nan, 1), (0, nan)):
        same(np.clip(x, *bounds), onp.clip(values, *bounds))
    same(x.clip(max=of([1.0])), onp.clip(values, None, [1]))
    same(np.clip(of([1, 5]), 0, 2), onp.array([1, 2]))
    same(np.clip(of([1, 5]), 0, 2.5), onp.array([1, 2.5], "float32"))
    with pytest.raises(ValueError):
        np.clip(x)
    same(np.nan_to_num(x), onp.nan_to_num(values))
    numbers = {"nan": 1, "posinf": 2, "neginf": -2}
    same(np.nan_to_num(x, **numbers), onp.nan_to_num(values, **numbers))
    assert np.nan_to_num(x, copy=False, nan=9) is x
    assert float(x[2]) == 9


def test_public_names_are_functions_types_constants_and_public_modules():
    modules = {name for name in dir(np) if type(getattr(np, name)) is type(onp)}
    assert {name for name in modules if not name.startswith("_")} == {
        "array_api", "linalg", "random",
    }  # fmt: skip
    assert {name for name in dir(np) if not name.startswith("_")} == set(np.__all__)
    assert {"sum", "ndarray", "pi", "float32", "convolve"} < set(np.__all__)
