"""The names of MXNet 1.9.1: where mxlite defines them, and an error for names that it lacks.

Two lists (``names_1_9_1.json``, ``imports_1_9_1.json``) determine which modules are imported on
first use, which names raise an error, and what ``docs/migrate/compat.md`` shows.
"""

from __future__ import annotations

from .lists import MOVED, VERSION, is_module, module_paths, names_of, old_path
from .lookup import (
    AFTER_IMPORT,
    MissingModuleError,
    MissingNameError,
    UnknownNameError,
    attributes,
    moved_below,
    not_built,
    own_names,
    resolve,
)

__all__ = [
    "AFTER_IMPORT",
    "MOVED",
    "VERSION",
    "MissingModuleError",
    "MissingNameError",
    "UnknownNameError",
    "attributes",
    "is_module",
    "module_paths",
    "moved_below",
    "names_of",
    "not_built",
    "old_path",
    "own_names",
    "resolve",
]
