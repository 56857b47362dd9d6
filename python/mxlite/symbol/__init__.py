"""Symbolic graphs: ``mx.sym`` (MXNet 1.x: ``mxnet.symbol``).

The operators are those of ``mx.nd``; here they compose even when no input is given.
"""

from __future__ import annotations

import sys as _sys
import types as _types
from typing import TYPE_CHECKING, Any

from .. import _core
from .symbol import Symbol
from .variable import Group, Variable, var
from .operators import SymbolOp as _SymbolOp
from .serialization import fromjson, load, load_json
from .creation import *  # noqa: F403
from .custom import Custom
from .histogram import histogram
from .inlined import cached_op as _cached_op
from ..ndarray.sparse.aliases import SCATTER as _SCATTER
from .sparse_calls import cast_storage
from .sparse_calls import retain as _retain
from .sparse_calls import square_sum as _square_sum
from . import contrib_functions, control_flow, random

_OPS = {name: _SymbolOp(name) for name in _core.all_ops()}


def _namespace(name: str, prefixes: tuple[str, ...]) -> _types.ModuleType:
    """Make a submodule that holds the operators with one of the prefixes, without it."""
    module = _types.ModuleType(f"{__name__}.{name}", f"Operators of mx.sym.{name}.")
    for op_name, op in _OPS.items():
        for prefix in prefixes:
            if op_name.startswith(prefix):
                module.__dict__[op_name[len(prefix) :]] = op
    _sys.modules[module.__name__] = module
    return module


_internal = _types.ModuleType(f"{__name__}._internal", "All operators, hidden ones too.")
_internal.__dict__.update(_OPS)
_sys.modules[_internal.__name__] = _internal

op = _types.ModuleType(f"{__name__}.op", "The public operators.")
op.__dict__.update((k, v) for k, v in _OPS.items() if not k.startswith("_"))
_sys.modules[op.__name__] = op

for _module in (op, _internal):
    _module.__dict__["Custom"] = Custom

contrib = _namespace("contrib", ("_contrib_",))
for _module in (control_flow, contrib_functions):
    contrib.__dict__.update((_name, getattr(_module, _name)) for _name in _module.__all__)
for _name, _op in _OPS.items():
    if _name.startswith("_random_") and _name.endswith("_like"):
        random.__dict__[_name[len("_random_") :]] = _op
linalg = _namespace("linalg", ("linalg_", "_linalg_"))
image = _namespace("image", ("_image_",))
sparse = _namespace("sparse", ("_sparse_",))
sparse.__dict__.update(cast_storage=cast_storage, retain=_retain)
_internal.__dict__.update(
    _CachedOp=_cached_op, _square_sum=_square_sum, _sparse_retain=_retain,
    cast_storage=cast_storage,
    **{_name: _SymbolOp(_name) for _name in _SCATTER},
)  # fmt: skip

# What this package defines by hand (zeros, maximum, ...) goes before an operator of the same name.
for _name, _op in op.__dict__.items():
    if not _name.startswith("__"):
        globals().setdefault(_name, _op)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Operators are set above; type checkers cannot see them."""
