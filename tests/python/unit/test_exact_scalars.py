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
