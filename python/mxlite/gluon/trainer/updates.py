"""The arrays of a trainer, their joint update, and clipping by the global norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _core
from ... import ndarray as nd
from ...base import NotSupportedError, ValueError_
from ...context import Context
from ...ndarray import NDArray
from ...optimizer import Updater
from ...parallel.zero import StateShards
from ..parameter import Parameter
from ..parameter.bindings import EXPIRED, PROCESS, Binding
from .checks import sparse_parts

__all__ = ["StepArrays", "checked_norm", "has_grad", "update_arrays"]

# Number of arrays in one call, because one larger call takes longer than several of this size.
_GROUP = 200


def checked_norm(max_norm: Any, update_on_kvstore: bool | None) -> float | None:
    """Return the largest norm that gradients may have, or None for no limit."""
    if max_norm is None:
        return None
    if not isinstance(max_norm, (int, float)) or not 0 < max_norm < math.inf:
        raise ValueError_(
            f"Trainer: clip_global_norm must be a number above 0 or None, got {max_norm!r}"
        )
    if update_on_kvstore:
        raise ValueError_(
            "Trainer: clip_global_norm needs all gradients before the first update, but "
            "update_on_kvstore=True updates parameters one by one; use update_on_kvstore=False"
        )
    return float(max_norm)


def has_grad(param: Parameter) -> bool:
    """Return whether a parameter has a gradient."""
    return param.grad_req != "null"


class StepArrays:
    """Lists of the arrays of a trainer's parameters, rebuilt after a parameter got new arrays.

    Attributes
    ----------
    entries : list of (int, Parameter)
        The trained parameters with their indices, in the order in which they are updated.
    dense : bool
        Whether all weights and gradients are dense.
    """

    def __init__(self, order: Sequence[int] | None) -> None:
        self._order = order  # indices in the order of updates, or None for the order of the list
        self.entries: list[tuple[int, Parameter]] = []
        self.dense = True
        self._seen: list[tuple[Parameter, Any, str]] = []  # parameters, arrays, grad_req
        self._binding = EXPIRED  # expires when listed arrays may have changed
        self._arrays: list[NDArray] = []
        self._by_context: list[tuple[list[int], list[NDArray]]] = []

    def update(self, params: Sequence[Parameter]) -> None:
        """Rebuild the lists if the arrays of the parameters have changed."""
        if self._binding.valid and len(params) == len(self._seen):
            for param, (before, data, req) in zip(params, self._seen):
                if param is not before or param._data is not data or param._grad_req != req:
                    break
            else:
                return
        self._seen = []
        self._binding = Binding()
        PROCESS.note(self._binding)
        order = range(len(params)) if self._order is None else self._order
        entries = [(i, params[i]) for i in order if has_grad(params[i])]
        owned = [(index, param._arrays()) for index, param in entries]
        count = max((len(arrays) for _, arrays in owned), default=0)
        self._by_context = [
            (
                [index for index, arrays in owned if len(arrays) > k],
                [arrays[k] for _, arrays in owned if len(arrays) > k],
            )
            for k in range(count)
        ]
        self._arrays = [array for _, arrays in owned for array in arrays]
        self.entries = entries
        self.dense = not any(sparse_parts(param) for _, param in entries)
        self._seen = [(param, param._data, param._grad_req) for param in params]

    def any_stale(self) -> bool:
        """Return whether backward has left out some gradient since the last step."""
        return bool(_core.stale_grads(self._arrays))

    def grads(self) -> list[list[NDArray]]:
        """Return all gradients of each context."""
        return [_core.grads_of(arrays) for _, arrays in self._by_context]

    def chosen(
        self, params: Sequence[tuple[int, Parameter]], only_fresh: bool
    ) -> list[tuple[list[int], list[NDArray]]]:
        """Return indices and arrays of some parameters, for each context."""
        if params is self.entries and not (only_fresh and self.any_stale()):
            return self._by_context
        wanted = {index for index, _ in params}
        lists: list[tuple[list[int], list[NDArray]]] = []
        for indices, arrays in self._by_context:
            kept = [
                i
                for i, index in enumerate(indices)
                if index in wanted and (arrays[i]._fresh_grad or not only_fresh)
            ]
            lists.append(([indices[i] for i in kept], [arrays[i] for i in kept]))
        return lists

    def leave_gradients(self, params: Sequence[tuple[int, Parameter]]) -> None:
        """Mark gradients as used until backward computes new ones."""
        for _, arrays in self.chosen(params, only_fresh=False):
            _core.set_fresh_grads(arrays, False)


def update_arrays(
    updaters: Sequence[Updater],
    lists: Sequence[tuple[list[int], list[NDArray]]],
    params: Sequence[Parameter],
    max_norm: float | None,
    factor: Callable[[Context], NDArray] | None = None,
    shards: StateShards | None = None,
) -> NDArray | None:
    """Update the arrays of each context, in one call if the optimizer supports lists.

    Returns the norm of the first context's gradients, None without ``max_norm``.
    """
    optimizer = updaters[0].optimizer
    first_norm: NDArray | None = None
    for updater, (indices, arrays) in zip(updaters, lists):
        if not indices:
            continue
        grads, context = _core.grads_of(arrays), arrays[0].ctx
        scale = None if factor is None else factor(context)
        if max_norm is not None:
            chosen = [params[i] for i in indices]
            norm = _global_norm(grads, chosen, optimizer.rescale_grad)
            first_norm = norm if first_norm is None else first_norm
            # 0 * norm is NaN if the norm is NaN or infinite; minimum() turns the infinity of 1 / 0
            # into 1.
            clip = nd.minimum(max_norm / norm, 1.0) + 0.0 * norm
            if optimizer._takes_scale():
                scale = clip if scale is None else clip * scale
            elif not math.isfinite(number := float(clip)):
                continue
            elif number != 1.0:
                for grad in grads:
                    grad[:] = grad * number
        if shards is not None:
            owned = [shards.owns(i, params[i]) for i in indices]
            foreign = [i for i, is_own in zip(indices, owned) if not is_own]
            optimizer._set_current_context(context.device_id)
            optimizer._update_count(foreign)
            for i in foreign:  # drop states of parameters that now belong to another rank
                updater.states.pop(i, None)
            own = [k for k, is_own in enumerate(owned) if is_own]
            indices = [indices[k] for k in own]
            grads, arrays = [grads[k] for k in own], [arrays[k] for k in own]
        if indices:
            updater(indices, grads, arrays, scale)
    return first_norm


def _stages_of(params: Sequence[Parameter]) -> int | None:
    """Return the process set of the stages of the parameters' pipeline, None without a pipeline."""
    found = {param._stages for param in params} - {None}
    if found == {-1}:
        raise NotSupportedError(
            "Trainer: clip_global_norm needs the gradients of all stages of the Pipeline, but a "
            "stage has no trained parameters, so it cannot take part; give each stage a "
            "trained parameter"
        )
    if len(found) > 1:
        raise NotSupportedError(
            "Trainer: clip_global_norm was given parameters of several Pipelines, whose norms have "
            "no common process set; use a trainer for each"
        )
    return next(iter(found), None)


