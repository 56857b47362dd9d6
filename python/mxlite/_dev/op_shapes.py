"""Shapes of operators' inputs and outputs, for the reference (``docs/ops.md``).

An operator says them where it is declared; element-wise ones, random ones and updates need not.
"""

from __future__ import annotations

from typing import Any

from .. import _core, ndarray

_UPDATE = "all of one shape -> shape of weight; states are changed in place"
_UPDATES = "weights, gradients and states of one weight behind one another -> one array per weight"
_DRAWN = "no inputs -> `shape`"


def _runs_to(op: dict[str, Any], *inputs: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that an operator makes of ones, None if it refuses or makes several."""
    try:
        result = _core.op(op["name"])(*(ndarray.ones(shape) for shape in inputs))
        return None if isinstance(result, list) else tuple(result.shape)
    except Exception:  # every error means: not element-wise
        return None


def shapes(op: dict[str, Any]) -> str:
    """Return "inputs -> output" for an operator of ``_core.list_ops()``."""
    name, count = op["name"], len(op["inputs"])
    if op["shapes"]:
        return str(op["shapes"])
    if name.startswith("random_"):
        return _DRAWN
    if name.startswith(("multi_", "preloaded_multi_")):
        return _UPDATES
    if "update" in name:
        return _UPDATE
    if count == 1 and _runs_to(op, (2, 3, 4)) == (2, 3, 4):
        return "any shape -> the same shape"
    if count == 2 and _runs_to(op, (2, 1, 4), (1, 3, 4)) == (2, 3, 4):
        return "shapes that broadcast as in NumPy -> the broadcast shape"
    if count > 1 and _runs_to(op, *[(2, 3, 4)] * count) == (2, 3, 4):
        return "equal shapes -> the same shape"
    raise ValueError(f"{name}: neither element-wise nor declared with OpBuilder::shapes")
