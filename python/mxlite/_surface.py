"""The names of MXNet 1.9.1: where they are in mxlite, and a clear error for those that are not.

One list (``compat/surface_1_9_1.json``) drives three things: modules that are imported when their
name is first used, the error for a name that is not built, and ``docs/compat.md``.
"""

from __future__ import annotations

import dis
import functools
import importlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from .base import NotSupportedError, suggestion

__all__ = [
    "VERSION",
    "MissingModuleError",
    "MissingNameError",
    "UnknownNameError",
    "guard",
    "is_module",
    "moved_below",
    "resolve",
    "surface",
]

VERSION = "1.9.1"

# Modules that 1.9.1 cuts in another way: there -> here.
_MOVED = {
    "contrib.nd": "ndarray.contrib",
    "contrib.ndarray": "ndarray.contrib",
    "contrib.sym": "symbol.contrib",
    "contrib.symbol": "symbol.contrib",
    "contrib.quant": "contrib.quantization",
    "gluon.contrib.cnn.conv_layers": "gluon.contrib.cnn",
    "gluon.contrib.nn.basic_layers": "gluon.contrib.nn",
    "image.image": "image",
    "img": "image",
    "init": "initializer",
    "io.io": "io",
    "kv": "kvstore",
    "kvstore.kvstore": "kvstore",
    "mod": "module",
    "mon": "monitor",
    "nd": "ndarray",
    "opt": "optimizer",
    "rnd": "random",
    "sym": "symbol",
    "viz": "visualization",
}

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


class MissingNameError(NotSupportedError, AttributeError):
    """A name of MXNet 1.9.1 that mxlite does not have; ``hasattr`` is False for it."""


class UnknownNameError(AttributeError):
    """A name that neither MXNet 1.9.1 nor mxlite has; suggests near ones when it is printed."""

    def __init__(self, module_name: str, name: str) -> None:
        super().__init__(module_name, name)
        self.module_name = module_name
        self.missing = name

    def __str__(self) -> str:
        known = (n for n in dir(sys.modules[self.module_name]) if not n.startswith("_"))
        return (
            f"module {self.module_name!r} has no attribute {self.missing!r}"
            f"{suggestion(self.missing, known)}"
        )


class MissingModuleError(NotSupportedError, ImportError):
    """A module of MXNet 1.9.1, or a name imported from one, that mxlite does not have."""


@functools.cache
def surface() -> dict[str, dict[str, Any]]:
    """Return the public names of 1.9.1: {module: {name: entry}}.

    Returns
    -------
    dict
        See ``mxlite/_dev/dump_surface.py`` for what an entry tells.
    """
    path = Path(__file__).resolve().parent / "compat" / "surface_1_9_1.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return found


@functools.cache
def _imports() -> dict[str, dict[str, str]]:
    """Return what the modules of 1.9.1 import from one another, by mxlite's modules."""
    path = Path(__file__).resolve().parent / "compat" / "imports_1_9_1.json"
    found: dict[str, dict[str, str]] = json.loads(path.read_text())
    for there, here in _MOVED.items():
        more = found.get(f"mxnet.{there}", {})
        found[f"mxnet.{here}"] = {**more, **found.get(f"mxnet.{here}", {})}
    return found


def _imported(rest: str, name: str) -> Any:
    """Return what ``mxnet.<rest>`` of 1.9.1 has as ``name`` from another module; None without."""
    home, _, there = _imports().get(f"mxnet.{rest}", {}).get(name, "").partition(":")
    path = home[len("mxnet.") :]
    module = resolve(path) if path else None
    if not there:
        return module
    for place in (module, resolve(path.rpartition(".")[0]) if "." in path else None):
        if place is not None and there in vars(place):
            return vars(place)[there]
    return None


def _old_path(module_name: str) -> str:
    """Return the path of a module of mxlite behind ``mxnet.``."""
    rest = module_name[len("mxlite.") :]
    return rest[len("legacy.") :] if rest.startswith("legacy.") else rest


def is_module(rest: str) -> bool:
    """Say whether 1.9.1 has the module ``mxnet.<rest>``.

    Parameters
    ----------
    rest : str
        Dotted path behind ``mxnet.``.

    Returns
    -------
    bool
    """
    parent, _, name = f"mxnet.{rest}".rpartition(".")
    return f"mxnet.{rest}" in surface() or isinstance(surface().get(parent, {}).get(name), str)


