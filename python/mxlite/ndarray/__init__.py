"""Arrays and operators: ``mx.nd`` (MXNet 1.x: ``mxnet.ndarray``).

Operators are the callable objects of the core; their list, signatures and documentation come from
its schemas (``op.pyi``, and the site's pages of operators).
"""

from __future__ import annotations

import sys as _sys
import types as _types
from typing import TYPE_CHECKING
from typing import Any as _Any

from .._names_1x import attributes as _attributes
from .. import _core
from .ndarray import NDArray as NDArray
from .ndarray import waitall as waitall
from . import control_flow, indexing, methods
from .arithmetic import *  # noqa: F403
from .creation import *  # noqa: F403
from .functions import *  # noqa: F403
from .serialization import load as load
from .serialization import load_frombuffer as load_frombuffer
from .serialization import save as save
from . import contrib_functions
from . import random as random
from . import sparse as sparse
from .sparse import cast_storage as cast_storage

if TYPE_CHECKING:
    from . import contrib as contrib
    from . import image as image
    from . import linalg as linalg
    from . import op as op
    from . import utils as utils
    from .op import *  # noqa: F403

    def Custom(*args: _Any, **kwargs: _Any) -> _Any:  # noqa: N802 - the operator's name
        """Call an operator written in Python; operator/__init__.py replaces this function."""


def _module(name: str, doc: str) -> _types.ModuleType:
    """Make a submodule."""
    module = _types.ModuleType(f"{__name__}.{name}", doc)
    vars(module)["__getattr__"], vars(module)["__dir__"] = _attributes(module.__name__)
    _sys.modules[module.__name__] = globals()[name] = module
    return module


def _namespace(name: str, prefixes: tuple[str, ...]) -> None:
    """Make a submodule of the operators with one of the prefixes, without the prefix."""
    module = _module(name, f"Operators of mx.nd.{name}.")
    for op_name, op in _core.all_ops().items():
        for prefix in prefixes:
            if op_name.startswith(prefix):
                module.__dict__[op_name[len(prefix) :]] = op


_internal = _module("_internal", "All operators, hidden ones too.")
_internal.__dict__.update(_core.all_ops())
_module("op", "The public operators.")
op.__dict__.update((k, v) for k, v in _core.all_ops().items() if not k.startswith("_"))

_namespace("contrib", ("_contrib_",))
for _source in (contrib_functions, control_flow):
    contrib.__dict__.update((_name, getattr(_source, _name)) for _name in _source.__all__)
contrib.__dict__.update(getnnz=sparse.functions.getnnz, edge_id=sparse.functions.edge_id)
_internal.__dict__.update(
    _sample_unique_zipfian=contrib_functions.sample_unique_zipfian,
)
_namespace("linalg", ("linalg_", "_linalg_"))
_namespace("image", ("_image_",))

# Functions of this package (zeros, maximum, ...) take precedence over operators of the same name.
for _name, _op in op.__dict__.items():
    if not _name.startswith("__"):
        globals().setdefault(_name, _op)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
