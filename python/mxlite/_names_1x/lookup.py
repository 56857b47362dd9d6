"""Attribute lookup of modules for names of MXNet 1.9.1.

A module is imported when its name is first used. A name of 1.9.1 that mxlite lacks raises an error
that says so. A package uses both by ``__getattr__, __dir__ = attributes(__name__)`` at its end.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Callable

from ..base import NotSupportedError, import_on_use, suggestion
from .lists import MOVED, VERSION, imports, names_of, old_path

__all__ = [
    "AFTER_IMPORT",
    "ON_FIRST_USE",
    "MissingModuleError",
    "MissingNameError",
    "UnknownNameError",
    "attributes",
    "moved_below",
    "not_built",
    "own_names",
    "resolve",
]


class MissingNameError(NotSupportedError, AttributeError):
    """A name of MXNet 1.9.1 that mxlite does not have; ``hasattr`` is False for it."""


class UnknownNameError(AttributeError):
    """A name that neither MXNet 1.9.1 nor mxlite has; the text suggests similar names."""

    def __init__(self, module_name: str, name: str) -> None:
        super().__init__(module_name, name)
        self.module_name = module_name
        self.missing = name

    def __str__(self) -> str:
        known = (n for n in dir(sys.modules[self.module_name]) if not n.startswith("_"))
        hint = suggestion(self.missing, known)
        if self.module_name == "mxlite" and self.missing in vars(sys.modules["mxlite.ndarray"]):
            hint = f"; use mx.nd.{self.missing}"
        return f"module {self.module_name!r} has no attribute {self.missing!r}{hint}"


class MissingModuleError(NotSupportedError, ImportError):
    """A module of MXNet 1.9.1, or a name imported from one, that mxlite does not have."""


# Names that mxlite imports on first use, and that 1.9.1 lacks or that are no modules in it:
# the path of the module after ``mxlite.``, and the name in it unless the module itself is meant.
ON_FIRST_USE: dict[str, dict[str, str]] = {
    "mxlite": {
        "Executor": "executor:Executor",
        "Symbol": "symbol:Symbol",
        "checkpoint": "checkpoint",
        "kvstore_server": "kvstore.kvstore_server",
        "opt": "optimizer",
        "parallel": "parallel",
    },
    "mxlite.contrib": {"amp": "contrib.amp", "svrg_optimization": "contrib.svrg_optimization"},
    "mxlite.gluon": {"Trainer": "gluon.trainer:Trainer"},
    "mxlite.gluon.contrib": {"parallel": "gluon.contrib.parallel"},
    "mxlite.ndarray": {"CachedOp": "executor:CachedOp"},
    "mxlite.symbol": {
        "np": "numpy_extension.symbols:np_module",
        "npx": "numpy_extension.symbols:npx_module",
    },
}

# Functions to call after a module was imported because a program accessed its name.
AFTER_IMPORT: list[Callable[[], None]] = []


def not_built(path: str) -> str:
    """Return the error text for a name of 1.9.1 that mxlite lacks."""
    hint = ""
    if path == "symbol.contrib.boolean_mask":
        hint = ": its shape depends on values; call it in a block, which may be hybridized"
    return f"mx.{path}: a name of MXNet {VERSION} that mxlite does not have{hint}"


def _imported(rest: str, name: str) -> Any:
    """Return ``name`` if ``mxnet.<rest>`` of 1.9.1 imports it from another module, else None."""
    home, _, there = imports().get(f"mxnet.{rest}", {}).get(name, "").partition(":")
    path = home[len("mxnet.") :]
    module = resolve(path) if path else None
    if not there:
        return module
    for place in (module, resolve(path.rpartition(".")[0]) if "." in path else None):
        if place is not None and _has(place, there):
            return getattr(place, there)
    return None


def _has(module: ModuleType, name: str) -> bool:
    """Return whether a module has a name, or gets it when it is first used."""
    return name in vars(module) or name in ON_FIRST_USE.get(module.__name__, ())


def _first_use(module_name: str, name: str) -> Any:
    """Import what a name of `ON_FIRST_USE` stands for, set it in its package, and return it."""
    home, _, member = ON_FIRST_USE[module_name][name].partition(":")
    value: Any = import_on_use(f"mxlite.{home}")
    if member:
        value = getattr(value, member)
    setattr(sys.modules[module_name], name, value)
    for hook in AFTER_IMPORT:
        hook()
    return value


def resolve(rest: str) -> ModuleType | None:
    """Import and return the module of mxlite for ``mxnet.<rest>``, or None if there is none."""
    if rest in MOVED:
        return resolve(MOVED[rest])
    parent_path, _, name = rest.rpartition(".")
    parent = resolve(parent_path) if parent_path else sys.modules["mxlite"]
    if parent is None:
        return None
    child = getattr(parent, name) if _has(parent, name) else None
    if not (isinstance(child, ModuleType) and child.__name__.startswith("mxlite.")):
        full_name = f"{parent.__name__}.{name}"
        try:
            child = import_on_use(full_name)
        except MissingModuleError:
            return None
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
            return None
        for hook in AFTER_IMPORT:
            hook()
    return child


def moved_below(rest: str) -> dict[str, ModuleType]:
    """Return the submodules of ``mxnet.<rest>`` that are elsewhere in mxlite."""
    found = {path: resolve(path) for path in MOVED if path.rpartition(".")[0] == rest}
    return {path: module for path, module in found.items() if module is not None}


def _getattr_of(module_name: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module."""
    rest = old_path(module_name)

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the module's
        if name in ON_FIRST_USE.get(module_name, ()):
            return _first_use(module_name, name)
        if not name.startswith("__"):
            names = names_of(rest)
            child = f"{rest}.{name}" if rest else name
            if name in names:
                path = names[name]
                if path is not None:
                    module = resolve(path[len("mxnet.") :])
                    if module is not None:
                        setattr(sys.modules[module_name], name, module)
                        return module
                # The name's module is a file of the package in 1.9.1, but a different one in
                # mxlite.
                package = resolve(rest.rpartition(".")[0]) if "." in rest else sys.modules["mxlite"]
                if package is not None and rest and _has(package, name):
                    return getattr(package, name)
            found = _imported(rest, name)
            if found is not None:
                setattr(sys.modules[module_name], name, found)
                return found
            if name in names:
                raise MissingNameError(not_built(child))
        raise UnknownNameError(module_name, name)

    return __getattr__


