"""Checks of what a trainer is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import TypeError_, ValueError_
from .parameter import Parameter

__all__ = ["checked_batch_size", "checked_options", "sparse_parts"]


def sparse_parts(param: Parameter) -> list[str]:
    """Name what of a parameter is stored by rows: its weight or its gradient.

    Parameters
    ----------
    param : Parameter

    Returns
    -------
    list of str
    """
    if param.stype != "default":
        return ["weight"]
    return ["gradient"] if param.grad_req != "null" and param.grad_stype != "default" else []


def checked_batch_size(batch_size: float) -> float:
    """Return a batch size.

    Parameters
    ----------
    batch_size : float

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        Unless it is a number above 0.
    """
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__truediv__"):
        raise TypeError_(f"Trainer: batch_size is {batch_size!r}, expected a number above 0")
    if not batch_size > 0:
        raise ValueError_(f"Trainer: batch_size is {batch_size!r}, expected a number above 0")
    return batch_size


def checked_options(options: Any) -> dict[str, Any]:
    """Return the optimizer's parameters that a trainer was given.

    Parameters
    ----------
    options : mapping or None

    Raises
    ------
    TypeError
        If they are no mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError_(
            f"Trainer: optimizer_params is {options!r}, expected a dict such as "
            "{'learning_rate': 0.1}"
        )
    return dict(options or {})
