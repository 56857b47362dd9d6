"""Adds further names of 1.9.1 to mxlite's modules once the alias is installed."""

from __future__ import annotations

import sys

from .._names_1x import AFTER_IMPORT, MOVED, attributes, module_paths, old_path


def add_names() -> None:
    """Add the names that 1.9.1's modules import from each other to all imported modules of mxlite.

    A module with its own ``__getattr__`` or ``__dir__`` keeps them. If ``mxnet`` is imported, its
    submodules are also added to ``sys.modules``, where libraries look for modules in use.
    """
    loaded = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "mxlite" and name != "mxlite._core":
            found, shown = attributes(module.__name__)
            vars(module).setdefault("__getattr__", found)
            vars(module).setdefault("__dir__", shown)
            loaded[old_path(name)] = module
    if "mxnet" in sys.modules:
        for path in module_paths():
            if (here := MOVED.get(path, path)) in loaded:
                sys.modules.setdefault(f"mxnet.{path}", loaded[here])


def add_names_after_imports() -> None:
    """Add the names now, and whenever a module of mxlite is imported on first use."""
    if add_names not in AFTER_IMPORT:
        AFTER_IMPORT.append(add_names)
    add_names()
