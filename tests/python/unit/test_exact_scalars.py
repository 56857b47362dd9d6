"""Scalars above the largest int64: no double on the way rounds them."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


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
    with pytest.raises(ValueError, match="parameter repeats: 18446744073709551615 given, an int"):
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


@pytest.mark.parametrize("number", [2**70, -(2**70)])
def test_operands_beyond_64_bits_count_as_floats(number: int) -> None:
    assert (nd.ones(2) * number).asnumpy().tolist() == [float(number)] * 2


def test_operands_that_no_double_holds_are_errors() -> None:
    with pytest.raises(OverflowError, match="operand"):
        nd.ones(2) * 10**400
    with pytest.raises(TypeError):
        nd.ones(2) * 1j
