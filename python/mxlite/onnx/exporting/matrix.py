"""Converters of matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .table import Call, converter

__all__: list[str] = []


def _turned(c: Call, value: str, ndim: int) -> str:
    """Return a value with its last two axes exchanged."""
    return c.op("Transpose", value, perm=[*range(ndim - 2), ndim - 1, ndim - 2])


@converter("batch_dot", "_matmul", "linalg_gemm2", "linalg_gemm")
def _batch_dot(c: Call) -> str:
    if getattr(c.p, "axis", -2) != -2:
        raise c.refuse(f"axis must be -2, got {c.p.axis}")
    flags = (getattr(c.p, "transpose_a", False), getattr(c.p, "transpose_b", False))
    a, b = (
        _turned(c, value, len(shape)) if flag else value
        for value, shape, flag in zip(c.x, c.shapes, flags)
    )
    out = c.op("MatMul", a, b)
    if getattr(c.p, "alpha", 1) != 1:
        out = c.op("Mul", out, c.const(c.p.alpha))
    if c.node.call.name == "linalg_gemm":
        out = c.op("Add", out, c.op("Mul", c.x[2], c.const(c.p.beta)))
    return out


@converter("linalg_syrk")
def _syrk(c: Call) -> str:
    other = _turned(c, c.x[0], c.ndim)
    pair = (other, c.x[0]) if c.p.transpose else (c.x[0], other)
    return c.op("Mul", c.op("MatMul", *pair), c.const(c.p.alpha))


@converter("linalg_det")
def _det(c: Call) -> str:
    return c.g.reshape(c.op("Det", c.x[0]), c.out_shapes[0])


@converter("_np_dot")
def _numpy_dot(c: Call) -> str:
    b, right = c.x[1], c.shapes[1]
    if len(right) > 2:  # move the summed axis to the front, where dot has it
        last = len(right) - 1
        b = c.op("Transpose", b, perm=[last - 1, *range(last - 1), last])
        right = (right[-2], *right[:-2], right[-1])
    return _dot_with(c, b, right)


@converter("dot")
def _dot(c: Call) -> str:
    return _dot_with(c, c.x[1], c.shapes[1])


def _dot_with(c: Call, b: str, right: Sequence[Any]) -> str:
    """Return the product with a right operand, whose first axis is summed."""
    a, left = c.x[0], c.shapes[0]
    if c.p.transpose_a and len(left) > 1:
        a = c.op("Transpose", a, perm=[*range(1, len(left)), 0])
        left = (*left[1:], left[0])
    if c.p.transpose_b and len(right) > 1:
        b = c.op("Transpose", b, perm=[len(right) - 1, *range(len(right) - 1)])
        right = (right[-1], *right[:-1])
    if len(right) > 2:
        b = c.g.reshape(b, (right[0], int(np.prod([_fixed(c, d) for d in right[1:]]))))
    out = c.op("MatMul", a, b)
    if len(right) > 2 or c.out_shapes[0] == (1,):
        return c.g.reshape(out, c.out_shapes[0])
    return out


def _fixed(c: Call, extent: object) -> int:
    if not isinstance(extent, int):
        raise c.refuse("the axes of the second operand must be fixed, got a free dimension")
    return extent


@converter("_contrib_div_sqrt_dim")
def _div_sqrt_dim(c: Call) -> str:
    return c.op("Div", c.x[0], c.const(math.sqrt(c.extent(0, -1))))


def _heads(c: Call, index: int, parts: int, part: int) -> str:
    """Return one part of interleaved projections (T, N, heads * parts * D) as (N * heads, T, D)."""
    heads = c.p.heads
    width = c.extent(index, 2) // (heads * parts)
    split = c.op("Reshape", c.x[index], c.g.const([0, 0, heads, parts, width]))
    one = c.op("Gather", split, c.g.const(part), axis=3)
    moved = c.op("Transpose", one, perm=[1, 2, 0, 3])
    time = c.shapes[index][0]
    return (
        c.g.reshape(moved, (-1, time, width))
        if isinstance(time, int)
        else c.op(
            "Reshape", moved, c.op("Concat", c.g.const([-1]), c.g.dims((time, width)), axis=0)
        )
    )


def _scores(c: Call, queries: str, keys: str, width: int) -> str:
    scaled = c.op("Div", queries, c.const(math.sqrt(width)))
    return c.op("MatMul", scaled, _turned(c, keys, 3))


@converter("_contrib_interleaved_matmul_selfatt_qk")
def _selfatt_qk(c: Call) -> str:
    width = c.extent(0, 2) // (3 * c.p.heads)
    return _scores(c, _heads(c, 0, 3, 0), _heads(c, 0, 3, 1), width)


@converter("_contrib_interleaved_matmul_encdec_qk")
def _encdec_qk(c: Call) -> str:
    width = c.extent(0, 2) // c.p.heads
    return _scores(c, _heads(c, 0, 1, 0), _heads(c, 1, 2, 0), width)


def _joined(c: Call, out: str) -> str:
    """Return (N * heads, T, D) as (T, N, heads * D)."""
    time, batch, width = c.out_shapes[0]
    if not isinstance(width, int):
        raise c.refuse("the width must be fixed, got a free dimension")
    heads = c.p.heads
    if isinstance(time, int):
        split = c.op("Reshape", out, c.g.const([-1, heads, time, width // heads]))
    else:
        split = c.g.reshape(out, (batch, heads, time, width // heads))
    moved = c.op("Transpose", split, perm=[2, 0, 1, 3])
    return c.op("Reshape", moved, c.g.const([0, 0, width]))


@converter("_contrib_interleaved_matmul_selfatt_valatt")
def _selfatt_valatt(c: Call) -> str:
    return _joined(c, c.op("MatMul", c.x[1], _heads(c, 0, 3, 2)))


@converter("_contrib_interleaved_matmul_encdec_valatt")
def _encdec_valatt(c: Call) -> str:
    return _joined(c, c.op("MatMul", c.x[1], _heads(c, 0, 2, 1)))


def _for_each_query_head(c: Call, index: int) -> str:
    """Return keys or values with one head for each head of the queries."""
    heads, own = c.extent(0, 1), c.extent(index, 1)
    if own == heads:
        return c.x[index]
    grown = c.op("Tile", c.g.unsqueeze(c.x[index], 2), c.g.const([1, 1, heads // own, 1, 1]))
    batch, _, length, width = c.shapes[index]
    return c.g.reshape(grown, (batch, heads, length, width))


@converter("_contrib_dot_product_attention")
def _attention(c: Call) -> str:
    key, value = (_for_each_query_head(c, index) for index in (1, 2))
    scale = 1 / math.sqrt(c.extent(0, 3)) if c.p.scale is None else c.p.scale
    scores = c.op("MatMul", c.op("Mul", c.x[0], c.const(scale)), _turned(c, key, 4))
    if c.p.use_mask:
        scores = c.op("Add", scores, c.x[3])
    hidden = -np.inf if c.dtype == "float16" else -1e30
    if c.p.use_length:
        keys = c.g.const(np.arange(c.extent(1, 2)))
        lengths = c.g.unsqueeze(c.cast(len(c.x) - 1, "int64"), 1, 2, 3)
        scores = c.op("Where", c.op("Less", keys, lengths), scores, c.const(hidden))
    if c.p.causal:
        queries, count = c.extent(0, 2), c.extent(1, 2)
        later = np.tri(queries, count, count - queries) == 0
        scores = c.op("Where", c.g.const(later, "bool"), c.const(hidden), scores)
    weights = c.op("Softmax", scores, axis=-1)
    if c.p.use_mask or c.p.use_length or c.p.causal:  # a query without keys has the result 0
        best = c.g.reduce("ReduceMax", scores, [3], True)
        empty = c.op("LessOrEqual", best, c.const(hidden / 2))
        weights = c.op("Where", empty, c.const(0), weights)
    return c.op("MatMul", weights, value)
