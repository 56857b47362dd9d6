"""Reductions and creation of mx.np, against NumPy."""

import math

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd
from official import check_gradient, name_of, of, quiet, same  # noqa: F401 - quiet is a fixture

np = mx.np
nan, inf = math.nan, math.inf

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "max", "min", "all", "any", "ptp",
              "nansum", "nanprod", "nanmean", "nanstd", "nanvar", "nanmax", "nanmin"]  # fmt: skip
NUMBERS = onp.array([[[1.5, -2, 3, 1], [0, 1, -1, 2]], [[2, 2, 0.5, -1], [1, 0, 3, 1]]])


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int32", "uint8", "bool"])
def test_reductions(name, dtype):
    values = onp.abs(NUMBERS).astype(dtype) if dtype == "uint8" else NUMBERS.astype(dtype)
    if dtype[0] == "f" and name.startswith("nan"):
        values[0, 1, 2] = nan
    f, official = getattr(np, name), getattr(onp, name)
    if dtype == "bool" and "ptp" in name:
        pytest.skip("bools cannot be subtracted")
    averages = any(part in name for part in ("mean", "std", "var"))
    for axis in (None, 0, -1, (0, 2), (0, 1, 2), ()):
        if axis == () and name in ("ptp", "nanstd", "nanvar", "nanmean"):
            continue
        for keepdims in (False, True):
            expected = official(values, axis=axis, keepdims=keepdims)
            kind = "float32" if averages and dtype[0] != "f" else expected.dtype
            same(f(of(values), axis=axis, keepdims=keepdims), expected, kind)
    if hasattr(np.ndarray, name):
        same(getattr(of(values), name)(axis=1), f(of(values), axis=1).asnumpy())


def test_reductions_of_nothing():
    x = np.zeros((2, 0))
    assert float(x.sum()) == 0
    assert float(x.prod()) == 1
    assert math.isnan(float(x.mean()))
    assert not x.any() and x.all()
    same(x.sum(1), onp.zeros(2, "float32"))
    for f in (np.max, np.min, np.argmax):
        with pytest.raises(ValueError):
            f(x)
    same(np.max(x, axis=0), onp.zeros(0, "float32"))
    assert float(np.max(x, initial=3)) == 3


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod"])
@pytest.mark.parametrize("wanted", ["float64", "float32", "int32", "int8"])
def test_dtype_of_reductions(name, wanted):
    values = onp.array([[0.6, 1.6], [2.6, 3.0]], "float32")
    if name == "mean" and wanted[0] == "i":  # the mean of floats is converted, as in 1.9.1
        expected = values.mean(1).astype(wanted)
    else:
        expected = getattr(onp, name)(values.astype(wanted), axis=1, dtype=wanted)
    same(getattr(np, name)(of(values), axis=1, dtype=wanted), expected)


def test_mean_of_integers_in_their_dtype():
    values = onp.array([100, 100, 3], "int8")
    same(np.mean(of(values), dtype="int8"), onp.mean(values, dtype="int8"))
    same(np.mean(of(values)), onp.mean(values), "float32")
    x = np.array([1.5, 2.5])
    x.attach_grad()
    with autograd.record():
        y = np.mean(x, dtype="int32")
    y.backward()
    same(x.grad, onp.array([0.5, 0.5], "float32"))


def test_moments_where_and_in_narrower_dtypes():
    values = onp.random.RandomState(0).normal(1000, 1, (4, 50)).astype("float32")
    where = onp.arange(200).reshape(4, 50) % 3 > 0
    where[1] = False
    for name in ("mean", "std", "var"):
        ours, official = getattr(np, name), getattr(onp, name)
        found = ours(np.array(values), dtype="float16")
        assert found.dtype == "float16"
        assert abs(float(found) - official(values.astype("float64"))) <= abs(float(found)) * 2e-3
        with pytest.warns(RuntimeWarning):
            expected = official(values, axis=1, where=where)
        found = ours(np.array(values), axis=1, where=np.array(where)).asnumpy()
        onp.testing.assert_allclose(found, expected, rtol=1e-3)


