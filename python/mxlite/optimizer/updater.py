"""Updaters: an optimizer together with the states of its weights."""

from __future__ import annotations

from typing import Any

from ..ndarray import NDArray
from .optimizer import Optimizer
from .states import dump_states, load_states

__all__ = ["Updater", "get_updater"]


class Updater:
    """Calls an optimizer and keeps the states.

    Parameters
    ----------
    optimizer : Optimizer
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one weight or several.

        Parameters
        ----------
        index : int or str, or list of them
        grad : NDArray or list of NDArray
        weight : NDArray or list of NDArray
            Changed in place.
        """
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        for entry, gradient, array in zip(index, grad, weight):
            self._update(entry, gradient, array)

    def _update(self, index: Any, grad: NDArray, weight: NDArray) -> None:
        self.optimizer._set_current_context(weight.ctx.device_id)
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        self.optimizer.update_multi_precision(
            index, weight, grad, _on_context(self.states, index, weight)
        )

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states as bytes, which contain no pickle.

        Parameters
        ----------
        dump_optimizer : bool
            Include the optimizer's options and counts.

        Returns
        -------
        bytes
        """
        return dump_states(self.states, self.optimizer if dump_optimizer else None)

    def set_states(self, states: bytes) -> None:
        """Take over states, also those that MXNet 1.x pickled.

        Parameters
        ----------
        states : bytes
        """
        self.states, optimizer = load_states(states, self.optimizer)
        if optimizer is not None:
            self.optimizer = optimizer


def _on_context(states: dict[Any, Any], index: Any, weight: NDArray) -> Any:
    """Move a loaded state to the weight's context, once."""
    moved = _moved(states[index], weight)
    if moved is not states[index]:
        states[index] = moved
    return moved


def _moved(state: Any, weight: NDArray) -> Any:
    if isinstance(state, NDArray):
        return state if state.ctx == weight.ctx else state.as_in_context(weight.ctx)
    if isinstance(state, (tuple, list)):
        parts = [_moved(part, weight) for part in state]
        if all(new is old for new, old in zip(parts, state)):
            return state
        return tuple(parts)
    return state


def get_updater(optimizer: Optimizer) -> Updater:
    """Return an updater for an optimizer.

    Parameters
    ----------
    optimizer : Optimizer

    Returns
    -------
    Updater
    """
    return Updater(optimizer)
