"""Element-wise functions, dtypes and the object protocol of mx.np, against NumPy."""

import copy
import itertools
import math
import pickle

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd, gluon
from mxlite.base import DTypeError
from official import check_gradient, name_of, of, quiet, same  # noqa: F401 - quiet is a fixture

np = mx.np
nan, inf = math.nan, math.inf

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]


# name: values at which the function is differentiable and defined
SMOOTH = {
    "absolute": [-1.5, 0.5], "arccos": [-0.5, 0.3], "arccosh": [1.5, 2], "arcsin": [-0.5, 0.3],
    "arcsinh": [-1, 2], "arctan": [-1, 2], "arctanh": [-0.5, 0.3], "cbrt": [1, 8], "cos": [-1, 2],
    "cosh": [-1, 2], "degrees": [-1, 2], "exp": [-1, 2], "exp2": [-1, 2], "expm1": [-1, 2],
    "fabs": [-1.5, 0.5], "log": [0.5, 2], "log10": [0.5, 2], "log1p": [0.5, 2], "log2": [0.5, 2],
    "negative": [-1, 2], "positive": [-1, 2], "radians": [-1, 2], "reciprocal": [-1, 2],
    "sin": [-1, 2], "sinc": [0.0, 0.3], "sinh": [-1, 2], "sqrt": [0.5, 2], "square": [-1, 2],
    "tan": [-1, 0.5], "tanh": [-1, 2],
}  # fmt: skip
STEPS = ["ceil", "fix", "floor", "rint", "sign", "trunc", "around"]
PREDICATES = ["isfinite", "isinf", "isnan", "isneginf", "isposinf", "logical_not", "signbit"]
KEEPS_INTEGERS = ["absolute", "negative", "positive", "square", *STEPS]
EDGES = [-inf, -2.5, -1.5, -1.0, -0.5, -0.0, 0.5, 1.0, 1.5, 2.5, inf, nan]


@pytest.mark.parametrize("name", [*SMOOTH, *STEPS, *PREDICATES])
def test_unary_values(name):
    f, official = getattr(np, name), getattr(onp, name)
    for dtype in FLOATS:
        values = onp.array(SMOOTH.get(name, []) + EDGES, dtype)
        wide = values.astype("float64") if name in SMOOTH else values
        expected = official(wide)
        result = f(of(values))
        kind = "bool" if name in PREDICATES else dtype
        limit = onp.finfo(dtype).max
        expected = onp.where(onp.abs(expected) > limit, onp.sign(expected) * inf, expected) if (
            name in SMOOTH) else expected  # fmt: skip
        same(result, expected, kind)
    for dtype in ("int32", "uint8"):
        values = onp.array([0, 1, 2], dtype)
        kind = "bool" if name in PREDICATES else dtype if name in KEEPS_INTEGERS else "float32"
        signed = values.astype("float64" if kind == "float32" else "int64")
        same(f(of(values)), official(signed).astype(kind), kind)


@pytest.mark.parametrize("name", SMOOTH)
def test_unary_gradient(name):
    check_gradient(getattr(np, name), SMOOTH[name])


@pytest.mark.parametrize("name", STEPS)
def test_steps_have_a_zero_gradient(name):
    check_gradient(getattr(np, name), [-1.3, 0.2, 1.6])


ARITHMETIC = {
    "add": onp.add, "subtract": onp.subtract, "multiply": onp.multiply, "divide": onp.divide,
    "floor_divide": onp.floor_divide, "remainder": onp.remainder, "fmod": onp.fmod,
    "power": onp.power, "maximum": onp.maximum, "minimum": onp.minimum, "fmax": onp.fmax,
    "fmin": onp.fmin, "arctan2": onp.arctan2, "hypot": onp.hypot, "copysign": onp.copysign,
    "logaddexp": onp.logaddexp, "logaddexp2": onp.logaddexp2, "heaviside": onp.heaviside,
    "nextafter": onp.nextafter,
}  # fmt: skip
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
               "logical_and", "logical_or", "logical_xor"]  # fmt: skip


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS])
def test_binary_values(name):
    f, official = getattr(np, name), getattr(onp, name)
    a = onp.array([[1.5, -2, 0, 3], [nan, inf, -0.5, 7]], "float32")
    b = onp.array([2, 3, 0.5, -2], "float32")
    same(f(of(a), of(b)), official(a, b))
    same(f(of(b), of(a)), official(b, a))
    same(f(of(a), 2), official(a, onp.float32(2)))
    same(f(2.5, of(a)), official(onp.float32(2.5), a))
    same(f(of(a[:, 1:]), of(a[0, 0])), official(a[:, 1:], a[0, 0]))
    same(f(of(a[:0]), of(b)), official(a[:0], b))
    out = np.zeros((2, 4), dtype="bool" if name in COMPARISONS else "float32")
    assert f(of(a), of(b), out=out) is out
    same(out, official(a, b))


