"""Loops and branches over ``mx.np`` arrays."""

from __future__ import annotations

from typing import Any, Callable

from ..ndarray import control_flow as _of_arrays
from .calls import check_arrays

__all__ = ["cond", "foreach", "while_loop"]


def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """Call ``body`` on each slice of ``data``; see ``mx.nd.contrib.foreach``."""
    check_arrays("npx.foreach", (data, init_states))
    return _of_arrays.foreach(body, data, init_states, name)


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> Any:
    """Call ``func`` as long as ``cond`` is true; see ``mx.nd.contrib.while_loop``."""
    check_arrays("npx.while_loop", (loop_vars,))
    return _of_arrays.while_loop(cond, func, loop_vars, max_iterations, name)


def cond(
    pred: Any,
    then_func: Callable[..., Any],
    else_func: Callable[..., Any],
    inputs: Any = (),
    name: str = "cond",
) -> Any:
    """Call one of two functions, depending on a condition.

    Parameters
    ----------
    pred : ndarray of one element, number, or callable
        The condition. A callable is called with the inputs.
    then_func, else_func : callable
        Called with the inputs if the condition is true or false. Return an array or nested lists of
        arrays.
    inputs : ndarray or sequence of ndarray
    name : str
        Without effect.

    Returns
    -------
    ndarray or nested lists of ndarray
    """
    arrays = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    check_arrays("npx.cond", (pred, *arrays))
    chosen = pred(*arrays) if callable(pred) else pred
    return _of_arrays.cond(chosen, lambda: then_func(*arrays), lambda: else_func(*arrays), name)