def _exists(full_name: str) -> bool:
    try:
        return find_spec(full_name) is not None
    except MissingModuleError:
        return False


def own_names(module: ModuleType) -> set[str]:
    """Return the public names that a module defines, not those that its file imports."""
    listed = getattr(module, "__all__", None)  # runs the file of a module that is not used yet
    if listed is not None:
        return set(listed)
    found = {
        name
        for name, value in vars(module).items()
        if name != "TYPE_CHECKING" and name[0] != "_" and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
        in ("mxlite", "builtins")
    }  # fmt: skip
    on_use = ON_FIRST_USE.get(module.__name__, {})
    return found | {name for name in on_use if name[0].isupper()}  # classes, not modules


def _public_names(module: ModuleType) -> list[str]:
    """Return the names for ``dir``: public names, and submodules that it imports on first use."""
    names = names_of(old_path(module.__name__))
    have = vars(module)
    unloaded = {
        name
        for name, home in names.items()
        if isinstance(home, str) and hasattr(module, "__path__") and name not in have
        and _exists(f"{module.__name__}.{name}")
    }  # fmt: skip
    special = {name for name in have if name.startswith("__")}
    return sorted(own_names(module) | names.keys() & have.keys() | unloaded | special)


def attributes(module_name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module that has names of 1.9.1."""
    return _getattr_of(module_name), lambda: _public_names(sys.modules[module_name])
