"""The arrays that an executor returns as its outputs.

1.x's executors write every forward into the same arrays, so scripts take them once, even before the
first forward. Here a forward makes new arrays, and arrays that were returned before become handles
of the new values.
"""

from __future__ import annotations

from .. import autograd
from ..ndarray import NDArray
from ..ndarray.sparse.storage import is_sparse

__all__ = ["overwrite", "renew", "show"]


def show(computed: list[NDArray]) -> list[NDArray]:
    """Return an array of its own for each output, on the same memory and without history."""
    return [array if is_sparse(array) else array.detach() for array in computed]


def renew(shown: list[NDArray], computed: list[NDArray]) -> None:
    """Let the arrays of an earlier `show` have the values of this forward; replace sparse ones."""
    for i, (old, new) in enumerate(zip(shown, show(computed))):
        if is_sparse(old) or is_sparse(new):
            shown[i] = new
        else:
            old._assign_handle(new)


def overwrite(shown: list[NDArray], computed: list[NDArray]) -> None:
    """Do as `renew`, but keep the memory of dense arrays, because other arrays share it."""
    with autograd.pause():
        for i, (old, new) in enumerate(zip(shown, computed)):
            if is_sparse(old) or is_sparse(new):
                shown[i] = new
            else:
                old[:] = new
