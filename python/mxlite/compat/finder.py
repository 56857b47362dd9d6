"""Import machinery of the alias: maps ``mxnet.a.b`` to modules of mxlite."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import mxlite

from .._names_1x import (
    VERSION,
    MissingModuleError,
    is_module,
    moved_below,
    names_of,
    not_built,
    old_path,
    resolve,
)
from .hooks import add_names

CHILD_PATH = Path(__file__).resolve().parent / "path"
# Files of installed shim packages that the finder has replaced.
SHIM_FILES: set[str] = set()

_HOROVOD_VERSION = "0.28.1"  # mxlite.horovod has the names of this version


class Mxnet(ModuleType):
    """The module ``mxnet``: mxlite's names, and the version of MXNet that they match.

    Attributes that are set here are also set in mxlite, and missing ones are looked up there.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(mxlite, name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("__"):
            setattr(mxlite, name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        delattr(mxlite, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(mxlite)})

    def __reduce__(self) -> tuple[Any, ...]:
        # cloudpickle pickles plain modules by name, but not subclasses of ModuleType.
        return importlib.import_module, (self.__name__,)

    def __repr__(self) -> str:
        return f"<module 'mxnet' {VERSION}: mxlite {mxlite.__version__}>"


class _RootLoader(Loader):
    """Makes the module ``mxnet`` itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Mxnet(spec.name, "MXNet 1.x scripts run on mxlite.")

    def exec_module(self, module: ModuleType) -> None:
        # Copies the names, so that looking up mx.nd is as fast as in a plain module.
        names = {k: v for k, v in vars(mxlite).items() if not k.startswith("_")}
        module.__dict__.update(names)
        module.__dict__.update(__version__=VERSION, __file__=mxlite.__file__, __all__=sorted(names))
        add_names()


class _AliasLoader(Loader):
    """Puts an existing module into sys.modules under a second name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def exec_module(self, module: ModuleType) -> None:
        # After exec_module, the import system returns the object in sys.modules: mxlite's module,
        # with its own __spec__ and __name__.
        name = module.__name__
        sys.modules[name] = self._module
        # Some modules here are packages in 1.x, so their submodules are registered as well.
        for path, child in moved_below(name.partition(".")[2]).items():
            sys.modules[f"mxnet.{path}"] = child


class _HorovodLoader(Loader):
    """Makes the package ``horovod`` with mxnet, run and runner, if Horovod is not installed."""

    def exec_module(self, module: ModuleType) -> None:
        def attribute(name: str) -> Any:
            if name == "run":
                # Imported on use, because most scripts do not use Horovod.
                return importlib.import_module("mxlite.horovod").run
            raise AttributeError(f"module 'horovod' has no attribute {name!r}")

        module.__doc__ = "Package of horovod.mxnet, which is mxlite.horovod."
        module.__dict__.update(__getattr__=attribute, __version__=_HOROVOD_VERSION)


class _ContentLoader(Loader):
    """Makes a module with given names."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self._content)


class ImportFinder(MetaPathFinder):
    """Finds ``mxnet``, its submodules and ``horovod.mxnet``.

    Also raises for missing names of 1.9.1, which a statement such as ``from mxnet.gluon import
    name`` looks up as submodules of mxlite's packages.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module under the alias, None for all others."""
        root, _, rest = fullname.partition(".")
        if root == "horovod":
            return _horovod_spec(rest)
        if root == "mxlite":
            _refuse_missing(fullname, path)
        if root != "mxnet":
            return None
        if not rest:
            return ModuleSpec(fullname, _RootLoader(), origin="mxlite", is_package=True)
        module = resolve(rest)
        if module is not None:
            add_names()
            return ModuleSpec(fullname, _AliasLoader(module), origin=module.__name__)
        if is_module(rest):
            raise MissingModuleError(f"{fullname}: mxlite does not have this module of 1.9.1")
        return None


def _refuse_missing(full_name: str, path: Sequence[str] | None) -> None:
    """Raise MissingModuleError for a name of 1.9.1 that is neither a module nor in its package."""
    parent, _, name = full_name.rpartition(".")
    package = sys.modules.get(parent)
    if package is not None and name in vars(package):
        return
    rest = old_path(parent)
    if name in names_of(rest) and PathFinder.find_spec(full_name, path) is None:
        raise MissingModuleError(not_built(f"{rest}.{name}" if rest else name))


def _horovod_spec(rest: str) -> ModuleSpec | None:
    """Return the spec of ``horovod`` (an installed one if there is one) or of its modules here."""
    if not rest:
        places = [p for p in sys.path if not p or Path(p).resolve() != CHILD_PATH]
        real = PathFinder.find_spec("horovod", places)
        if real is not None and real.origin not in SHIM_FILES:
            return real
        return ModuleSpec("horovod", _HorovodLoader(), origin="mxlite", is_package=True)
    if rest == "runner":
        name = "mxlite.horovod.runner"
    elif rest.split(".")[0] == "mxnet":
        name = "mxlite.horovod" + rest[len("mxnet") :]
    else:
        return _horovod_internals(rest)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("mxlite.horovod"):
            raise
        raise MissingModuleError(
            f"horovod.{rest}: this build must have {name}, which replaces it"
        ) from None
    if rest == "runner":
        module.__dict__.setdefault("__path__", [])  # a package in Horovod
    return ModuleSpec("horovod." + rest, _AliasLoader(module), origin=name)


def _horovod_internals(rest: str) -> ModuleSpec | None:
    """Return the spec of other modules of Horovod; None if Horovod itself is installed."""
    if getattr(sys.modules.get("horovod"), "__file__", None) is not None:
        return None
    # Imported on use, because it imports mxlite.horovod, which most scripts do not use.
    content = importlib.import_module("mxlite.compat.horovod_modules").CONTENT
    if rest not in content:
        return None
    holds_others = any(name.startswith(rest + ".") for name in content)
    loader = _ContentLoader(content[rest])
    return ModuleSpec("horovod." + rest, loader, origin="mxlite", is_package=holds_others)
