"""Rows of fused dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_table import Case, fails, ints, op, rand

_NAME = "_contrib_dot_product_attention"


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None = None,
    length: np.ndarray | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the output and the weights; rows of which nothing is attended to are 0."""
    _, heads, q_length, d = query.shape
    key_heads, k_length = key.shape[1:3]
    key, value = (np.repeat(a, heads // key_heads, 1) for a in (key, value))
    scores = query @ key.transpose(0, 1, 3, 2) * (d**-0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + mask
    inside = np.ones(scores.shape, bool)
    if length is not None:
        inside &= np.arange(k_length) < np.reshape(length, (-1, 1, 1, 1))
    if causal:
        inside &= np.arange(k_length) <= np.arange(q_length)[:, None] + k_length - q_length
    scores = np.where(inside & (scores > -1e30), scores, -np.inf)
    center = np.maximum(scores.max(-1, keepdims=True, initial=-1e30), -1e30)
    e = np.exp(scores - center)
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return weights @ value, weights


def _row(
    shape: tuple[int, ...],
    mask: np.ndarray | None = None,
    length: np.ndarray | None = None,
    **params: Any,
) -> Case:
    """Return a row for (batch, heads, key_heads, q_length, k_length, head_size, value_size)."""
    batch, heads, key_heads, q_length, k_length, d, dv = shape
    inputs = [
        rand(batch, heads, q_length, d),
        rand(batch, key_heads, k_length, d),
        rand(batch, key_heads, k_length, dv),
    ]
    flags: dict[str, Any] = {}
    if mask is not None:
        inputs.append(mask)
        flags["use_mask"] = True
    if length is not None:
        inputs.append(length)
        flags["use_length"] = True

    def ref(q: np.ndarray, k: np.ndarray, v: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        left = list(rest)
        added = left.pop(0) if mask is not None else None
        return attention(q, k, v, added, left[0] if left else None, **params)[0]

    grad = [0, 1, 2] if batch * q_length else []  # an empty output has none
    if mask is not None and np.isfinite(mask).all():
        grad.append(3)
    # Outputs are averages of values; gradients add up over the queries of a group of heads.
    return op(
        _NAME,
        *inputs,
        ref=ref,
        grad=grad,
        terms=max(d, k_length, q_length * heads // key_heads),
        rounded=np.abs(inputs[2]).max(initial=0.0),  # where weights are bfloat16 factors of values
        **flags,
        **params,
    )


_HOLES = np.where(np.arange(15).reshape(3, 5) % 4 == 1, -np.inf, rand(3, 5))

_EQUAL = (2, 3, 4, 5)


CASES = [
    _row((2, 3, 3, 4, 5, 6, 6)),
    _row((2, 4, 2, 3, 5, 4, 7), causal=True),
    _row((1, 2, 1, 5, 3, 4, 2), causal=True),
    _row((2, 2, 2, 3, 5, 4, 4), scale=0.3),
    _row((2, 2, 2, 3, 5, 4, 4), mask=rand(2, 1, 3, 5)),
    _row((2, 2, 2, 3, 5, 4, 4), mask=rand(5), causal=True),
    _row((2, 2, 2, 3, 5, 4, 4), mask=_HOLES),
    _row((3, 2, 1, 4, 6, 3, 4), length=ints([0, 6, 4])),
    _row((3, 2, 2, 4, 6, 3, 4), length=ints([2, 9, -1], "int64"), causal=True),
    _row((2, 2, 1, 3, 5, 4, 4), mask=rand(2, 2, 1, 5), length=ints([5, 1]), causal=True),
    _row((1, 2, 2, 0, 5, 4, 4)),
    _row((0, 2, 2, 3, 5, 4, 4), length=ints(np.zeros(0))),
    *(
        fails(_NAME, *inputs, match=match)
        for match, *inputs in [
            (r"query must have 4 dim.*, got shape \(2, 3, 4\)", (2, 3, 4), _EQUAL, _EQUAL),
            ("a divisor of the 3 heads of query, got 2 in", _EQUAL, *[(2, 2, 4, 5)] * 2),
            (r"key must have heads of size 5 .* \(2, 3, 4, 6\)", _EQUAL, (2, 3, 4, 6), _EQUAL),
            ("value must have 3 heads of length 4", _EQUAL, _EQUAL, (2, 3, 6, 5)),
        ]
    ),
    *(
        fails(_NAME, *[_EQUAL] * 3, given, match=match, error=error, **{flag: True})
        for flag, given, error, match in [
            (
                "use_mask",
                (2, 2, 4, 4),
                ValueError,
                r"mask .* broadcasts to .*, got \(2, 2, 4, 4\)",
            ),
            ("use_length", (2,), TypeError, "length must have dtype int32 or int64, got"),
            ("use_length", ints([1, 2, 3]), ValueError, r"length must have shape \(2,\) .*\(3,\)"),
        ]
    ),
]
