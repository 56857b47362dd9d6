"""Updates of a trainer's arrays: one call for each context, and clipping by the global norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from ..optimizer import Updater

__all__ = ["checked_norm", "leave_gradients", "update_arrays"]

# Operators take only so many inputs well.
_GROUP = 200


def checked_norm(max_norm: Any, update_on_kvstore: bool | None) -> float | None:
    """Return the largest norm that gradients may have; None: any.

    Raises
    ------
    ValueError
        Unless it is above 0, and where the store would update single parameters.
    """
    if max_norm is None:
        return None
    if not isinstance(max_norm, (int, float)) or not 0 < max_norm < math.inf:
        raise ValueError_(
            f"Trainer: clip_global_norm is {max_norm!r}, expected a number above 0 or None"
        )
    if update_on_kvstore:
        raise ValueError_(
            "Trainer: clip_global_norm needs all gradients before the first update, but "
            "update_on_kvstore=True updates parameters one by one; use update_on_kvstore=False"
        )
    return float(max_norm)


def leave_gradients(params: Sequence[tuple[int, Any]]) -> None:
    """Count gradients as used, until backward computes new ones.

    Parameters
    ----------
    params : list of (int, Parameter)
    """
    for _, param in params:
        for array in param._arrays():
            array._set_fresh_grad(False)


def update_arrays(
    updaters: Sequence[Updater],
    params: Sequence[tuple[int, Any]],
    only_fresh: bool,
    max_norm: float | None,
) -> None:
    """Update the arrays of each context; an optimizer that can gets all of them at once.

    Parameters
    ----------
    updaters : list of Updater
        One for each context.
    params : list of (int, Parameter)
        With their indices.
    only_fresh : bool
        Leave arrays alone whose gradient backward has not computed since the last step.
    max_norm : float, optional
        Scale the gradients of a context, which `rescale_grad` has multiplied, to this 2-norm if
        they have a larger one.
    """
    optimizer = updaters[0].optimizer
    together = optimizer._takes_lists() or max_norm is not None
    chosen: list[tuple[list[int], list[NDArray], list[NDArray]]]
    chosen = [([], [], []) for _ in updaters]
    for index, param in params:
        for k, (array, grad) in enumerate(zip(param._arrays(), param.list_grad())):
            if only_fresh and not array._fresh_grad:
                continue
            if together:
                indices, grads, arrays = chosen[k]
                indices.append(index)
                grads.append(grad)
                arrays.append(array)
            else:
                updaters[k](index, grad, array)
    for updater, (indices, grads, arrays) in zip(updaters, chosen):
        if not indices:
            continue
        if max_norm is None:
            updater(indices, grads, arrays)
            continue
        factor = _clip_factor(grads, optimizer.rescale_grad, max_norm)
        if optimizer._takes_scale():
            updater(indices, grads, arrays, scale=factor)
        elif math.isfinite(number := float(factor.asscalar())):
            for grad in grads if number != 1.0 else ():
                grad[:] = grad * number
            updater(indices, grads, arrays)


def _clip_factor(grads: list[NDArray], rescale: float, max_norm: float) -> NDArray:
    """Return the factor on gradients as one float32 number; NaN if their norm is not finite."""
    for grad in grads:
        if grad.stype != "default":
            raise ValueError_(
                f"Trainer: clip_global_norm: a gradient of storage type {grad.stype} was given, "
                "dense gradients expected"
            )
    groups = [grads[at : at + _GROUP] for at in range(0, len(grads), _GROUP)]
    squares = [nd.multi_sum_sq(*group, num_arrays=len(group)) for group in groups]
    norm = nd.sqrt(nd.sum(nd.concat(*squares, dim=0))) * abs(rescale)
    # 0 * norm is NaN where the norm is NaN or infinite; a division by 0 gives infinity, cut to 1.
    return nd.minimum(max_norm / norm, 1.0) + 0.0 * norm
