"""Shape and type inference: users pass known values by name or in order, and get lists."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from .. import _core
from .._core import Inference, dtype_type
from ..base import TypeError_, ValueError_, shape_tuple, suggestion
from ..ndarray.serialization import dtype_name
from ..numpy_mode import is_np_shape
from .node import Entry

Shape = Optional[tuple[int, ...]]  # -1 for an unknown dimension, None for an unknown shape


def is_known(shape: Shape) -> bool:
    """Return whether every dimension is known."""
    return shape is not None and -1 not in shape


def parse_shape(value: Any, name: str) -> Shape:
    """Return a user's shape with -1 for unknown dimensions, or None if it is unknown.

    A dimension of 0 and an empty shape are unknown; with NumPy shapes, negative dimensions are.
    """
    if isinstance(value, str):
        return _core.parse_shape(value, is_np_shape(), f"infer_shape: {name}")
    if value is None:
        return None
    with_none = value
    if not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError_(
            f"infer_shape: {name}: shape must be a tuple of integers, got {value!r} of type "
            f"{type(value).__name__}"
        )
    if is_np_shape() and isinstance(value, (tuple, list)):
        with_none = [-1 if extent is None else extent for extent in value]
    shape = shape_tuple(with_none, f"infer_shape: {name}")
    if any(extent < -1 for extent in shape):
        raise ValueError_(
            f"infer_shape: {name}: shape must have dimensions of at least 0, or -1 for unknown "
            f"ones, got {shape}"
        )
    if is_np_shape():
        return shape
    return tuple(extent if extent > 0 else -1 for extent in shape) if shape else None


def public_shape(shape: Shape) -> Shape:
    """Return a shape in the user's notation for unknown parts: 0 and (), or -1 and None."""
    if is_np_shape():
        return shape
    return () if shape is None else tuple(0 if d == -1 else d for d in shape)


def uninferred(
    heads: Sequence[Entry], shapes: Mapping[str, Shape], types: Mapping[str, Any]
) -> Inference:
    """Return the inference of a graph before it has run."""
    return Inference(list(heads), dict(shapes), dict(types), is_np_shape())


def infer(
    heads: Sequence[Entry], shapes: Mapping[str, Shape], types: Mapping[str, Any]
) -> Inference:
    """Return shapes and types of all values of a graph; variables without a type are float32."""
    inference = uninferred(heads, shapes, types)
    inference.run_types("float32")
    inference.run_shapes()
    return inference


def _given(symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], who: str) -> dict[str, Any]:
    """Return the given values by variable name, from positional and keyword arguments."""
    arguments = symbol.list_arguments()
    if args and kwargs:
        raise ValueError_(f"{who}: can only specify known argument values either by position or "
                          "by keyword")  # fmt: skip
    if args:
        if len(args) > len(arguments):
            raise ValueError_(
                f"{who}: the number of values must be at most that of the symbol's arguments, "
                f"{len(arguments)}, got {len(args)}"
            )
        return {name: value for name, value in zip(arguments, args) if value is not None}
    known = symbol.list_inputs()
    for key in kwargs:
        if key not in known:
            hint = suggestion(key, known) or f"; its arguments are {', '.join(known)}"
            raise TypeError_(f"{who}: the symbol has no argument {key!r}{hint}")
    return {key: value for key, value in kwargs.items() if value is not None}


def _lists(symbol: Any, value: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return ``value(node, output)`` of arguments, outputs and auxiliary states."""
    variables, written = _core.symbol_variables(symbol._outputs)
    pairs = list(zip(variables, written))
    return (
        [value(node, 0) for node, is_state in pairs if not is_state],
        [value(node, index) for node, index in symbol._outputs],
        [value(node, 0) for node, is_state in pairs if is_state],
    )


def infer_shape(
    symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], partial: bool
) -> tuple[Any, Any, Any]:
    """Implement `Symbol.infer_shape` and `Symbol.infer_shape_partial`."""
    given = _given(symbol, args, kwargs, "infer_shape")
    shapes = {key: parse_shape(value, key) for key, value in given.items()}
    lists = _lists(symbol, infer(symbol._outputs, shapes, {}).shape)
    if partial:
        arg, out, aux = ([public_shape(shape) for shape in part] for part in lists)
        return arg, out, aux
    if all(is_known(shape) for part in lists for shape in part):
        return lists
    unknown = [
        f"{name}: {public_shape(shape)}"
        for name, shape in zip(symbol.list_arguments(), lists[0])
        if not is_known(shape)
    ]
    unit = "-1s" if is_np_shape() else "0s"
    warnings.warn(
        f"Cannot decide shape for the following arguments ({unit} in shape means unknown "
        "dimensions). Consider providing them as input:\n\t" + "\n\t".join(unknown),
        stacklevel=3,
    )
    return None, None, None


def _type_name(value: Any, name: str) -> str:
    try:
        return dtype_name(value)
    except TypeError:
        raise TypeError_(
            f"infer_type: {name} must be a dtype such as 'float32', got {value!r}"
        ) from None


def infer_type(
    symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], partial: bool
) -> tuple[Any, Any, Any]:
    """Implement `Symbol.infer_type` and `Symbol.infer_type_partial`."""
    given = _given(symbol, args, kwargs, "infer_type")
    types = {key: _type_name(value, key) for key, value in given.items()}
    inference = uninferred(symbol._outputs, {}, types)
    # With mixed precision, variables without a given type are float32.
    inference.run_types("float32" if inference.casts_precision and not partial else None)
    lists = _lists(symbol, inference.type)
    if not partial and any(name is None for part in lists for name in part):
        return None, None, None
    arg, out, aux = (
        [None if name is None else dtype_type(name) for name in part] for part in lists
    )
    return arg, out, aux
