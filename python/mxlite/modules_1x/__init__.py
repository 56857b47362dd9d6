"""Modules that only scripts for 1.x import, under 1.x's names: ``mx.model`` is ``model.py``.

Every module of this package can be imported as one of ``mxlite`` as well (``import mxlite.model``,
``from mxlite.rnn import LSTMCell``), and pickles find its classes under such names. ``mx.device``
is :mod:`mxlite.context` in the same way.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import base, context
from .._names_1x import attributes
from . import base_names, c_library, error

if TYPE_CHECKING:  # imported when they are first used
    from . import (
        engine,
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

_PACKAGE = sys.modules[__name__.rpartition(".")[0]]
_lock = threading.RLock()


class _Unused(ModuleType):
    """A module whose file runs when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if vars(self).get("_runs") == threading.get_ident():  # the file has not defined it yet
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _run(self)
        return getattr(self, name)

    def __dir__(self) -> Iterable[str]:
        _run(self)
        return ModuleType.__dir__(self)


def _run(module: ModuleType) -> None:
    """Run the file of a module unless another thread has run it."""
    with _lock:
        if isinstance(module, _Unused) and "_runs" not in vars(module):
            assert module.__spec__ is not None and module.__spec__.loader is not None
            vars(module)["_runs"] = threading.get_ident()
            try:
                module.__spec__.loader.exec_module(module)
                module.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                del vars(module)["_runs"]


def _publish(name: str, module: ModuleType) -> None:
    """Make a module importable as ``mxlite.<name>``."""
    sys.modules[f"{_PACKAGE.__name__}.{name}"] = module
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[f"{__name__}.{parent}"] if parent else _PACKAGE, child, module)


# Names that only 1.x had in base.
for _module in (base_names, c_library):
    vars(base).update((name, vars(_module)[name]) for name in _module.__all__)
    vars(base)["__all__"] = sorted({*base.__all__, *_module.__all__})
# _names_1x imports base, so base cannot ask for its own attributes.
vars(base)["__getattr__"], vars(base)["__dir__"] = attributes(base.__name__)
_publish("device", context)
_folder = Path(__file__).parent
for _path in sorted(_folder.rglob("*.py"), key=lambda path: path.name != "__init__.py"):
    _parts = _path.relative_to(_folder).with_suffix("").parts
    _name = ".".join(part for part in _parts if part != "__init__")
    if not _name:
        continue
    _full = f"{__name__}.{_name}"
    if _full not in sys.modules:
        _spec = spec_from_file_location(_full, _path)
        assert _spec is not None
        sys.modules[_full] = module_from_spec(_spec)
        sys.modules[_full].__class__ = _Unused
        if "." not in _name:
            globals()[_name] = sys.modules[_full]
    _publish(_name, sys.modules[_full])
if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(__name__)
