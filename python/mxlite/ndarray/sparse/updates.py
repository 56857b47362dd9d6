"""Weight updates with row-sparse gradients or weights (1.x: ``lazy_update``)."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import NDArray
from . import storage
from .storage import dense, stype_of, traits


def has_rows_form(name: str) -> bool:
    """Return whether an update operator can update only the rows in a row-sparse gradient."""
    return traits(name)["row_update"] is not None


def update_rows(
    name: str, arrays: list[NDArray], params: dict[str, Any], out: NDArray | None
) -> Any:
    """Run an update that supports row-sparse arrays."""
    rows = traits(name)["row_update"]
    weight, grad, *states = arrays
    if "csr" in {stype_of(a) for a in arrays}:
        return NotImplemented
    lazy = bool(params.get("lazy_update", True)) and stype_of(grad) == "row_sparse"
    if not rows["any_states"]:
        # As in 1.x, all rows are updated if the states have another storage type than the weight.
        lazy = lazy and all(stype_of(s) == stype_of(weight) for s in states)
    if rows["sparse_weight"]:
        lazy = lazy and stype_of(weight) == "row_sparse"
    values = [storage.full_rows(a) if storage.is_sparse(a) else a for a in (weight, *states)]
    target = values[0] if out is weight else None
    if lazy:
        gradient = storage.gradient_rows(grad)
        update = _core.op(rows["op"])
        result = update(values[0], *gradient, *values[1:], out=target, **params)
    else:
        result = _core.op(name)(values[0], dense(grad), *values[1:], out=target, **params)
    if out is weight:
        return weight
    if stype_of(weight) == "row_sparse":
        result = storage.with_values(weight, result)
    if out is None:
        return result
    storage.assign(out, result, f"{name}: out")
    return out