@pytest.mark.parametrize(
    "name", [n for n in ARITHMETIC if n not in ("floor_divide", "nextafter", "heaviside")]
)
def test_binary_gradient(name):
    check_gradient(getattr(np, name), [[1.5, 2.5], [0.7, 3.2]], [2.2, 1.1])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm",
                                  "left_shift", "right_shift", "floor_divide", "remainder",
                                  "fmod"])  # fmt: skip
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_functions(name, dtype):
    a, b = onp.array([1, 12, 7, 100], dtype), onp.array([3, 4, 2, 6], dtype)
    same(getattr(np, name)(of(a), of(b)), getattr(onp, name)(a, b))
    if dtype[0] == "i":
        same(getattr(np, name)(of(-a), of(b)), getattr(onp, name)(-a, b))
    same(getattr(np, name)(of(a), 3), getattr(onp, name)(a, onp.array(3, dtype)))
    with pytest.raises(DTypeError):
        getattr(np, name)(of([True]), of([False])) if "bit" not in name else np.gcd(of(1.5), 2)


def test_bits_of_bools():
    a, b = onp.array([True, True, False]), onp.array([True, False, False])
    same(of(a) & of(b), a & b)
    same(of(a) | of(b), a | b)
    same(of(a) ^ True, a ^ True)
    same(~of(a), ~a)


def promoted(a, b):
    """Return the dtype of arithmetic: official NumPy's, but any float wins over any integer."""
    kinds = [onp.dtype(d).kind == "f" for d in (a, b)]
    if kinds[0] != kinds[1]:
        return a if kinds[0] else b
    return onp.result_type(a, b).name


