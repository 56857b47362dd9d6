"""Names of ``mxnet.numpy_op_signature``: functions by the names of their operators."""

from __future__ import annotations

from typing import Any

from .. import numpy, numpy_extension
from ..base import ValueError_

__all__: list[str] = []


def _get_builtin_op(op_name: str) -> Any:
    """Return the function of an operator (``_np_sum``, ``_npx_relu``); None for other names.

    Raises ValueError if there is no such function.
    """
    for prefix, module in (("_np_", numpy), ("_npx_", numpy_extension)):
        if op_name.startswith(prefix):
            name = op_name[len(prefix) :]
            found = getattr(module, name, None)
            if found is None:
                raise ValueError_(
                    f"_get_builtin_op: op_name must be {prefix} and a name of "
                    f"{module.__name__}, got {op_name!r}"
                )
            return found
    return None
