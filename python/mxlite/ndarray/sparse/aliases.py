"""Operators that keep results sparse under one of their names only.

1.x has element-wise operators beside the broadcasting ones (``_maximum`` beside
``broadcast_maximum``) and operators that leave out what is not stored (``_scatter_plus_scalar``
beside ``_plus_scalar``). The engine has one operator for both; callables and symbols keep the name.
"""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import NDArray
from ...base import ShapeError
from . import dispatch, storage
from .rules import csr_keys, csr_of_keys, looked_up
from .storage import dense, parts, stype_of, with_values

__all__: list[str] = []


def _check_shapes(name: str, lhs: NDArray, rhs: NDArray) -> None:
    """Refuse two arrays of different shapes."""
    if lhs.shape != rhs.shape:
        raise ShapeError(f"{name}: lhs has shape {lhs.shape}, rhs has {rhs.shape}")


def _united(name: str) -> None:
    """Enter the rule of an operator with ``f(0, 0) == 0``: stored is what one operand stores."""
    op = _core.op(name)

    def elementwise(lhs: NDArray, rhs: NDArray) -> Any:
        _check_shapes(name, lhs, rhs)
        stypes = {stype_of(lhs), stype_of(rhs)}
        if len(stypes) != 1 or lhs.dtype != rhs.dtype:
            return NotImplemented
        concat = _core.op("Concat")
        is_csr = stypes == {"csr"}
        places = [csr_keys(a) if is_csr else parts(a)[1] for a in (lhs, rhs)]
        stored, keys = storage.merged(
            concat(parts(lhs)[0], parts(rhs)[0], dim=0), concat(*places, dim=0)
        )
        if is_csr:
            pattern = csr_of_keys(stored, keys, lhs.shape)
        else:
            pattern = storage.row_sparse(stored, keys, lhs.shape)
        return with_values(pattern, op(looked_up(lhs, pattern), looked_up(rhs, pattern)))

    dispatch.ALIASES[name] = elementwise


for _name in ("_maximum", "_minimum", "_hypot"):
    _united(_name)


def _scatter_elemwise_div(lhs: NDArray, rhs: NDArray) -> Any:
    _check_shapes("_scatter_elemwise_div", lhs, rhs)
    if stype_of(lhs) != "row_sparse":
        return NotImplemented
    return with_values(lhs, parts(lhs)[0] / looked_up(dense(rhs), lhs))


dispatch.ALIASES["_scatter_elemwise_div"] = _scatter_elemwise_div


def _scattered_scalar(name: str) -> None:
    op = _core.op(name)

    def on_values(data: NDArray, scalar: float, is_int: bool) -> Any:
        return with_values(data, op(parts(data)[0], scalar=scalar, is_int=is_int))

    dispatch.ALIASES[name] = on_values


_scattered_scalar("_scatter_plus_scalar")
_scattered_scalar("_scatter_minus_scalar")