@pytest.mark.parametrize("a, b", list(itertools.product(DTYPES, DTYPES)))
def test_promotion(a, b):
    x, y = of([1, 0, 1], a), of([1, 1, 0], b)
    common = promoted(a, b)
    assert np.promote_types(a, b) == common
    assert np.result_type(x, y) == common
    for f in (np.add, np.multiply, np.maximum, np.minimum):
        assert name_of(f(x, y)) == common
    expected = onp.array([1, 0, 1], a).astype(common) + onp.array([1, 1, 0], b).astype(common)
    same(x + y, expected)
    assert name_of(x < y) == "bool"
    assert name_of(x / y) == (common if onp.dtype(common).kind == "f" else "float32")
    if common == "bool":
        with pytest.raises(TypeError, match="bool"):
            x - y
    else:
        assert name_of(x - y) == common


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_do_not_widen(dtype):
    x = of([1, 0, 1], dtype)
    whole = "int64" if dtype == "bool" else dtype
    real = dtype if dtype in FLOATS else "float32"
    for result in (x + 1, 1 + x, x * 2, x - 1, x // 2, x % 2):
        assert name_of(result) == whole
    for result in (x + 1.5, 1.5 * x, x - 0.5, x / 2, 2 / x, x + 1.0):
        assert name_of(result) == real
    same(x + 1.5, onp.array([2.5, 1.5, 2.5], real))
    for result in (x == 1, x > 0.5, x >= 1):
        assert name_of(result) == "bool"
    same(x > 0.5, onp.array([True, False, True]))
    same(x >= -1, onp.array([True] * 3))
    same(x < 1e30 if dtype != "float16" else x < 1e4, onp.array([True] * 3))


def test_bfloat16():
    x = np.array([1, 2], dtype="bfloat16")
    assert np.promote_types("bfloat16", "float16") == "float32"
    assert (x + 1.5).dtype == x.dtype
    assert (x + of([1, 2], "int64")).dtype == x.dtype
    assert repr(x) == "array([1., 2.], dtype=bfloat16)"
    assert x.nbytes == 4


@pytest.mark.parametrize("sign", ["add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or",
                                  "xor", "lshift", "rshift"])  # fmt: skip
def test_in_place(sign):
    a = onp.array([7, 5, 12], "float32" if sign == "truediv" else "int64")
    x, expected = of(a), a.copy()
    alias = x
    getattr(onp.ndarray, f"__i{sign}__")(expected, a.dtype.type(2))
    result = getattr(np.ndarray, f"__i{sign}__")(x, 2)
    assert result is alias
    same(alias, expected)


def test_in_place_keeps_the_dtype():
    x = of([1, 2], "float32")
    x += of([0.5, 0.5], "float64")
    same(x, onp.array([1.5, 2.5], "float32"))
    x = of([1, 2], "int32")
    x *= of([3, 4], "int64")
    same(x, onp.array([3, 8], "int32"))
    with pytest.raises(TypeError, match="kind"):
        x += 1.5
    with pytest.raises(TypeError, match="kind"):
        x /= 2
    with pytest.raises(TypeError, match="kind"):
        x += of([0.5, 1], "float32")
    with pytest.raises(ValueError):
        x += of(onp.ones((2, 2)), "int32")
    same(x, onp.array([3, 8], "int32"))


def test_power_in_place_makes_a_new_array():
    x = alias = np.array([2.0, 3])
    x **= 2
    same(x, onp.array([4, 9], "float32"))
    same(alias, onp.array([2, 3], "float32"))


@pytest.mark.parametrize("other", [[1, 2], (1, 2), None, "x", 1j, onp.ones(2)])
def test_foreign_operands(other):
    x = np.ones(2)
    for f in (np.add, np.equal, np.arctan2, np.bitwise_and):
        with pytest.raises(TypeError):
            f(x, other)
        with pytest.raises(TypeError):
            f(other, x)
    with pytest.raises(TypeError):
        np.exp([1, 2])


def test_classes_do_not_mix():
    x, y = np.ones(2), mx.nd.ones(2)
    for f in (lambda: x + y, lambda: y + x, lambda: x == y, lambda: np.maximum(x, y)):
        with pytest.raises(TypeError, match="as_np_ndarray"):
            f()
    for f in (np.exp, np.sum, np.argmax, np.zeros_like):
        with pytest.raises(TypeError, match="as_np_ndarray"):
            f(y)
    with pytest.raises(ValueError, match="as_np_ndarray"):
        np.array(y)


def test_conversion_shares_memory_and_gradients():
    x = np.array([1.0, 2])
    x.attach_grad()
    with autograd.record():
        y = (x.as_nd_ndarray() * 3).as_np_ndarray() * x
    y.backward()
    same(x.grad, onp.array([6, 12], "float32"))
    x.as_nd_ndarray()[:] = 5
    same(x, onp.array([5, 5], "float32"))
    assert type(mx.nd.ones(2).as_np_ndarray()) is np.ndarray


def test_second_order():
    x = np.array([0.5, 2])
    x.attach_grad()
    with autograd.record():
        y = np.sum(np.sin(x) * x**3)
        (first,) = autograd.grad(y, [x], create_graph=True)
        total = first.sum()
    total.backward()
    v = x.asnumpy().astype("float64")
    expected = -onp.sin(v) * v**3 + 6 * onp.cos(v) * v**2 + 6 * v * onp.sin(v)
    onp.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5)


def test_promotion_passes_gradients():
    x, y = of([1.0, 2], "float32"), of([3.0, 4], "float64")
    x.attach_grad(), y.attach_grad()
    with autograd.record():
        z = x * y + of([1, 1], "int32")
    assert z.dtype == onp.float64
    z.backward()
    same(x.grad, onp.array([3, 4], "float32"))
    same(y.grad, onp.array([1, 2], "float64"))


class Network(gluon.HybridBlock):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.where(x > 1, x, y) + np.sum(x) * 2,
        lambda x, y: (x == y) | (x // 2 > y) & ~(x < 0),
        lambda x, y: np.std(x, 1) / (np.mean(y) + np.argmax(x, 1)),
        lambda x, y: np.around(x * 1.26, 1) + np.clip(y, 1, 2) + np.nan_to_num(x / 0),
        lambda x, y: np.cumprod(x, 1) + np.zeros_like(y) + np.full_like(x, 2.5) + np.fmod(x, 2),
        lambda x, y: x.astype("int32") / 2 + np.tril(x) + y.max(),
    ],
)
def test_hybridized(f):
    x, y = of(onp.array([[1.5, -2], [0, 3]], "float32")), of(onp.array([2, 1], "int32"))
    net = Network(f)
    expected = net(x, y)
    net.hybridize()
    for _ in range(3):
        same(net(x, y), expected.asnumpy())


