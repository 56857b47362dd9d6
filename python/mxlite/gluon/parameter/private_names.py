"""Private attributes of 1.x's Parameter that other libraries use.

GluonNLP's ``WeightDropParameter`` copies them from another parameter and builds its own ``data``
from ``_check_and_get``. MXFusion, xfer and other Bayesian networks assign sampled weights to
entries of ``_data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import autograd
from ...context import Context
from ...ndarray import NDArray
from .bindings import PROCESS
from .tracing import STATE

__all__ = ["ParameterArrays", "check_and_get", "contexts", "grads", "positions"]


class ParameterArrays(list[NDArray]):
    """The arrays of a parameter, one per context, whose entries a program may replace."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace one or more arrays; the next forward of every block reads the new ones."""
        super().__setitem__(index, value)
        PROCESS.expire()  # the list has no reference to its parameter, so all bindings expire


def _grads(param: Any) -> list[NDArray] | None:
    if param._data is None or param._grad_req == "null":
        return None
    return [array.grad for array in param._data]


def _set_grads(param: Any, grads: Sequence[NDArray] | None) -> None:
    # The caller has probably replaced _data as well, and may add this parameter to blocks without a
    # binding to it, so all bindings expire.
    PROCESS.expire()
    if grads is None or param._data is None or param._grad_req == "null":
        return
    if any(array.grad is not grad for array, grad in zip(param._data, grads)):
        autograd.mark_variables(list(param._data), list(grads), param._grad_req)


def _contexts(param: Any) -> list[Context] | None:
    if param._data is not None:
        return [array.ctx for array in param._data]
    return list(param._deferred_init[1]) if param._deferred_init else None


def _positions(param: Any) -> list[list[int | None]] | None:
    contexts = _contexts(param)
    if contexts is None or param._data is None:
        return None
    positions: list[list[int | None]] = [[], []]
    for index, ctx in enumerate(contexts):
        devices = positions[ctx.device_typeid & 1]
        devices.extend([None] * (ctx.device_id + 1 - len(devices)))
        devices[ctx.device_id] = index
    return positions


def _keep(param: Any, value: Any) -> None:
    """Ignore the new value, because it is derived from the arrays."""


grads = property(_grads, _set_grads, doc="The gradients; None before initialization or without.")
contexts = property(_contexts, _keep, doc="Contexts of the arrays, or those of initialization.")
positions = property(
    _positions, _keep, doc="Position of each device's array, by kind (even, odd) and device id."
)


def check_and_get(param: Any, arr_list: Sequence[NDArray] | None, ctx: Any) -> Any:
    """Return the entry of ``_data`` or ``_grad`` on a context."""
    if STATE.traces and arr_list is param._data and (arr_list is None or ctx is not list):
        array = param._stand_in()
        if array is not None:
            return array
    if arr_list is None or param._data is None:
        raise param._missing()
    if ctx is list:
        return arr_list
    chosen = param._pick(ctx)
    return next(entry for entry, array in zip(arr_list, param._data) if array is chosen)
