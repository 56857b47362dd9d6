"""Modules that only scripts for 1.x import, under 1.x's names: ``mx.model`` is ``model.py``.

Every module of this package can be imported as one of ``mxlite`` as well (``import mxlite.model``,
``from mxlite.rnn import LSTMCell``), and pickles find its classes under such names. ``mx.device``
is :mod:`mxlite.context` in the same way.
"""

from __future__ import annotations

import sys
from types import ModuleType

from .. import base, context
from .._names_1x import attributes
from . import (
    base_names,
    c_library,
    engine,
    error,
    executor_manager,
    libinfo,
    library,
    log,
    misc,
    model,
    numpy_dispatch_protocol,
    numpy_op_signature,
    rnn,
)

__all__ = [
    "engine",
    "error",
    "executor_manager",
    "libinfo",
    "library",
    "log",
    "misc",
    "model",
    "numpy_dispatch_protocol",
    "numpy_op_signature",
    "rnn",
]


def _publish(name: str, module: ModuleType) -> None:
    """Make a module importable as ``mxlite.<name>``."""
    package = __name__.rpartition(".")[0]
    sys.modules[f"{package}.{name}"] = module
    if "." not in name:
        setattr(sys.modules[package], name, module)


# Names that only 1.x had in base.
for _module in (base_names, c_library):
    vars(base).update((name, vars(_module)[name]) for name in _module.__all__)
    vars(base)["__all__"] = sorted({*base.__all__, *_module.__all__})
# _names_1x imports base, so base cannot ask for its own attributes.
vars(base)["__getattr__"], vars(base)["__dir__"] = attributes(base.__name__)
_publish("device", context)
for _name, _module in list(sys.modules.items()):
    if _name.startswith(f"{__name__}."):
        _publish(_name[len(__name__) + 1 :], _module)