def test_rounding():
    values = onp.array([0.5, 1.5, 2.5, -0.5, 1.25, 1.35, 123.456])
    for decimals in (0, 1, 2, -1):
        same(np.around(of(values), decimals), onp.around(values, decimals))
    integers = onp.array([15, 25, -15, 149])
    for decimals in (0, 1, -1, -2):
        same(np.round(of(integers), decimals), onp.round(integers, decimals))
    x = of(values)
    same(round(x), onp.round(values))
    same(math.floor(x), onp.floor(values))
    same(math.ceil(x), onp.ceil(values))
    same(math.trunc(x), onp.trunc(values))
    for part, expected in zip(divmod(x, 2), divmod(values, 2)):
        same(part, expected)
    for part, expected in zip(divmod(7, of([2.0, -3])), divmod(7, onp.array([2.0, -3]))):
        same(part, expected)
    for part, expected in zip(np.modf(x), onp.modf(values)):
        same(part, expected)


REPRS = {
    "array([1., 2.])": ([1, 2], "float32"),
    "array([1, 2], dtype=int64)": ([1, 2], "int64"),
    "array([1, 2], dtype=int32)": ([1, 2], "int32"),
    "array([1., 2.], dtype=float64)": ([1, 2], "float64"),
    "array([1.], dtype=float16)": ([1], "float16"),
    "array([ True, False])": ([True, False], "bool"),
    "array(1.5)": (1.5, "float32"),
    "array([], shape=(2, 0))": (onp.zeros((2, 0)), "float32"),
    "array([[1., 2.],\n       [3., 4.]])": ([[1, 2], [3, 4]], "float32"),
    "array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.])": (range(12), "float32"),
    "array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16],\n"
    "      dtype=int32)": (range(17), "int32"),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    assert repr(of(*REPRS[text])) == text


def test_object_protocol():
    x, one, whole = of([[1.0, 2], [3, 4]], "float32"), np.array(2.5), of(3)
    assert str(x) == "[[1. 2.]\n [3. 4.]]"
    assert f"{one:.2f}" == "2.50" and (float(one), int(one), complex(one)) == (2.5, 2, 2.5 + 0j)
    assert [10, 20, 30, 40][whole] == 40 and len(range(whole)) == 3
    assert len(x) == 2 and [float(r.sum()) for r in x] == [3, 7]
    assert 3.0 in x and 9.0 not in x
    assert (x.item(3), x.item(1, 0), one.item()) == (4, 3, 2.5) and x.tolist() == [[1, 2], [3, 4]]
    assert (x.nbytes, x.itemsize, x.T.shape, x.device) == (16, 4, (2, 2), mx.cpu())
    assert (+x).tolist() == x.tolist() and (-x).tolist() == [[-1, -2], [-3, -4]]
    assert abs(-x).tolist() == x.tolist()
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), x.copy()):
        same(made, x.asnumpy())
        assert made is not x
    assert isinstance(x, mx.nd.NDArray)
    assert onp.asarray(x, "float64").dtype == onp.float64
    assert onp.from_dlpack(x).tolist() == x.tolist()
    same(np.from_dlpack(x), x.asnumpy())
    assert x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0)) is not None
    np.from_dlpack(x.__dlpack__(copy=True))[:] = 9
    assert x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
    for order in "CK":
        same(x.copy(order), x.asnumpy())
        same(np.copy(x, order=order), x.asnumpy())
    with pytest.raises(NotImplementedError, match="order"):
        x.copy("F")
    assert of([1], "int32").astype(None).dtype == onp.float32  # as in 1.x
    assert x.astype("int32", copy=False).dtype == onp.int32 and x.astype("float32", copy=False) is x
    for text, f in {
        "unhashable": lambda: hash(x),
        "ambiguous": lambda: bool(x),
        "size 1": lambda: x.item(),
        "size-1": lambda: float(x),
        "integer scalar arrays": lambda: [1][one],
        "unsized": lambda: len(one),
        "0-d": lambda: iter(one),
    }.items():
        with pytest.raises((TypeError, ValueError), match=text):
            f()


def test_absent_methods():
    from mxlite.numpy.ndarray import ABSENT

    x = np.ones(2)
    assert len(ABSENT) == 66
    for name in ABSENT:
        assert hasattr(mx.nd.NDArray, name)
        with pytest.raises(AttributeError, match=name):
            getattr(x, name)