def _global_norm(grads: list[NDArray], params: Sequence[Parameter], rescale: float) -> NDArray:
    """Return the 2-norm of all rescaled gradients of all shards and stages, in float32."""
    for grad in grads:
        if grad.stype != "default":
            raise ValueError_(
                f"Trainer: clip_global_norm: gradients must be dense, got storage type {grad.stype}"
            )
    # By process set of the shards; -1 for parameters that are not sharded.
    by_set: dict[int, list[NDArray]] = {}
    for grad, param in zip(grads, params):
        if not param._is_counted:
            continue
        group = None if param._shard is None else param._shard.group()
        by_set.setdefault(-1 if group is None or group.size == 1 else group.number, []).append(grad)
    squares = []
    for number in sorted(by_set):
        some = by_set[number]
        groups = [some[at : at + _GROUP] for at in range(0, len(some), _GROUP)]
        parts = [nd.multi_sum_sq(*group, num_arrays=len(group)) for group in groups]
        total = nd.sum(nd.concat(*parts, dim=0))
        if number >= 0:
            total = nd.contrib.all_reduce(total, process_set=number)
        squares.append(total)
    total = sum(squares[1:], squares[0]) if squares else nd.zeros((1,), ctx=grads[0].ctx)
    stages = _stages_of(params)
    if stages is not None:
        total = nd.contrib.all_reduce(total, process_set=stages)
    return nd.sqrt(total) * abs(rescale)