def test_sum_options():
    values = onp.arange(6.0).reshape(2, 3)
    x, mask = of(values), onp.array([True, False, True])
    same(np.sum(x, 1, initial=5), values.sum(1, initial=5))
    same(np.sum(x, 1, where=of(mask)), values.sum(1, where=mask))
    same(np.max(x, initial=7), values.max(initial=7))
    same(np.mean(x, 0, where=of(mask)), values.mean(0, where=onp.broadcast_to(mask, (2, 3))))
    out = np.zeros(2, dtype="float64")
    assert np.sum(x, 1, out=out) is out
    assert x.sum(1, None, out) is out
    same(out, values.sum(1))
    for ddof in (0, 1, 3):
        same(np.var(x, 1, ddof=ddof), values.var(1, ddof=ddof))
    same(np.std(x, ddof=1), onp.asarray(values.std(ddof=1)))
    same(np.average(x, 1, of([1.0, 2, 3])), onp.average(values, 1, [1, 2, 3]))
    average, weights = np.average(x, returned=True)
    assert (float(average), float(weights)) == (2.5, 6)
    with pytest.raises(IndexError, match="axis 2"):
        np.sum(x, axis=2)


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_positions(name):
    values = onp.array([[1.0, 3, 3], [nan, -1, 5]])[: 1 if name.startswith("nan") else 2]
    for axis in (None, 0, 1, -1):
        same(getattr(np, name)(of(values), axis=axis), getattr(onp, name)(values, axis=axis))
    same(np.argmax(of(values), 0, keepdims=True), onp.argmax(values, 0, keepdims=True))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative(name):
    for values in (onp.array([[1, -2, 3], [2, 2, 2]], "int8"), NUMBERS, onp.array(2.5)):
        for axis in (None, *range(values.ndim)):
            same(getattr(np, name)(of(values), axis), getattr(onp, name)(values, axis))
    check_gradient(lambda x: getattr(np, name)(x, 1), [[1.5, 0.0, 3, 2], [1, 2, 0, 0]])


@pytest.mark.parametrize(
    "f",
    [np.sum, np.prod, np.mean, np.std, np.var, np.max, np.ptp, np.average, np.nanmean, np.nanvar],
)
def test_gradient_of_reductions(f):
    check_gradient(lambda x: f(x, axis=1), [[1.5, -2, 3], [0.5, 1, -1]])
    check_gradient(f, [[1.5, -2, 3], [0.5, 1, -1]])


