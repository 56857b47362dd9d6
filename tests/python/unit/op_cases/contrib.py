"""Operators of nd.contrib that belong to no other family."""

from __future__ import annotations

import numpy as np
from op_table import Case, fails, no_grad, op, rand

CASES: list[Case] = []


def _round(x: np.ndarray) -> np.ndarray:
    """Nearest integer, halves away from zero."""
    return np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0)


CASES += [
    # Their gradient is not the derivative: tests/python/unit/test_contrib.py.
    no_grad("_contrib_round_ste", rand(3, 5) * 4, ref=_round),
    no_grad("_contrib_round_ste", np.array([0.5, -0.5, 1.5, np.nan]), ref=_round),
    no_grad("_contrib_sign_ste", (3, 5), ref=np.sign),
    no_grad("_contrib_sign_ste", np.zeros((0, 2)), ref=np.sign),
    no_grad("_contrib_gradientmultiplier", (2, 3), scalar=2.5, ref=lambda x: x),
    op("_contrib_quadratic", (2, 3), a=2, b=-3, c=0.5, ref=lambda x: 2 * x * x - 3 * x + 0.5),
    op("_contrib_quadratic", (4,), ref=lambda x: 0 * x),
    no_grad("_contrib_quadratic", np.zeros((0, 3)), a=1, ref=lambda x: x),
]

# allclose: (a, b, parameters, expected)
_FAR = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
_NAN = np.array([1.0, np.nan, np.inf])
CASES += [
    no_grad("_contrib_allclose", a, b, ref=np.uint8(want), out_dtype="uint8", **params)
    for a, b, params, want in [
        (_FAR, _FAR, {}, 1),
        (_FAR, _FAR * 1.25, {}, 0),
        (_FAR, _FAR * 1.25, {"rtol": 0.3}, 1),
        (_FAR, _FAR + 0.5, {"atol": 0.5}, 1),
        (_FAR, _FAR + 0.5, {"atol": 0.25}, 0),
        (-_FAR, -_FAR * 1.25, {"rtol": 0.3}, 1),
        (_FAR, np.full((2, 3), np.inf), {}, 0),
        (np.zeros(1500), np.zeros(1500), {}, 1),
        (np.zeros(1500), np.eye(1, 1500, 1499)[0], {}, 0),  # only the last element differs
        (_NAN, _NAN, {}, 1),
        (_NAN, _NAN, {"equal_nan": False}, 0),
        (_NAN, np.array([1.0, 1.0, np.inf]), {}, 0),
        (np.array([1.0]), np.array([np.inf]), {"rtol": 1.0}, 0),
        (np.zeros((0, 2)), np.zeros((0, 2)), {}, 1),
    ]
]
CASES += [
    fails("_contrib_allclose", (2, 3), (3,), match=r"\(2, 3\) and \(3,\)"),
    fails("_contrib_quadratic", (2,), a="x", error=(TypeError, ValueError), match="quadratic.*a"),
]
