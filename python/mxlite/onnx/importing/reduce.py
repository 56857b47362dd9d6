"""Converters of reductions and of searching."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .table import Node, Sizes, Value, converter, rows

__all__: list[str] = []

_REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceProd": "prod", "ReduceLogSumExp": "logsumexp", "ReduceL1": "norm", "ReduceL2": "norm",
    "ReduceSumSquare": "sum", "ReduceLogSum": "sum",
}  # fmt: skip

# Results of reductions over no elements.
_OF_NOTHING = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}


def _reduced(sizes: Sizes, axes: list[int] | None, keep: bool) -> Sizes:
    ndim = len(sizes[0])
    gone = set(range(ndim)) if axes is None else {a % ndim for a in axes}
    first, second = (
        tuple(1 if i in gone else e for i, e in enumerate(s) if keep or i not in gone)
        for s in sizes
    )
    return first, second


def _reduction(op: str, n: Node) -> Value:
    x, axes, keep = n.x[0], n.ints(1, "axes"), bool(n.get("keepdims", 1))
    if not axes:
        if n.get("noop_with_empty_axes", 0):
            return x
        axes = None
    if x.ndim == 0:
        return x
    sizes = _reduced(x.sizes, axes, keep)
    if 0 in x.shape and n.op in _OF_NOTHING:
        value = _OF_NOTHING[n.op]
        if x.dtype.startswith(("int", "uint")):
            limits = np.iinfo(x.dtype)
            value = limits.min if value < 0 else limits.max
        return n.const(np.full(sizes[0], value), x.dtype)
    if n.op == "ReduceSumSquare":
        x = n.mx("square", x)
    params: dict[str, Any] = {"axis": None if axes is None else tuple(axes), "keepdims": keep}
    if op == "norm":
        params["ord"] = 1 if n.op == "ReduceL1" else 2
    out = n.mx(op, x, sizes=sizes, **params)
    if n.op == "ReduceLogSum":
        out = n.mx("log", out, sizes=out.sizes)
    return n.cast(out, x.dtype)


rows((name, partial(_reduction, op)) for name, op in _REDUCTIONS.items())


def _arg(op: str, n: Node) -> Value:
    x, axis, keep = n.x[0], n.get("axis", 0), bool(n.get("keepdims", 1))
    if n.get("select_last_index", 0):
        raise n.refuse("select_last_index must be 0, got 1")
    sizes = _reduced(x.sizes, [axis], keep)
    return n.cast(n.mx(op, x, sizes=sizes, axis=axis % x.ndim, keepdims=keep), "int64")


rows([("ArgMax", partial(_arg, "argmax")), ("ArgMin", partial(_arg, "argmin"))])


@converter("TopK")
def _topk(n: Node) -> list[Value]:
    x, axis = n.x[0], n.get("axis", -1)
    count = (n.ints(1, "k") or [1])[0]
    if count == 0:  # for topk, 0 means all
        axis %= x.ndim
        none = n.mx("slice_axis", x, axis=axis, begin=0, end=0)
        return [none, n.cast(none, "int64")]
    values, places = n.mx_all(
        "topk", x, axis=axis, k=count, ret_typ="both", is_ascend=not n.get("largest", 1),
        dtype="int64",
    )  # fmt: skip
    return [values, places]
