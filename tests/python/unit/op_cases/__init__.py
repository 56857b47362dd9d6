"""Rows of the op table: one module per family exports CASES. How to write one: op_table.py."""

from __future__ import annotations

import importlib
import pkgutil

from op_table import Case


def all_cases() -> list[Case]:
    """Return the rows of all modules in this package."""
    cases: list[Case] = []
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        cases += importlib.import_module(f"{__name__}.{module}").CASES
    return cases
