"""Runs nodes of symbols on sparse arrays."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import NDArray
from ..ndarray.sparse import dispatch
from ..ndarray.sparse.storage import is_sparse

__all__: list[str] = []


def _run(op: str, call: Any, inputs: list[NDArray]) -> list[NDArray]:
    if not isinstance(call, _core.OpCall):
        if not getattr(call, "eager", False):
            inputs = [array.tostype("default") if is_sparse(array) else array for array in inputs]
        return list(call.run(inputs))
    # None means for every operator that a parameter is not given.
    params = {key: value for key, value in call.params.items() if value is not None}
    # The rule is selected by the node's operator name, which may be an alias.
    result = dispatch.run(_core.op(_core.symbol_engine_name(op)), tuple(inputs), params)
    return list(result) if isinstance(result, (list, tuple)) else [result]


_core.set_sparse_runner(_run)
