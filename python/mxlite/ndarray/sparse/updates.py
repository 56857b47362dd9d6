"""Weight updates with row-sparse gradients or weights (1.x: ``lazy_update``)."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import NDArray
from . import storage
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
_arguments: dict[str, tuple[list[str], list[str]]] = {}


def _bound(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[NDArray], Any]:
    """Sort the arguments into arrays, by the operator's inputs, and parameters."""
    if not _arguments:
        for op in _core.list_ops():
            _arguments[op["name"]] = (op["inputs"], [p["name"] for p in op["params"]])
    inputs, params = _arguments[name]
    bound = dict(zip([*inputs, *params], args))
    bound.update(kwargs)
    return [bound.pop(label) for label in inputs if label in bound], bound


def update(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """Run an update operator of which an array is sparse; NotImplemented: not one of ours."""
    name = op.__name__
    if name not in _ROW_UPDATES:
        return NotImplemented
    (weight, grad, *states), params = _bound(name, args, kwargs)
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
        result = _core.op(_ROW_UPDATES[name])(
            values[0], *gradient, *values[1:], out=target, **params
        )
    else:
        result = op(values[0], dense(grad), *values[1:], out=target, **params)
    if out is weight:
        return weight
    if stype_of(weight) == "row_sparse":
        result = storage.with_values(weight, result)
    if out is None:
        return result
    storage.assign(out, result)
    return out