MAKERS = {
    "zeros": (lambda m: m.zeros((2, 3)), "float32"),
    "ones": (lambda m: m.ones(3), "float32"),
    "ones_int": (lambda m: m.ones((2, 0), dtype="int32"), "int32"),
    "full": (lambda m: m.full((2,), 3), "float32"),
    "full_bool": (lambda m: m.full((2,), True), "bool"),
    "full_array": (lambda m: m.full((2, 2), m.array([1.5, 2])), None),
    "arange": (lambda m: m.arange(5), "float32"),
    "arange_step": (lambda m: m.arange(1, 8, 3, dtype="int64"), "int64"),
    "arange_down": (lambda m: m.arange(5, 0, -2.5), "float32"),
    "linspace": (lambda m: m.linspace(0, 1, 7), "float32"),
    "linspace_open": (lambda m: m.linspace(0, 5, 5, endpoint=False), "float32"),
    "linspace_int": (lambda m: m.linspace(0, 5, 4, dtype="int32"), "int32"),
    "linspace_one": (lambda m: m.linspace(3, 5, 1), "float32"),
    "linspace_arrays": (lambda m: m.linspace(m.array([0.0, 1]), m.array([4.0, 9]), 5), None),
    "linspace_axis": (lambda m: m.linspace(m.array([0.0, 1]), 4, 3, axis=1), None),
    "logspace": (lambda m: m.logspace(0, 2, 5), "float32"),
    "eye": (lambda m: m.eye(3, 4, 1), "float32"),
    "eye_bool": (lambda m: m.eye(2, dtype="bool"), "bool"),
    "identity": (lambda m: m.identity(3), "float32"),
    "tri": (lambda m: m.tri(3, 4, -1), "float32"),
    "tril": (lambda m: m.tril(m.ones((2, 3, 4)), 1), None),
    "triu": (lambda m: m.triu(m.ones((3, 4)), -1), None),
    "triu_vector": (lambda m: m.triu(m.array([1.0, 2, 3])), None),
    "indices": (lambda m: m.indices((2, 3)), "int32"),
    "blackman": (lambda m: m.blackman(7), "float32"),
    "hamming": (lambda m: m.hamming(7), "float32"),
    "hanning": (lambda m: m.hanning(1), "float32"),
    "zero_d": (lambda m: m.array(2.5), "float32"),
    "list": (lambda m: m.array([[1, 2], [3, 4]]), "float32"),
    "bools": (lambda m: m.array([True, False]), "float32"),
    "empty_list": (lambda m: m.array([]), "float32"),
    "nested": (lambda m: m.array([m.array([1.0, 2]), m.array([3.0, 4])]), "float32"),
    "zeros_like": (lambda m: m.zeros_like(m.ones((2, 2), dtype="int8")), "int8"),
    "full_like": (lambda m: m.full_like(m.ones(3, dtype="int32"), 2.5), "int32"),
    "ones_like": (lambda m: m.ones_like(m.zeros(()), dtype="float64"), "float64"),
    "meshgrid": (lambda m: m.meshgrid(m.arange(3), m.arange(2))[1], None),
    "meshgrid_ij": (lambda m: m.meshgrid(m.arange(3), m.arange(2), indexing="ij")[0], None),
}


@pytest.mark.parametrize("name", MAKERS)
def test_creation(name):
    make, dtype = MAKERS[name]
    result = make(np)
    same(result, onp.asarray(make(onp)).astype(result.dtype), dtype or "float32")


def test_dtypes_of_given_values():
    for dtype in DTYPES:
        assert name_of(np.array(onp.ones(2, dtype))) == dtype
        assert name_of(np.array(onp.ones(2, dtype)[0])) == dtype
    assert np.array([onp.int32(1)]).dtype == onp.float32
    x = np.ones(2)
    assert np.asarray(x) is x
    assert np.array(x) is not x
    for bad in ([[1], [1, 2]], None, "x", [object()]):
        with pytest.raises(TypeError):
            np.array(bad)
    with pytest.raises(NotImplementedError):
        np.zeros(2, order="F")
    with pytest.raises(ValueError):
        np.zeros((-1,))
    for f in (np.sum, np.mean, np.nanmax, np.argmax, np.cumsum):  # lists become float32 arrays
        same(f([3, 4]), f(np.array([3, 4])).asnumpy())


def test_default_dtype():
    """``set_np(dtype=True)`` gives float64 where factories give float32."""
    makers = [
        lambda: np.array([1, 2]), lambda: np.zeros(2), lambda: np.full(2, 3), lambda: np.arange(3),
        lambda: np.linspace(0, 1, 3), lambda: np.logspace(0, 1, 3), lambda: np.eye(2, 0),
        lambda: np.identity(2), lambda: np.tri(2), lambda: np.hanning(3), lambda: np.sum([1, 2]),
        lambda: np.random.uniform(size=2), lambda: np.random.bernoulli(0.5, size=2),
        lambda: np.array_api.asarray([0.5]), lambda: mx.sym.np.ones(2).eval(mx.cpu())[0],
    ]  # fmt: skip
    assert {name_of(make()) for make in makers} == {"float32"}
    mx.npx.set_np(dtype=True)
    try:
        assert mx.util.is_np_default_dtype()
        assert {name_of(make()) for make in makers} == {"float64"}
        assert name_of(np.ones(2, "float16")) == "float16"
    finally:
        mx.npx.reset_np()
    assert name_of(np.ones(2)) == "float32"
