"""Updaters: an optimizer together with the states of its weights."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

from ..context import Context
from ..ndarray import NDArray
from .optimizer import Optimizer
from .states import dump_states, load_states

__all__ = ["Attempt", "Updater", "get_updater"]

_NO_STATE = object()


class _Batch(NamedTuple):
    """Weights of one context that were updated together, and their states."""

    indices: list[Any]
    weights: list[NDArray]
    states: list[Any]
    context: Context

    def fits(self, indices: Sequence[Any], weights: Sequence[NDArray], states: list[Any]) -> bool:
        """Return whether weights, states and indices are the same as in this batch."""
        return (
            len(weights) == len(self.weights)
            and all(map(operator.is_, weights, self.weights))
            and all(map(operator.is_, states, self.states))
            and list(indices) == self.indices
        )


class Updater:
    """Calls an optimizer and stores the states."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        # By index: the last weight, its state, and the context of both.
        self._places: dict[Any, tuple[NDArray, Any, Context]] = {}
        self._batches: dict[Any, _Batch] = {}  # last batches, by their first index

    def __call__(self, index: Any, grad: Any, weight: Any, scale: NDArray | None = None) -> None:
        """Update one weight or several.

        Parameters
        ----------
        index : int or str, or list of them
        grad : NDArray or list of NDArray
        weight : NDArray or list of NDArray
            Changed in place.
        scale : NDArray, optional
            One number on the weights' context, a further factor on all gradients. The update is
            skipped if it is 0 or not finite. Only for lists, and for optimizers that support it
            (``_takes_scale``).
        """
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        optimizer = self.optimizer
        if scale is None and (len(index) == 1 or not optimizer._takes_lists()):
            for key, gradient, array in zip(index, grad, weight):
                context = self._place(key, array)
                optimizer._set_current_context(context.device_id)
                optimizer.update_multi_precision(key, array, gradient, self.states[key])
            return
        last = self._batches.get(index[0]) if index else None
        if last is not None and len(last.indices) == len(index):
            states = [self.states.get(key, _NO_STATE) for key in index]
            if last.fits(index, weight, states):
                optimizer._set_current_context(last.context.device_id)
                optimizer._update_list(index, weight, grad, states, scale)
                return
        places: dict[Any, list[int]] = {}
        for i, (key, array) in enumerate(zip(index, weight)):
            places.setdefault(self._place(key, array), []).append(i)
        for context, chosen in places.items():
            keys, arrays, grads = index, weight, grad
            if len(places) > 1:
                keys, arrays, grads = (
                    [every[i] for i in chosen] for every in (index, weight, grad)
                )
            optimizer._set_current_context(context.device_id)
            states = [self.states[key] for key in keys]
            optimizer._update_list(keys, arrays, grads, states, scale)
            if len(places) == 1:
                self._batches[keys[0]] = _Batch(list(keys), list(arrays), states, context)

    def _place(self, index: Any, weight: NDArray) -> Context:
        """Move a weight's state to the weight's context; return the context."""
        seen = self._places.get(index)
        state = self.states.get(index, _NO_STATE)
        if seen is not None and seen[0] is weight and seen[1] is state:
            return seen[2]
        context = weight.ctx
        if state is _NO_STATE:
            self.optimizer._set_current_context(context.device_id)
            state = self.optimizer.create_state_multi_precision(index, weight)
        state = self.states[index] = _moved(state, context)
        self._places[index] = (weight, state, context)
        self._batches.clear()  # drop batches, because they keep the previous arrays alive
        return context

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states as bytes, which are not a pickle.

        Parameters
        ----------
        dump_optimizer : bool
            Include the optimizer's options and counts.
        """
        self.optimizer._settle()  # removes states that a skipped step has created
        return dump_states(self.states, self.optimizer if dump_optimizer else None)

    def set_states(self, states: bytes) -> None:
        """Restore states from `get_states` or from a pickle of MXNet 1.x."""
        self.optimizer._settle()
        self.states, optimizer = load_states(states, self.optimizer)
        if optimizer is not None:
            self.optimizer = optimizer


def _moved(state: Any, context: Context) -> Any:
    """Return a state with its arrays on a context; the same object if they are already there."""
    if isinstance(state, NDArray):
        return state if state.ctx == context else state.as_in_context(context)
    if isinstance(state, (tuple, list)):
        parts = [_moved(part, context) for part in state]
        if all(new is old for new, old in zip(parts, state)):
            return state
        return tuple(parts)
    return state


def get_updater(optimizer: Optimizer) -> Updater:
    """Return an updater for an optimizer."""
    return Updater(optimizer)


class Attempt:
    """Changes that an update has made on the host, to undo them if the device skips the update."""

    def __init__(self, optimizer: Optimizer, updaters: Sequence[Updater]) -> None:
        self._optimizer, self._updaters = optimizer, list(updaters)
        self._before = {name: _copied(getattr(optimizer, name)) for name in optimizer._counts}
        self._scheduler = dict(_scheduler_attributes(optimizer))
        self._states = [len(updater.states) for updater in updaters]

    def wait_with(self, settle: Callable[[], None]) -> None:
        """Make reading the optimizer's counts wait for a check."""
        # Reading a scheduler's attribute cannot wait for the check, so `finish` restores only the
        # attributes that the update has changed.
        now = _scheduler_attributes(self._optimizer)
        self._scheduler = {
            name: value for name, value in self._scheduler.items() if now.get(name) is not value
        }
        self._optimizer._unsettled = settle

    def finish(self, skipped: bool) -> None:
        """Stop waiting; undo the changes if the update was skipped."""
        self._optimizer.__dict__.pop("_unsettled", None)
        if not skipped:
            return
        for name, before in self._before.items():
            if isinstance(before, dict):
                _restore(getattr(self._optimizer, name), before)
            else:
                setattr(self._optimizer, name, before)
        _scheduler_attributes(self._optimizer).update(self._scheduler)
        for updater, count in zip(self._updaters, self._states):
            for key in list(updater.states)[count:]:
                del updater.states[key]


def _scheduler_attributes(optimizer: Optimizer) -> dict[str, Any]:
    return getattr(optimizer.lr_scheduler, "__dict__", {})


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return value


def _restore(value: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Restore a dictionary and nested ones from a copy; in place, because they are shared."""
    for key in list(value):
        if isinstance(value[key], dict):
            _restore(value[key], before.get(key, {}))
        elif key in before:
            value[key] = before[key]
        else:
            del value[key]
