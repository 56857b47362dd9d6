"""Kernels of extrema, truth, sorts, joins and norms on every dtype, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as onp
import pytest
from mxlite import autograd, np

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
# Shapes with rows shorter and longer than vectors, runs and blocks, and with no elements.
SHAPES = [(1,), (5,), (3, 7), (9, 64), (2, 200), (70, 3), (300, 70), (2, 5000), (4, 3, 33), (0, 3)]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> tuple[Any, Any]:
    """Return values with many ties, and for floats special ones, in NumPy's and our arrays."""
    random = onp.random.RandomState(seed)
    if dtype == "bool":
        values: Any = random.uniform(size=shape) < 0.02
    elif dtype in INTEGERS:
        limits = onp.iinfo(dtype)
        values = random.randint(0, 40, shape).astype(dtype) - (20 if limits.min else 0)
        values = onp.where(random.uniform(size=shape) < 0.01, limits.max, values).astype(dtype)
        values = onp.where(random.uniform(size=shape) < 0.01, limits.min, values).astype(dtype)
    else:
        values = random.randint(-20, 20, shape).astype("float32")
        special = random.uniform(size=shape)
        for place, value in enumerate((-0.0, 0.0, onp.inf, -onp.inf, onp.nan)):
            values = onp.where(special < 0.02 * (5 - place), onp.float32(value), values)
    array = np.array(values, dtype=dtype)
    return (values if dtype == "bfloat16" else values.astype(dtype)), array


def axes_of(shape: tuple[int, ...]) -> list[int | None]:
    """Return the axes along which there are elements."""
    along_all = [None] if 0 not in shape else []
    return along_all + [axis for axis, n in enumerate(shape) if n]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_positions_and_extrema(dtype: str) -> None:
    for seed, shape in enumerate(SHAPES):
        values, array = draw(shape, dtype, seed)
        for axis in axes_of(shape):
            for name in ("argmax", "argmin", "max", "min"):
                expected = getattr(values, name)(axis)
                found = getattr(array, name)(axis).astype(expected.dtype).asnumpy()
                onp.testing.assert_array_equal(found, expected, f"{name} {shape} {axis}")


