"""`Symbol.infer_shape` and `Symbol.infer_type`: what users give and get, by name and in order."""

from __future__ import annotations

import warnings
from typing import Any

from ..base import TypeError_, ValueError_, suggestion
from ..numpy_mode import is_np_shape
from .dtypes import dtype_name, dtype_type
from .infer import Inference, is_known, parse_shape, public_shape

__all__ = ["infer_shape", "infer_type"]


def _given(symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], who: str) -> dict[str, Any]:
    """Return what a user gave by variable name."""
    arguments = symbol.list_arguments()
    if args and kwargs:
        raise ValueError_(f"{who}: can only specify known argument values either by position or "
                          "by keyword")  # fmt: skip
    if args:
        if len(args) > len(arguments):
            raise ValueError_(
                f"{who}: {len(args)} values given, the symbol has {len(arguments)} arguments"
            )
        return {name: value for name, value in zip(arguments, args) if value is not None}
    known = symbol.list_inputs()
    for key in kwargs:
        if key not in known:
            hint = suggestion(key, known) or f"; its arguments are {', '.join(known)}"
            raise TypeError_(f"{who}: the symbol has no argument {key!r}{hint}")
    return {key: value for key, value in kwargs.items() if value is not None}


def _lists(symbol: Any, values: dict[tuple[int, int], Any]) -> tuple[list[Any], ...]:
    variables, written = symbol._variables()
    return (
        [values[id(node), 0] for node in variables if id(node) not in written],
        [values[id(node), index] for node, index in symbol._outputs],
        [values[id(node), 0] for node in variables if id(node) in written],
    )


def infer_shape(
    symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], partial: bool
) -> tuple[Any, Any, Any]:
    """Serve `Symbol.infer_shape` and `Symbol.infer_shape_partial`."""
    given = _given(symbol, args, kwargs, "infer_shape")
    inference = Inference(
        symbol._outputs, {key: parse_shape(value, key) for key, value in given.items()}, {}
    )
    inference.run_types("float32")
    inference.run_shapes()
    lists = _lists(symbol, inference.shapes)
    if partial:
        arg, out, aux = ([public_shape(shape) for shape in part] for part in lists)
        return arg, out, aux
    if all(is_known(shape) for part in lists for shape in part):
        return lists  # type: ignore[return-value]
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


def infer_type(
    symbol: Any, args: tuple[Any, ...], kwargs: dict[str, Any], partial: bool
) -> tuple[Any, Any, Any]:
    """Serve `Symbol.infer_type` and `Symbol.infer_type_partial`."""
    given = _given(symbol, args, kwargs, "infer_type")
    inference = Inference(
        symbol._outputs, {}, {key: dtype_name(value) for key, value in given.items()}
    )
    # What is cast for mixed precision is float32 unless it is said otherwise.
    cast = any(node.op in ("amp_cast", "amp_multicast") for node in inference.nodes)
    inference.run_types("float32" if cast and not partial else None)
    lists = _lists(symbol, inference.types)
    if not partial and any(name is None for part in lists for name in part):
        return None, None, None
    arg, out, aux = (
        [None if name is None else dtype_type(name) for name in part] for part in lists
    )
    return arg, out, aux
