"""Operators that keep results sparse under one of their names only.

1.x has element-wise operators beside the broadcasting ones (``_maximum`` beside
``broadcast_maximum``) and operators that leave out what is not stored (``_scatter_plus_scalar``
beside ``_plus_scalar``). The engine has one operator for both; callables and symbols keep the name,
and the operator's schema says how the results of an alias are stored.
"""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import NDArray
from ...base import ShapeError
from . import storage
from .dispatch import ALIAS_RULES, Rule
from .rules import csr_keys, csr_of_keys, looked_up
from .storage import dense, parts, stype_of, with_values

__all__: list[str] = []


def _check_shapes(name: str, lhs: NDArray, rhs: NDArray) -> None:
    """Refuse two arrays of different shapes."""
    if lhs.shape != rhs.shape:
        raise ShapeError(f"{name}: lhs has shape {lhs.shape}, rhs has {rhs.shape}")


def _union(name: str) -> Rule:
    """Return the rule of an operator with ``f(0, 0) == 0``: stored is what one operand stores."""
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

    return elementwise


def _stored(name: str) -> Rule:
    """Return the rule of an operator that leaves out what its first input does not store."""
    op = _core.op(name)

    def on_values(data: NDArray, *others: NDArray, **params: Any) -> Any:
        for other in others:
            _check_shapes(name, data, other)
        if others and stype_of(data) != "row_sparse":
            return NotImplemented
        rows = [looked_up(dense(other), data) for other in others]
        return with_values(data, op(parts(data)[0], *rows, **params))

    return on_values


ALIAS_RULES.update(union=_union, stored=_stored)
