"""Integers that no double holds stay exact; casts of numbers are those of 1.x."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from recording import differentiated, variable

BIG = 2**53 + 1  # the first integer that a double rounds
OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "remainder": lambda a, b: a % b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
}


def longs(values):
    return nd.array(values, dtype="int64")


@pytest.mark.parametrize("number", [BIG, -BIG, 2**62 + 1, -(2**62) - 1, 3, np.int64(BIG)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_with_large_integers(name, number):
    operation = OPERATIONS[name]
    values = np.array([BIG, -BIG, 7, int(number), int(number) - 1, int(number) + 1])
    with np.errstate(over="ignore"):
        expected = operation(values, np.int64(number)), operation(np.int64(number), values)
    array = longs(values)
    for found, wanted in zip((operation(array, number), operation(number, array)), expected):
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found.asnumpy(), wanted.astype("int64"))
    strided = longs(np.stack([values, values], 1))[:, 0]
    np.testing.assert_array_equal(operation(strided, number).asnumpy(), expected[0].astype("int64"))


def test_in_place_functions_and_symbols():
    array = longs([3 * BIG, BIG, BIG - 1])
    assert (array / BIG).asnumpy().tolist() == [3, 1, 0]
    array /= BIG
    assert array.asnumpy().tolist() == [3, 1, 0]
    array = longs([1, 2])
    array += BIG
    assert array.asnumpy().tolist() == [BIG + 1, BIG + 2]
    assert nd.add(array, BIG).asnumpy().tolist() == [2 * BIG + 1, 2 * BIG + 2]
    assert nd.maximum(array, BIG + 2).asnumpy().tolist() == [BIG + 2, BIG + 2]
    assert nd.minimum(BIG + 1, array).asnumpy().tolist() == [BIG + 1, BIG + 1]
    x = mx.sym.Variable("x")
    for symbol in (x + BIG, mx.sym.load_json((x + BIG).tojson())):
        executor = symbol.bind(mx.cpu(), {"x": longs([1, 2])})
        assert executor.forward()[0].asnumpy().tolist() == [BIG + 1, BIG + 2]


def test_hybridized_blocks():
    net = mx.gluon.nn.HybridLambda(
        lambda F, x: F.clip((x - BIG) * 3 + BIG, a_min=BIG, a_max=BIG + 4)
    )
    for _ in range(2):
        assert net(longs([BIG, BIG + 1, BIG + 2])).asnumpy().tolist() == [BIG, BIG + 3, BIG + 4]
        net.hybridize()


def test_creation_and_assignment():
    assert nd.full((2,), BIG, dtype="int64").asnumpy().tolist() == [BIG, BIG]
    array = nd.zeros((2, 2), dtype="int64")
    array[:] = BIG
    array[0, 1] = -BIG
    array[1, :] = np.int64(BIG + 2)
    assert array.asnumpy().tolist() == [[BIG, -BIG], [BIG + 2, BIG + 2]]
    assert nd.arange(BIG, BIG + 3, dtype="int64").asnumpy().tolist() == [BIG, BIG + 1, BIG + 2]
    assert nd.arange(BIG, BIG - 5, -2, dtype="int64").asnumpy().tolist() == [BIG, BIG - 2, BIG - 4]
    assert nd.clip(longs([0, 2 * BIG]), BIG, BIG + 1).asnumpy().tolist() == [BIG, BIG + 1]
    hot = nd.one_hot(nd.array([1]), 2, on_value=BIG, off_value=-BIG, dtype="int64")
    assert hot.asnumpy().tolist() == [[-BIG, BIG]]
    padded = nd.pad(
        longs([[[[1]]]]), mode="constant", pad_width=(0, 0, 0, 0, 0, 0, 0, 1), constant_value=BIG
    )
    assert padded.asnumpy().ravel().tolist() == [1, BIG]
    found = nd.where(longs([1, 0]), longs([BIG, 0]), longs([0, -BIG]))
    assert found.asnumpy().tolist() == [BIG, -BIG]
    sparse = nd.sparse.zeros("csr", (1, 2), dtype="int64")
    sparse[:] = BIG
    assert sparse.asnumpy().tolist() == [[BIG, BIG]]


def test_arange_counts_like_numpy():
    for arguments in [(5,), (1, 5), (5, 0, -2), (0, 1, 0.1), (0.5, 3), (3, 1), (7, 7), (-3, 4, 3)]:
        for dtype in ("float32", "float64", "int32", "int64"):
            if dtype.startswith("int") and any(isinstance(v, float) for v in arguments):
                continue
            found = nd.arange(*arguments, dtype=dtype)
            np.testing.assert_array_equal(found.asnumpy(), np.arange(*arguments).astype(dtype))


def test_numbers_beyond_every_integer():
    assert (nd.array([1.0]) + 2**70).asnumpy()[0] == np.float32(2.0**70)
    with pytest.raises(OverflowError):
        nd.array([1.0]) + 10**400
    with pytest.raises(OverflowError):
        nd.full((1,), 10**400)


def test_bools_count_as_integers():
    mask = nd.array([1, 0], dtype="bool")
    cases = [
        (mask + 1, [2, 1]),
        (1 - mask, [0, 1]),
        (mask * 2.5, [2, 0]),
        (mask == 1, [1, 0]),
        (mask == 2, [0, 0]),
        (mask > 0, [1, 0]),
        (mask + True, [2, 1]),
        (nd.maximum(mask, 3), [3, 3]),
    ]
    for found, expected in cases:
        assert found.dtype == np.int64
        assert found.asnumpy().tolist() == expected


def test_clip_bounds_that_the_dtype_does_not_hold():
    small = nd.array([5, 0, 3], dtype="uint8")
    assert nd.clip(small, -1, 2).asnumpy().tolist() == [2, 0, 2]
    assert nd.clip(small, 1, 300).asnumpy().tolist() == [5, 1, 3]
    assert nd.clip(nd.array([5, -5], dtype="int8"), -1000, 1000).asnumpy().tolist() == [5, -5]
    ends = np.iinfo("int64")
    assert nd.clip(longs([ends.min, ends.max]), -(2.0**70), 2.0**70).asnumpy().tolist() == [
        ends.min,
        ends.max,
    ]
    x = nd.array([0.5, 3.0])
    differentiated(lambda x: nd.clip(x, 0, 1), x)
    assert x.grad.asnumpy().tolist() == [1, 0]


def test_formats_of_arrays():
    loss = nd.array([1.23456])
    assert f"{loss:.3f}" == "1.235" and f"{loss.mean():8.2e}" == "1.23e+00"
    assert f"{nd.array([7], dtype='int32'):04d}" == "0007"
    assert f"{loss}" == str(loss)
    with pytest.raises(TypeError, match="one element"):
        f"{nd.zeros(2):.3f}"


def test_processors_of_one_host_compute_together():
    a, b = nd.ones(2, ctx=mx.cpu(1)), nd.full((2,), 2, ctx=mx.cpu(0))
    assert (a + b).context == mx.cpu(1) and (b + a).context == mx.cpu(0)
    assert nd.concat(b, a, dim=0).asnumpy().tolist() == [2, 2, 1, 1]
    assert nd.sgd_update(a, b, lr=0.5).asnumpy().tolist() == [0, 0]
    out = nd.zeros(2, ctx=mx.cpu(1))
    assert nd.elemwise_add(b, b, out=out) is out and out.asnumpy().tolist() == [4, 4]
    assert out.context == mx.cpu(1)
    a, b = nd.ones(2, ctx=mx.cpu(1)), nd.full((2,), 2, ctx=mx.cpu(0))
    differentiated(lambda a, b: a * b, a, b)
    assert a.grad.asnumpy().tolist() == [2, 2] and b.grad.asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("other", [[1, 2], (1, 2)])
def test_lists_beside_arrays_are_errors(name, other):
    """`==` must not compare identities and say False."""
    with pytest.raises(TypeError, match="mx.nd.array"):
        OPERATIONS[name](nd.array([1, 2]), other)


@pytest.mark.parametrize("value", [2**63, 2**63 + 1, 2**64 - 1])
def test_scalars_of_uint64_are_exact(value: int) -> None:
    expected = np.full(3, value, "uint64")
    assert nd.full((3,), value, dtype="uint64").asnumpy().tolist() == expected.tolist()
    x = nd.array(np.array([1, value, 7], "uint64"), dtype="uint64")
    assert (x == value).asnumpy().tolist() == [0, 1, 0]
    assert nd.maximum(x, value).asnumpy().tolist() == expected.tolist()
    zeros = nd.zeros((3,), dtype="uint64")
    assert (zeros + value).asnumpy().tolist() == expected.tolist()
    assert (zeros + np.uint64(value)).asnumpy().tolist() == expected.tolist()
    assert nd.clip(x, a_min=value, a_max=value).asnumpy().tolist() == expected.tolist()
    assert nd.clip(x, a_min=0, a_max=1e30).asnumpy().tolist() == x.asnumpy().tolist()
    assert nd.clip(nd.array([-5, 7], dtype="int64"), -9, value).asnumpy().tolist() == [-5, 7]


def test_ranges_of_uint64_are_exact() -> None:
    first = 2**64 - 4
    got = nd.arange(first, 2**64 - 1, dtype="uint64").asnumpy()
    assert got.tolist() == [first, first + 1, first + 2]


def test_large_scalars_survive_graphs_and_files(tmp_path: Any) -> None:
    value = 2**64 - 3
    symbol = mx.sym.maximum(mx.sym.var("x"), value)
    symbol = mx.sym.load_json(symbol.tojson())
    x = nd.zeros((2,), dtype="uint64")
    out = symbol.bind(mx.cpu(), {"x": x}).forward()[0]
    assert out.asnumpy().tolist() == [value, value]


def test_integers_of_more_than_64_bits_are_refused_where_sizes_are_expected() -> None:
    with pytest.raises(ValueError, match="parameter repeats must .*, got 18446744073709551615"):
        nd.repeat(nd.ones(2), repeats=2**64 - 1)


class Index:
    """An integer of another library."""

    def __index__(self) -> int:
        return 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(
    "number", [3, 3.0, True, np.int8(3), np.uint64(3), np.float16(3), np.float64(3), Index()]
)
def test_operands_of_all_number_types_count_alike(number: Any, dtype: str) -> None:
    values = np.array([[1, 2, 4], [5, 7, 9]], dtype)
    plain = values.dtype.type(1 if number is True else 3)
    x = nd.array(values, dtype=dtype)
    assert (x + number).asnumpy().tolist() == (values + plain).tolist()
    assert (x * number).asnumpy().tolist() == (values * plain).tolist()
    assert (x > number).asnumpy().tolist() == (values > plain).tolist()
    same = x
    x += number
    assert x is same
    assert x.asnumpy().tolist() == (values + plain).tolist()
    assert x.dtype == values.dtype


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
        with pytest.raises(ValueError, match=f"_full: value must .* that {dtype} can represent"):
            act()
    if abs(value) != 1e30:  # NumPy casts it with a warning
        with pytest.raises(ValueError, match="NaN or infinity"):
            x[:] = [value, 1]
        with pytest.raises(ValueError, match="NaN or infinity"):
            nd.array([value], dtype=dtype)
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
        with pytest.raises(ValueError, match=rf"{name}: scalar must .* data of dtype {dtype}"):
            ARITHMETIC[name](x, value)
        with pytest.raises(ValueError, match=name):
            ARITHMETIC[name](mx.sym.var("x"), value).eval(x=x)
        assert np.isnan(ARITHMETIC["_plus_scalar"](x.astype("float32"), np.nan).asnumpy()).all()
    if dtype != "bool":
        with pytest.raises(ValueError, match="_plus_scalar: scalar must be .*, got nan"):
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
        with pytest.raises(ValueError, match="data of dtype .*nan"):
            act()
    assert nd.clip(x, -float("inf"), 1).asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_powers_of_numbers_without_logarithm_have_no_gradient_in_integers(dtype):
    for base in (0, -1):
        x = variable(nd.array([1, 2, 3], dtype=dtype))
        with mx.autograd.record():
            y = base**x
        y.backward()
        assert x.grad.asnumpy().tolist() == [0, 0, 0]
