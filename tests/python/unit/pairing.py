"""``zip`` for comparisons: a missing output fails instead of being left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mxlite as mx
import numpy as np


def pairs(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return ``zip`` of the columns, which must be equally long."""
    lists = [list(column) for column in columns]
    lengths = [len(column) for column in lists]
    assert len(set(lengths)) <= 1, f"{lengths} elements are compared"
    return list(zip(*lists))


def _host(array: Any) -> np.ndarray[Any, Any]:
    return array.asnumpy() if isinstance(array, mx.nd.NDArray) else array


def assert_all_close(found: Iterable[Any], expected: Iterable[Any], **tolerance: float) -> None:
    """Compare the arrays of two equally long lists."""
    for one, other in pairs(found, expected):
        np.testing.assert_allclose(_host(one), _host(other), **tolerance)


def assert_all_equal(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Compare the arrays of two equally long lists without a tolerance."""
    for one, other in pairs(found, expected):
        np.testing.assert_array_equal(_host(one), _host(other))