def resolve(rest: str) -> ModuleType | None:
    """Return the module of mxlite that ``mxnet.<rest>`` is, imported; None if there is none.

    Parameters
    ----------
    rest : str
        Dotted path behind ``mxnet.``, as ``"nd.random"``.

    Returns
    -------
    module or None
    """
    if rest in _MOVED:
        return resolve(_MOVED[rest])
    parent_path, _, name = rest.rpartition(".")
    parent = resolve(parent_path) if parent_path else importlib.import_module("mxlite")
    if parent is None:
        return None
    child = vars(parent).get(name)
    if not (isinstance(child, ModuleType) and child.__name__.startswith("mxlite.")):
        full_name = f"{parent.__name__}.{name}"
        try:
            child = importlib.import_module(full_name)
            guard_all()  # it may have brought others along
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
            return None
    guard(child)
    return child


def moved_below(rest: str) -> dict[str, ModuleType]:
    """Return the submodules of ``mxnet.<rest>`` that mxlite has in another place.

    Parameters
    ----------
    rest : str
        Dotted path behind ``mxnet.``.

    Returns
    -------
    dict of str to module
        By their paths behind ``mxnet.``.
    """
    found = {path: resolve(path) for path in _MOVED if path.rpartition(".")[0] == rest}
    return {path: module for path, module in found.items() if module is not None}


def _imported_by_name(depth: int) -> bool:
    """Say whether the caller's caller is executing ``from module import name``."""
    frame = sys._getframe(depth)
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def missing(module_name: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module.

    Parameters
    ----------
    module_name : str
        As ``"mxlite.gluon"``.

    Returns
    -------
    callable
        Imports the submodules of 1.9.1 on first use, and finds what its files have imported from
        one another. Raises MissingNameError for a name of 1.9.1 that is not built
        (MissingModuleError inside ``from module import name``, where Python replaces the text of
        an AttributeError), UnknownNameError for all other names.
    """
    rest = _old_path(module_name)

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the module's
        if not name.startswith("__"):
            names = surface().get(f"mxnet.{rest}" if rest else "mxnet", {})
            child = f"{rest}.{name}" if rest else name
            if name in names:
                if isinstance(names[name], str):
                    module = resolve(names[name][len("mxnet.") :])
                    if module is not None:
                        setattr(sys.modules[module_name], name, module)
                        return module
                # 1.9.1 has it in a file of the package, mxlite in another one.
                package = sys.modules[module_name.rpartition(".")[0] or "mxlite"]
                if name in vars(package) and rest:
                    return vars(package)[name]
            found = _imported(rest, name)
            if found is not None:
                setattr(sys.modules[module_name], name, found)
                return found
            if name in names:
                kind = MissingModuleError if _imported_by_name(2) else MissingNameError
                raise kind(f"mx.{child}: a name of MXNet {VERSION} that mxlite does not have")
        raise UnknownNameError(module_name, name)

    return __getattr__


def _is_own(value: Any, shown: set[str], name: str) -> bool:
    """Say whether a module's attribute is its own, not something that its file imports."""
    if isinstance(value, ModuleType):
        return name in shown
    home = getattr(value, "__module__", None) or type(value).__module__
    return str(home).partition(".")[0] in ("mxlite", "builtins")


def _public_names(module: ModuleType) -> list[str]:
    """Return what ``dir`` shows: public names of the module and modules that it would import."""
    rest = _old_path(module.__name__)
    names = surface().get(f"mxnet.{rest}" if rest else "mxnet", {})
    have = vars(module)
    shown = {name for name in names if name in have}
    shown.update(
        name
        for name, home in names.items()
        if isinstance(home, str) and hasattr(module, "__path__") and name not in have
        and find_spec(f"{module.__name__}.{name}") is not None
    )  # fmt: skip
    if "__all__" in have:
        shown.update(have["__all__"])
    else:
        shown.update(
            name
            for name, value in have.items()
            if name != "TYPE_CHECKING" and name[0] != "_" and _is_own(value, shown, name)
        )
    return sorted(shown.union(name for name in have if name.startswith("__")))


def guard(module: ModuleType) -> None:
    """Give a module of mxlite the ``__getattr__`` of :func:`missing` and a ``__dir__``.

    A module that has its own keeps it.

    Parameters
    ----------
    module : module
    """
    vars(module).setdefault("__getattr__", missing(module.__name__))
    vars(module).setdefault("__dir__", functools.partial(_public_names, module))


def guard_all() -> None:
    """Guard all modules of mxlite that are imported."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "mxlite" and name != "mxlite._core":
            guard(module)
