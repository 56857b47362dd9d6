"""Weight updates with row-sparse gradients or weights (1.x: ``lazy_update``)."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import NDArray
from . import storage
from .dispatch import UPDATES
from .storage import dense, stype_of

# Dense update -> the one that touches single rows.
_ROW_UPDATES = {
    "sgd_update": "_rows_sgd_update",
    "sgd_mom_update": "_rows_sgd_mom_update",
    "adam_update": "_rows_adam_update",
    "ftrl_update": "_rows_ftrl_update",
    "_sparse_adagrad_update": "_rows_adagrad_update",
    "_contrib_group_adagrad_update": "_rows_group_adagrad_update",
}


def has_rows_form(name: str) -> bool:
    """Return whether an update changes only the rows of a row-sparse gradient if it may.

    Parameters
    ----------
    name : str
        An update operator.

    Returns
    -------
    bool
    """
    return name in _ROW_UPDATES


def _enter(name: str) -> None:
    op, rows_op = _core.op(name), _core.op(_ROW_UPDATES[name])

    def update(
        weight: NDArray, grad: NDArray, *states: NDArray, out: NDArray | None, **params: Any
    ) -> Any:
        if "csr" in {stype_of(a) for a in (weight, grad, *states)}:
            return NotImplemented
        lazy = bool(params.get("lazy_update", True)) and stype_of(grad) == "row_sparse"
        if name != "_contrib_group_adagrad_update":
            # As in 1.x: states of another storage than the weight are updated in all rows.
            lazy = lazy and all(stype_of(s) == stype_of(weight) for s in states)
        if name == "ftrl_update":
            lazy = lazy and stype_of(weight) == "row_sparse"
        values = [a if type(a) is NDArray else storage.full_rows(a) for a in (weight, *states)]
        target = values[0] if out is weight else None
        if lazy:
            gradient = storage.gradient_rows(grad)
            result = rows_op(values[0], *gradient, *values[1:], out=target, **params)
        else:
            result = op(values[0], dense(grad), *values[1:], out=target, **params)
        if out is weight:
            return weight
        if stype_of(weight) == "row_sparse":
            result = storage.with_values(weight, result)
        if out is None:
            return result
        storage.assign(out, result, f"{name}: out")
        return out

    UPDATES[name] = update


for _name in _ROW_UPDATES:
    _enter(_name)
