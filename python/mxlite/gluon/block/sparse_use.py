"""Finds blocks that use sparse arrays: they run operator by operator, as graphs are dense."""

from __future__ import annotations

from typing import Any

from ...ndarray.sparse.storage import is_sparse
from ..parameter.bindings import EXPIRED, bind_block

__all__ = ["SparseUse"]


class SparseUse:
    """Whether parameters of a block are sparse, looked up after each change of them."""

    def __init__(self) -> None:
        self._binding = EXPIRED
        self._parameters = False

    def __call__(self, block: Any, args: tuple[Any, ...]) -> bool:
        """Return whether a parameter, a gradient or an input is sparse."""
        if not self._binding.valid:
            binding, params = bind_block(block)
            self._parameters = any(
                param.stype != "default" or param.grad_stype != "default" for param in params
            )
            self._binding = binding
        return self._parameters or any(is_sparse(array) for array in args)