def test_error_texts():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="broadcast"):
        x + np.ones(2)
    with pytest.raises(TypeError, match="inhomogeneous"):
        np.array([[1, 2], [3]])
    with pytest.raises(ValueError, match="out must have shape"):
        np.exp(x, out=np.zeros(2))
    with pytest.raises(TypeError, match="unexpected keyword"):
        np.exp(x, unknown=1)
    for option in ({"casting": "no"}, {"order": "C"}, {"subok": False}, {"where": False}):
        with pytest.raises(NotImplementedError, match=f"exp: {next(iter(option))} must be"):
            np.exp(x, **option)
    with pytest.raises(TypeError):
        np.exp(x, casting="x")
    with pytest.raises(TypeError, match="out must have a dtype"):
        np.exp(x, out=np.zeros((2, 3), dtype="int32"))
    with pytest.raises(TypeError, match="out must have a dtype"):
        np.isnan(x, out=np.zeros((2, 3)))
    assert np.exp(1) == onp.exp(1) and np.add(1, 2) == 3


def test_where_option():
    x, mask = of([1.0, 4, 9]), of([True, False, True])
    out = np.full(3, 7.0, dtype="float64")
    np.sqrt(x, out=out, where=mask)
    same(out, onp.array([1, 7, 3.0]))


def test_random_calls():
    """A few hundred random calls agree with NumPy in values and shapes."""
    random = onp.random.default_rng(7)
    names = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "equal",
             "floor_divide", "remainder", "hypot", "logical_xor"]  # fmt: skip
    for _ in range(400):
        shape = tuple(random.integers(0, 4, random.integers(0, 4)))
        other = tuple(1 if random.random() < 0.3 else n for n in shape)[random.integers(0, 2) :]
        dtypes = [
            str(d) for d in random.choice(["int8", "uint8", "int32", "float32", "float64"], 2)
        ]
        name = str(random.choice(names))
        a, b = (random.integers(1, 5, s).astype(d) for s, d in zip((shape, other), dtypes))
        common = promoted(*dtypes)
        if name in ("divide", "hypot") and onp.dtype(common).kind != "f":
            common = "float32"
        expected = getattr(onp, name)(a.astype(common), b.astype(common))
        result = getattr(np, name)(of(a), of(b))
        same(result, expected)
        axis = None if a.ndim == 0 else int(random.integers(-a.ndim, a.ndim))
        reduction = str(random.choice(["sum", "prod", "any", "all"]))
        total = getattr(onp, reduction)(result.asnumpy(), axis=axis)
        same(getattr(np, reduction)(result, axis=axis), total)


def test_closeness():
    values = onp.array([1.0, inf, nan, 0, -inf])
    other = onp.array([1 + 1e-6, inf, nan, 1e-9, inf])
    for options in ({}, {"equal_nan": True}, {"rtol": 1e-9, "atol": 0.0}):
        same(np.isclose(of(values), of(other), **options), onp.isclose(values, other, **options))
    assert np.allclose(of(values[:2]), of(other[:2])) is True
    assert np.array_equal(of([1, nan]), of([1, nan])) is False
    assert np.array_equal(of([1, nan]), of([1, nan]), equal_nan=True) is True
    assert np.array_equal(of([1]), of([1, 1])) is False and np.array_equiv(of([1]), of([1, 1]))
    assert not np.array_equiv(of([1, 2]), of([1, 2, 3]))


def test_dtype_functions():
    assert np.result_type(of([1], "int8"), 1.5) == np.result_type("int8", "float32") == "float32"
    assert np.result_type(True, of([True])) == "bool" and np.result_type(1, of([True])) == "int64"
    assert np.can_cast(of([1], "int8"), "int16") and not np.can_cast("float32", "int8")
    assert np.isdtype("int8", ("bool", "integral")) and not np.isdtype("bool", "numeric")
    assert np.isdtype("bfloat16", "real floating")
    with pytest.raises(ValueError, match="kind"):
        np.isdtype("int8", "whole")
    assert name_of(np.astype(np.ones(2), "int8")) == "int8"


def test_views():
    x = np.arange(6)
    view = x.reshape_view(2, -1)
    view += 1
    same(x, onp.arange(1, 7, dtype="float32"))
    with pytest.raises(ValueError, match="Cannot reshape"):
        x.reshape_view(4)
