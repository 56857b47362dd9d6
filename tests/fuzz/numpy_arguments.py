"""Calls of functions of mx.np, and how random arrays and axes are drawn for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as onp
from hypothesis import strategies as st

INTEGERS = ("int8", "uint8", "int32", "int64")
WIDE_FLOATS = ("float32", "float64")
FLOATS = ("float16", *WIDE_FLOATS)
NUMBERS = (*INTEGERS, *FLOATS)
DTYPES = ("bool", *NUMBERS)


@dataclass
class Call:
    """One call of a function; ``promoted`` are the arguments that mx.np gives one dtype.

    The call is repeated with ``out=`` if ``out`` is the dtype of the array to write to, or "same"
    for the dtype of the result; ``where`` is then the mask of the call.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    promoted: tuple[int, ...] = ()
    can_trace: bool = True
    has_gradient: bool = False
    looseness: float = 1.0
    is_view: bool = False
    out: str = ""
    where: Any = None


Draw = Callable[[Any], Any]
SHAPES = st.lists(st.sampled_from((0, 1, 1, 2, 2, 3, 3, 4)), max_size=4).map(tuple)
FULL = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def array(draw: Draw, shape: Any = None, dtypes: Any = DTYPES, kind: str = "any") -> Any:
    """Draw an array; ``kind`` limits floats to those of a domain: unit, positive or distinct."""
    shape = draw(SHAPES) if shape is None else shape
    dtype = draw(st.sampled_from(dtypes))
    rng = onp.random.default_rng(draw(st.integers(0, 999)))
    if dtype == "bool":
        return onp.asarray(rng.integers(0, 2, shape), bool)
    if dtype in INTEGERS:
        low = 0 if dtype == "uint8" or kind != "any" else -6
        low += kind == "positive"
        return onp.asarray(rng.integers(low, 2 if kind == "unit" else 7, shape), dtype)
    if kind == "unit":
        return onp.asarray(rng.uniform(-0.9, 0.9, shape), dtype)
    if kind == "positive":
        return onp.asarray(rng.uniform(0.1, 4.0, shape), dtype)
    values = onp.asarray(onp.round(rng.normal(size=shape) * 3, 2))
    if kind == "special" and values.size and draw(st.booleans()):
        values.reshape(-1)[draw(st.integers(0, values.size - 1))] = draw(
            st.sampled_from((onp.nan, onp.inf, -onp.inf, 0.0, -0.0))
        )
    return onp.asarray(values, dtype)


def axis_of(draw: Draw, ndim: int, many: bool = True) -> Any:
    """Draw None, an axis (rarely one that is out of bounds), or a tuple of axes."""
    choices = [st.none(), st.integers(-ndim, ndim)]
    if many and ndim:
        unique = st.lists(st.integers(0, ndim - 1), unique=True, max_size=ndim)
        choices.append(unique.map(tuple))
    return draw(st.one_of(choices))


def broadcast(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draw a shape that broadcasts with another."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in kept)


# Reductions that have `out`, those that also have `where`, and functions without floats.
_WRITING = "all any argmax argmin cumprod cumsum max mean min prod ptp std sum var".split()
_MASKED = "all any mean prod std sum var".split()
_OF_INTEGERS = "bitwise_and bitwise_or bitwise_xor gcd invert lcm".split()


def written(draw: Draw, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Draw the arguments ``out`` and ``where`` of a ufunc or a reduction."""
    is_ufunc = isinstance(getattr(onp, name, None), onp.ufunc)
    if not (is_ufunc or name in _WRITING) or draw(st.booleans()):
        return {}
    found: dict[str, Any] = {"out": "same"}
    if name in _OF_INTEGERS:
        found["out"] = draw(st.sampled_from(("same", "int64")))
    elif not name.startswith("arg"):
        dtypes = ("same", "same", "float32", "float64", "int64")
        found["out"] = draw(st.sampled_from(dtypes if is_ufunc else dtypes[:-1]))
    if (is_ufunc or name in _MASKED) and draw(st.booleans()):
        found["where"] = array(draw, broadcast(draw, shape), ("bool",))
    return found
