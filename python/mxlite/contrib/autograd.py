"""The autograd interface of the first versions of MXNet (``mx.contrib.autograd``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd as _autograd
from .. import ndarray as _nd
from ..base import TypeError_
from ..ndarray import NDArray

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Switch recording and training mode together; return whether recording was on."""
    _autograd.set_training(bool(is_train))
    return bool(_autograd.set_recording(bool(is_train)))


class TrainingStateScope:
    """Switches recording and training mode in a ``with`` block."""

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before = False

    def __enter__(self) -> None:
        self._before = set_is_training(self._enter_state)

    def __exit__(self, *exc: Any) -> None:
        if self._before != self._enter_state:
            set_is_training(self._before)


def train_section() -> TrainingStateScope:
    """Return a scope in which calls are recorded, in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """Return a scope in which calls are not recorded, in prediction mode."""
    return TrainingStateScope(False)


test_section.__test__ = False  # type: ignore[attr-defined]  # no test for pytest


def mark_variables(
    variables: Sequence[NDArray], gradients: Sequence[NDArray], grad_reqs: Any = "write"
) -> None:
    """Attach gradient arrays, see `mx.autograd.mark_variables`."""
    _autograd.mark_variables(variables, gradients, grad_reqs)


def backward(outputs: Sequence[NDArray], out_grads: Any = None, retain_graph: bool = False) -> None:
    """Compute the gradients of outputs.

    Parameters
    ----------
    outputs : list of NDArray
    out_grads : list of NDArray or None, optional
    retain_graph : bool
    """
    if not isinstance(outputs, (list, tuple)):
        raise TypeError_("outputs must be a list or tuple of NDArrays")
    _autograd.backward(list(outputs), out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """Compute the gradients of outputs, with ones as output gradients."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """Return a function that computes the gradients and the result of another function.

    Parameters
    ----------
    func : callable
        A function of NDArrays that returns NDArrays.
    argnum : int or list of int, optional
        Indices of the arguments whose gradients are computed; None: all.

    Returns
    -------
    callable
        Returns (list of gradients, result).
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        numbers = range(len(args)) if argnum is None else argnum
        variables = [args[i] for i in ([numbers] if isinstance(numbers, int) else numbers)]
        for value in variables:
            if not isinstance(value, NDArray):
                raise TypeError_(
                    f"type of autograd input should NDArray, a {type(value).__name__} given"
                )
        grads = [_nd.zeros_like(value) for value in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs

    return wrapped


def grad(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., list[NDArray]]:
    """Return a function that computes the gradients of another one; see `grad_and_loss`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