@pytest.mark.parametrize("value", [onp.nan, onp.inf, -onp.inf])
@pytest.mark.parametrize("place", [0, 1, 4095, 4096, 70000, 99999])
def test_one_special_value(value: float, place: int) -> None:
    values = onp.zeros(100000, "float32")
    values[place:] = value  # the first of several must be found
    for shape in ((100000,), (100000, 1), (50000, 2)):
        given = values if shape[-1] < 2 else onp.repeat(values[::2], 2)
        host = given.reshape(shape)
        array = np.array(host)
        for axis in (None, 0):
            assert (array.argmax(axis).asnumpy() == host.argmax(axis)).all()
            assert (array.argmin(axis).asnumpy() == host.argmin(axis)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32"])
def test_truth(dtype: str) -> None:
    for shape in [*SHAPES, (100000,), (64, 5000), (40000, 3)]:
        for fill in (0, 1):
            values = onp.full(shape, fill, dtype)
            for change in range(3):  # no other value, one at the end, one in the middle
                if change and values.size:
                    values.reshape(-1)[-1 if change == 1 else values.size // 2] = 1 - fill
                array = np.array(values)
                for axis in (None, *range(len(shape))):
                    for name in ("any", "all"):
                        expected = getattr(values, name)(axis)
                        found = getattr(array, name)(axis)
                        assert found.dtype == onp.bool_
                        onp.testing.assert_array_equal(found.asnumpy(), expected)


def test_truth_of_views_and_nan() -> None:
    values = onp.zeros((40, 50), "bool")
    values[3, 4] = True
    array = np.array(values)
    for key in (slice(2, 9), slice(5, 40)):
        assert array[key].any() == values[key].any()
        onp.testing.assert_array_equal(array[key].any(0).asnumpy(), values[key].any(0))
    assert np.any(np.array([0.0, onp.nan])) and not np.any(np.array([-0.0, 0.0]))


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_sorts(dtype: str) -> None:
    for seed, shape in enumerate([*SHAPES[:-1], (17, 130), (3, 2049), (20, 12, 3), (40000,)]):
        values, array = draw(shape, dtype, seed)
        for axis in axes_of(shape):
            found = np.sort(array, axis)
            assert found.dtype == array.dtype
            onp.testing.assert_array_equal(
                found.astype(values.dtype).asnumpy(), onp.sort(values, axis), f"{shape} {axis}"
            )
            order = onp.argsort(values, axis, kind="stable")
            onp.testing.assert_array_equal(np.argsort(array, axis).asnumpy(), order)


def test_sort_keeps_all_zeros_and_nan() -> None:
    for n in (20, 3000, 50000):
        values = onp.tile(onp.array([0.0, -0.0, onp.nan, 1.0], "float32"), n // 4)
        found = np.sort(np.array(values)).asnumpy()
        assert onp.signbit(found[: n // 2]).sum() == n // 4
        assert (found[n // 2 : 3 * n // 4] == 1).all() and onp.isnan(found[3 * n // 4 :]).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint64", *FLOATS])
def test_unique(dtype: str) -> None:
    for shape in [(0,), *SHAPES]:
        values, array = draw(shape, dtype)
        expected = onp.unique(values)
        found = np.unique(array)
        assert found.dtype == array.dtype
        onp.testing.assert_array_equal(found.astype(values.dtype).asnumpy(), expected)
    x = np.array([3.0, 1.0, 3.0])
    x.attach_grad()
    with autograd.record():
        np.unique(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_roll(dtype: str, record: bool) -> None:
    values = onp.arange(60).reshape(3, 4, 5).astype(dtype)
    array = np.array(values)
    if record and dtype != "int8":
        array.attach_grad()
    for shift, axis in ((1, 0), (-2, 1), (7, 2), (13, None), ((1, 2), (0, 2)), (0, 1)):
        expected = onp.roll(values, shift, axis)
        if not record:
            onp.testing.assert_array_equal(np.roll(array, shift, axis).asnumpy(), expected)
            part = np.roll(array[1:], shift, axis).asnumpy()
            onp.testing.assert_array_equal(part, onp.roll(values[1:], shift, axis))
        elif dtype != "int8":
            weight = np.array(onp.arange(60).reshape(3, 4, 5).astype(dtype))
            with autograd.record():
                (np.roll(array, shift, axis) * weight).sum().backward()
            back = onp.roll(weight.asnumpy(), onp.negative(shift), axis)
            onp.testing.assert_array_equal(array.grad.asnumpy(), back)


def test_norm_of_extreme_and_zero_values() -> None:
    for scale in (1e-30, 1.0, 1e30):
        values = onp.array([[3.0, 4.0], [0.0, 0.0]], "float32") * onp.float32(scale)
        found = np.linalg.norm(np.array(values), axis=1).asnumpy()
        onp.testing.assert_allclose(found, [5 * scale, 0], rtol=1e-6)
    x = np.zeros((2, 3))
    x.attach_grad()
    with autograd.record():
        np.linalg.norm(x).backward()
    assert (x.grad == 0).all()
    for array in (np.array(-3.0), np.array([[1.0, 2.0], [2.0, 4.0]])):
        for keepdims in (False, True):
            found = np.linalg.norm(array, keepdims=keepdims)
            expected = onp.linalg.norm(array.asnumpy(), keepdims=keepdims)
            assert found.shape == expected.shape
            onp.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)
    assert np.linalg.vector_norm(np.array([-2.0, 1.0]), axis=()).tolist() == [2.0, 1.0]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "greater_equal", "logical_or"])
def test_comparisons(name: str, dtype: str) -> None:
    ours, official = getattr(np, name), getattr(onp, name)
    for shape in [(1,), (3, 7), (2, 5000), (0, 3)]:
        values, array = draw(shape, dtype)
        others, other = draw(shape, dtype, 1)
        onp.testing.assert_array_equal(ours(array, other).asnumpy(), official(values, others))
        onp.testing.assert_array_equal(ours(array, 5).asnumpy(), official(values, 5))
        part = ours(array[:, ::2] if len(shape) > 1 else array, 5).asnumpy()
        onp.testing.assert_array_equal(
            part, official(values[:, ::2] if len(shape) > 1 else values, 5)
        )
        for predicate in ("isnan", "isfinite", "logical_not"):
            onp.testing.assert_array_equal(
                getattr(np, predicate)(array).asnumpy(), getattr(onp, predicate)(values)
            )


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 2**30, 2**31 - 1, -1, -7, -(2**31)])
def test_quotients_of_integers_by_a_number(divisor: int) -> None:
    limits = onp.iinfo("int32")
    edges = [limits.min, limits.min + 1, -8, -7, -1, 0, 1, 6, 7, limits.max - 1, limits.max]
    values = onp.concatenate([edges, onp.random.RandomState(0).randint(-(2**31), 2**31, 999)])
    values = values.astype("int32")
    with onp.errstate(over="ignore"):
        expected = values // onp.int32(divisor)
    onp.testing.assert_array_equal((np.array(values) // divisor).asnumpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_evenly_spaced_values(dtype: str) -> None:
    for args in ((0, 1500), (-1, 2, 0.5), (0.5, 4, 1), (3, -3, -0.75), (0, 3, 0.25), (2, 1)):
        onp.testing.assert_array_equal(
            np.arange(*args, dtype=dtype).asnumpy(), onp.arange(*args, dtype=dtype), str(args)
        )
    for args in ((-2, 3, 30), (0, 1, 1500), (5, 5, 2), (0, 1, 1), (0, 1, 0)):
        for endpoint in (False, True):
            found = np.linspace(*args, endpoint=endpoint, dtype=dtype).asnumpy()
            expected = onp.linspace(*args, endpoint=endpoint, dtype=dtype)
            onp.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    start = onp.array([-2.5, 1.0])
    onp.testing.assert_array_equal(
        np.linspace(np.array(start), 3, 7, dtype=dtype).asnumpy(),
        onp.linspace(start, 3, 7, dtype=dtype),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    "sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh reciprocal".split(),
)
def test_math_of_long_runs(name: str, dtype: str) -> None:
    special = [0.0, -0.0, onp.inf, -onp.inf, onp.nan, 1e-40, -1e-40, 1.0, -1.0]
    spread = [*onp.linspace(-12, 12, 1501), *onp.linspace(-1, 1, 500)]
    values = onp.array([*special, *spread, *special], dtype)
    with onp.errstate(all="ignore"):
        expected = getattr(onp, name)(values.astype("float64"))
    found = getattr(np, name)(np.array(values, dtype=dtype)).asnumpy()
    tolerance = 6e-7 if dtype == "float32" else 2e-15
    with onp.errstate(over="ignore"):
        onp.testing.assert_allclose(found, expected.astype(dtype), rtol=tolerance, atol=0)
    zero = onp.array([0.0, -0.0], dtype)
    if name not in (
        "exp",
        "cos",
        "cosh",
        "arccos",
        "arccosh",
        "log",
        "log2",
        "log10",
        "reciprocal",
    ):
        signs = onp.signbit(getattr(np, name)(np.array(zero, dtype=dtype)).asnumpy())
        onp.testing.assert_array_equal(signs, [False, True])
