"""Symbolic graphs: ``mx.sym`` (MXNet 1.x: ``mxnet.symbol``).

A call on symbols composes a symbol, and a call on arrays computes, as in ``mx.nd``. A call without
symbols and arrays composes a symbol in ``mx.sym`` only: inputs that are left out become variables.
While a hybridized block is traced, this module is the ``F`` of its ``hybrid_forward``, as in 1.x;
its functions are then the functions of ``mx.nd``, which take traced arrays.
"""

from __future__ import annotations

import sys as _sys
import types as _types
from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .. import _core
from .. import ndarray as _nd
from .symbol import Symbol as Symbol
from .variable import Group as Group
from .variable import Variable as Variable
from .variable import var as var
from . import numpy_symbol as _numpy_symbol
from . import operators as _operators
from .serialization import fromjson as fromjson
from .serialization import load as load
from .serialization import load_json as load_json
from .creation import *  # noqa: F403
from .custom import Custom as Custom
from .histogram import histogram as histogram
from .inlined import cached_op as _cached_op
from . import contrib_functions, control_flow, recorded
from . import scopes as _scopes
from . import sparse_run as _sparse_run
from . import random as random

if TYPE_CHECKING:
    from . import contrib as contrib
    from . import image as image
    from . import linalg as linalg
    from . import op as op
    from . import sparse as sparse
    from .op import *  # noqa: F403

_OPS = _core.all_ops(composes=True)
cast_storage = _OPS["cast_storage"]


def _module(name: str, doc: str) -> _types.ModuleType:
    """Make a submodule."""
    module = _types.ModuleType(f"{__name__}.{name}", doc)
    vars(module)["__getattr__"], vars(module)["__dir__"] = _attributes(module.__name__)
    _sys.modules[module.__name__] = globals()[name] = module
    return module


def _namespace(name: str, prefixes: tuple[str, ...]) -> None:
    """Make a submodule of the operators with one of the prefixes, without the prefix."""
    module = _module(name, f"Operators of mx.sym.{name}.")
    for op_name, op in _OPS.items():
        for prefix in prefixes:
            if op_name.startswith(prefix):
                module.__dict__[op_name[len(prefix) :]] = op


_internal = _module("_internal", "All operators, hidden ones too.")
_internal.__dict__.update(_OPS)
_module("op", "The public operators.")
op.__dict__.update((k, v) for k, v in _OPS.items() if not k.startswith("_"))

for _target in (op, _internal):
    _target.__dict__["Custom"] = Custom

_namespace("contrib", ("_contrib_",))
for _source in (control_flow, contrib_functions):
    contrib.__dict__.update((_name, getattr(_source, _name)) for _name in _source.__all__)
_namespace("linalg", ("_linalg_",))
_namespace("image", ("_image_",))
_namespace("sparse", ("_sparse_",))
sparse.__dict__["cast_storage"] = cast_storage
_internal.__dict__["_CachedOp"] = _cached_op

# Functions of this package (zeros, maximum, ...) take precedence over operators of the same name.
for _name, _op in op.__dict__.items():
    if not _name.startswith("__"):
        globals().setdefault(_name, _op)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)

    class _Module(_types.ModuleType):
        """The class of this module; during a trace, its functions are those of mx.nd."""

        def __getattribute__(self, name):
            if _core.is_tracing() and name[:2] != "__" and name in _nd.__dict__:
                return _nd.__dict__[name]
            return super().__getattribute__(name)

    _sys.modules[__name__].__class__ = _Module
