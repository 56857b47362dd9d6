"""The arrays that an executor returns as its outputs.

In 1.x, every forward of an executor writes into the same arrays, so scripts may get them once, even
before the first forward. Here a forward makes new arrays, and the arrays that were returned before
are changed to refer to the new values.
"""

from __future__ import annotations

from .. import autograd
from ..ndarray import NDArray
from ..ndarray.sparse.storage import is_sparse


def show(computed: list[NDArray]) -> list[NDArray]:
    """Return detached arrays that share memory with the outputs."""
    return [array if is_sparse(array) else array.detach() for array in computed]


def renew(shown: list[NDArray], computed: list[NDArray]) -> None:
    """Make the arrays of an earlier `show` refer to new outputs; replace sparse arrays."""
    for i, (old, new) in enumerate(zip(shown, show(computed))):
        if is_sparse(old) or is_sparse(new):
            shown[i] = new
        else:
            old._assign_handle(new)


def overwrite(shown: list[NDArray], computed: list[NDArray]) -> None:
    """Like `renew`, but keep the memory of dense arrays, because other arrays share it."""
    with autograd.pause():
        for i, (old, new) in enumerate(zip(shown, computed)):
            if is_sparse(old) or is_sparse(new):
                shown[i] = new
            else:
                old[:] = new
