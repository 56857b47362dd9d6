"""Which blocks work with sparse arrays: they run operator by operator, graphs are dense."""

from __future__ import annotations

from typing import Any

from ..ndarray.sparse.storage import is_sparse
from .tracing import STATE

__all__ = ["SparseUse"]


class SparseUse:
    """Whether parameters of a block are sparse, looked up after each change of its structure."""

    def __init__(self) -> None:
        self._epoch = -1
        self._parameters = False

    def __call__(self, block: Any, args: tuple[Any, ...]) -> bool:
        """Return whether a parameter, a gradient or an input is sparse."""
        if self._epoch != STATE.epoch:
            self._parameters = any(
                param.stype != "default" or param.grad_stype != "default"
                for param in block.collect_params().values()
            )
            self._epoch = STATE.epoch
        return self._parameters or any(is_sparse(array) for array in args)
