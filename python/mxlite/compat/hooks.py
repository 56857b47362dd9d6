"""Names of 1.9.1 in every module: what scripts find once the alias is installed."""

from __future__ import annotations

import sys

from .._names_1x import AFTER_IMPORT, MOVED, attributes, module_paths, old_path

__all__ = ["add_names", "add_names_after_imports"]


def add_names() -> None:
    """Give all imported modules of mxlite the names that 1.9.1's files import from one another.

    A module that has its own ``__getattr__`` or ``__dir__`` keeps it. Once ``mxnet`` is imported,
    its submodules are in ``sys.modules`` as well: libraries look there for the modules in use.
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
    """Add the names now, and whenever a module is imported because a script asks for it."""
    if add_names not in AFTER_IMPORT:
        AFTER_IMPORT.append(add_names)
    add_names()
