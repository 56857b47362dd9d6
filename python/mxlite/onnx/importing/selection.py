"""Converters of NonZero, Compress, Unique and NonMaxSuppression: values decide how many results.

Symbols have no such sizes. In symbols, the results of NonMaxSuppression are padded to the largest
possible number of rows, and their attribute ``valid`` tells which rows ONNX has. Operators that
treat rows separately pass ``valid`` on, up to ScatterND, which ignores padding. Other operators and
outputs of the graph need numbers that only a run has (``staged.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..package import ComputedError
from .pointwise import binary, scalar
from .table import Node, Value, constant, converter

__all__ = ["check_rows", "keep_rows"]

# Operators that treat rows separately, and the inputs that may have padding.
_BY_ROWS = {
    "Cast": (0,), "Gather": (0, 1), "Shape": (0,), "Expand": (1,), "Identity": (0,),
    "ConstantOfShape": (0,), "ScatterND": (1, 2),
}  # fmt: skip


def check_rows(proto: Any, inputs: Sequence[Value | None]) -> None:
    """Raise ComputedError if an operator would read padding."""
    padded = [i for i, v in enumerate(inputs) if v is not None and v.valid is not None]
    if not padded:
        return
    fits = set(padded) <= set(_BY_ROWS.get(proto.op_type, ()))
    axis = next((a.i for a in proto.attribute if a.name == "axis"), 0)
    if proto.op_type == "Gather" and padded == [0]:
        fits = axis > 0  # then the node selects within rows, and padding rows stay
    if proto.op_type == "Gather" and 1 in padded:
        fits = padded == [1] and axis == 0
    if len({id(value.valid) for value in inputs if value is not None and value.valid}) > 1:
        fits = False
    if not fits:
        raise ComputedError(
            f"import_model: {proto.op_type} {proto.name or proto.output[0]!r}: the size of its "
            "input must not depend on values, got the results of NonZero or NonMaxSuppression"
        )


def keep_rows(proto: Any, inputs: Sequence[Value | None], results: Sequence[Value]) -> None:
    """Give the results the ``valid`` of the inputs, which says which rows are padding."""
    valid = next((v.valid for v in inputs if v is not None and v.valid is not None), None)
    if valid is not None and proto.op_type != "ScatterND":
        for value in results:
            value.valid = valid


@converter("NonZero")
def _non_zero(n: Node) -> Value:
    found, _ = n.numbers(0, "the input must be constant or made of shapes")
    return constant(np.asarray(np.atleast_1d(found).nonzero(), "int64"))


@converter("Compress")
def _compress(n: Node) -> Value:
    x, axis = n.x[0], n.get("axis")
    chosen = np.flatnonzero(n.numbers(1, "the condition must be constant")[0])
    if axis is None:
        x, axis = n.mx("Reshape", x, shape=(-1,)), 0
    return n.mx("take", x, constant(chosen), axis=axis % x.ndim)


@converter("Unique")
def _unique(n: Node) -> list[Value]:
    x, axis = n.x[0], n.get("axis")
    array = n.numbers(0, "the input must be constant")[0]
    if axis is None:
        x, array, axis = n.mx("Reshape", x, shape=(-1,)), array.reshape(-1), 0
    _, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    if not n.get("sorted", 1):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    values = n.mx("take", x, constant(first), axis=axis % x.ndim)
    return [values, *map(constant, (first, inverse.reshape(-1), counts))][: n.count]


@converter("NonMaxSuppression")
def _non_max_suppression(n: Node) -> Value:
    boxes, scores = n.x_at(0), n.x_at(1)
    limit, overlap, least = n.array(2), n.array(3), n.array(4)
    if boxes.sizes[0] != boxes.sizes[1] or scores.sizes[0] != scores.sizes[1]:
        raise n.computed("shapes must be fixed, got free dimensions; give input_shapes")
    if not (n.scope.eager or n.scope.pads):
        raise n.computed("the number of boxes must be known, got computed values")
    batch, classes, count = scores.shape
    most = 0 if limit is None else int(limit.reshape(-1)[0])
    kept = min(most, count)
    if kept < 1 or 0 in scores.shape:
        return n.const(np.zeros((0, 3)), "int64")
    is_center = n.get("center_point_box", 0)
    if not is_center:  # either two opposite corners
        first, second = (n.mx("slice_axis", boxes, axis=2, begin=at, end=at + 2) for at in (0, 2))
        boxes = n.mx("Concat", binary(n, "Min", first, second), binary(n, "Max", first, second),
                     dim=2)  # fmt: skip
    shape = (batch, classes, count)
    numbers = np.broadcast_to(np.arange(count, dtype="float32"), shape)[..., None]
    rows = n.mx(
        "Concat",
        n.mx("expand_dims", scores, axis=3),
        n.mx("broadcast_axis", n.mx("expand_dims", boxes, axis=1), axis=1, size=classes),
        constant(np.ascontiguousarray(numbers)),
        dim=3,
    )
    form = "center" if is_center else "corner"
    found = n.mx(
        "_contrib_box_nms", rows, coord_start=1, score_index=0, id_index=-1, topk=-1,
        overlap_thresh=0.0 if overlap is None else float(overlap.reshape(-1)[0]),
        valid_thresh=-np.inf if least is None else float(least.reshape(-1)[0]),
        in_format=form, out_format=form,
    )  # fmt: skip
    best = n.mx("slice_axis", found, axis=2, begin=0, end=kept)
    index = n.mx("slice_axis", best, axis=3, begin=5, end=6)
    grid = np.indices((batch, classes, kept))[:2].transpose(1, 2, 3, 0).astype("int64")
    places = n.mx("Concat", constant(np.ascontiguousarray(grid)), n.cast(index, "int64"), dim=3)
    out = n.mx("Reshape", places, shape=(-1, 3))
    valid = scalar(n, "greater_equal", n.mx("Reshape", index, shape=(-1,)), 0)
    if n.scope.eager:
        return n.mx("take", out, constant(np.flatnonzero(valid.symbol.asnumpy())), axis=0)
    out.valid = valid
    return out
