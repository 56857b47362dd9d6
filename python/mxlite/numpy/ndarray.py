"""The class of arrays in numpy mode, ``mx.np.ndarray``."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..ndarray import NDArray

__all__ = ["ndarray"]


class ndarray(NDArray):  # noqa: N801 - NumPy's name
    """Array with NumPy's semantics: ``mx.np.array`` and other functions of mx.np make it.

    Operators on such arrays return such arrays. ``as_nd_ndarray()`` gives an NDArray on the same
    memory.
    """

    __slots__ = ()


def attach(methods: dict[str, Any]) -> None:
    """Set attributes of the class; each module of the package attaches its own methods."""
    for name, method in methods.items():
        setattr(ndarray, name, method)


_core.set_numpy_class(ndarray)
