"""Attributes of 1.x's Parameter that begin with an underscore and that other libraries use.

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

__all__ = ["ParameterArrays", "PrivateNames"]


class ParameterArrays(list[NDArray]):
    """The arrays of a parameter, one per context, whose entries a program may replace."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace one or more arrays; the next forward of every block reads the new ones.

        Parameters
        ----------
        index : int or slice
        value : NDArray or list of NDArray
            May be a recorded result, which `backward` then differentiates.
        """
        super().__setitem__(index, value)
        PROCESS.expire()  # the list does not know which parameter's it is


class PrivateNames:
    """Base of `Parameter`: what 1.x stores and mxlite finds out from the arrays."""

    _data: list[NDArray] | None
    _deferred_init: tuple[Any, ...]
    _grad_req: str
    # All ranks that have a shard compute the same loss: gradients are not summed over them.
    _same_loss = False
    # The graph of the layer depends on the position of this rank among those that have shards.
    _graph_of_rank = False
    # Process set whose ranks have the other stages of a pipeline; None outside of pipelines, -1 if
    # a stage has no trained parameters.
    _stages: int | None = None
    # Steps of pipelines replace the gradient, although grad_req is 'add' for the micro-batches.
    _cleared_by_pipelines = False

    @property
    def _grad(self) -> list[NDArray] | None:
        """The gradients; None before initialization or without any."""
        if self._data is None or self._grad_req == "null":
            return None
        return [array.grad for array in self._data]

    @_grad.setter
    def _grad(self, grads: Sequence[NDArray] | None) -> None:
        # Code that sets this has most likely replaced _data, too, and may put this parameter into
        # the dictionaries of blocks, which have no binding to it.
        PROCESS.expire()
        if grads is None or self._data is None or self._grad_req == "null":
            return
        if any(array.grad is not grad for array, grad in zip(self._data, grads)):
            autograd.mark_variables(list(self._data), list(grads), self._grad_req)

    @property
    def _ctx_list(self) -> list[Context] | None:
        """The contexts of the arrays, or those that initialization will use."""
        if self._data is not None:
            return [array.ctx for array in self._data]
        return list(self._deferred_init[1]) if self._deferred_init else None

    @_ctx_list.setter
    def _ctx_list(self, contexts: Any) -> None:
        """Change nothing: the value follows from the arrays."""

    @property
    def _ctx_map(self) -> list[list[int | None]] | None:
        """Position of the array of each device, by kind of device (even, odd) and device id."""
        contexts = self._ctx_list
        if contexts is None or self._data is None:
            return None
        positions: list[list[int | None]] = [[], []]
        for index, ctx in enumerate(contexts):
            devices = positions[ctx.device_typeid & 1]
            devices.extend([None] * (ctx.device_id + 1 - len(devices)))
            devices[ctx.device_id] = index
        return positions

    @_ctx_map.setter
    def _ctx_map(self, positions: Any) -> None:
        """Change nothing: the value follows from the arrays."""

    def _check_and_get(self, arr_list: Sequence[NDArray] | None, ctx: Any) -> Any:
        """Return the entry of ``_data`` or ``_grad`` on a context.

        Parameters
        ----------
        arr_list : list of NDArray or None
            In the order of ``_data``; None raises why there is no value.
        ctx : Context, None or the type ``list``
            None is the only context, else the current one; ``list`` returns all.

        Returns
        -------
        NDArray or list of NDArray
            Inside a trace, what stands for ``_data`` there.
        """
        if arr_list is None and self._data is None and STATE.traces:
            array = self._stand_in()
            if array is not None:
                return array
        if arr_list is None or self._data is None:
            raise self._missing()
        if ctx is list:
            return arr_list
        if arr_list is self._data and STATE.traces:
            array = self._stand_in()
            if array is not None:
                return array
        chosen = self._pick(ctx)
        return next(entry for entry, array in zip(arr_list, self._data) if array is chosen)

    def _stand_in(self) -> Any:
        raise NotImplementedError

    def _pick(self, ctx: Context | None) -> NDArray:
        raise NotImplementedError

    def _missing(self) -> Exception:
        raise NotImplementedError
