"""Attribute lookup of modules for names of MXNet 1.9.1.

A module is imported when its name is first used. A name of 1.9.1 that mxlite lacks raises an error
that says so. A package uses this lookup by ``__getattr__, __dir__ = attributes(__name__)`` at its
end.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Callable

from ..base import NotSupportedError, suggestion
from .lists import MOVED, VERSION, imports, names_of, old_path

__all__ = [
    "AFTER_IMPORT",
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


# Submodules that 1.9.1 lacks, and those that a program for 1.9.1 must import itself. mxlite imports
# both on first use.
OWN_MODULES = {
    "mxlite": ("checkpoint",),
    "mxlite.contrib": ("amp", "svrg_optimization"),
    "mxlite.gluon.contrib": ("parallel",),
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
        if place is not None and there in vars(place):
            return vars(place)[there]
    return None


def resolve(rest: str) -> ModuleType | None:
    """Import and return the module of mxlite for ``mxnet.<rest>``, or None if there is none."""
    if rest in MOVED:
        return resolve(MOVED[rest])
    parent_path, _, name = rest.rpartition(".")
    parent = resolve(parent_path) if parent_path else sys.modules["mxlite"]
    if parent is None:
        return None
    child = vars(parent).get(name)
    if not (isinstance(child, ModuleType) and child.__name__.startswith("mxlite.")):
        full_name = f"{parent.__name__}.{name}"
        try:
            child = importlib.import_module(full_name)
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
        if name in OWN_MODULES.get(module_name, ()):
            return importlib.import_module(f"{module_name}.{name}")
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
                # 1.9.1 defines the name in this module of a package. mxlite may define it in
                # another module, from which the package imports it.
                package = resolve(rest.rpartition(".")[0]) if "." in rest else sys.modules["mxlite"]
                if package is not None and rest and name in vars(package):
                    return vars(package)[name]
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
    have = vars(module)
    if "__all__" in have:
        return set(have["__all__"])
    return {
        name
        for name, value in have.items()
        if name != "TYPE_CHECKING" and name[0] != "_" and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
        in ("mxlite", "builtins")
    }  # fmt: skip


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
