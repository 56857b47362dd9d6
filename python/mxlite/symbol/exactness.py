"""Checks for symbols that stand for arrays: operations that differ for the two are refused.

``len(x)``, ``x[0]`` and ``for row in x`` of an array go along its first axis, those of a symbol
along its outputs. A forward that is composed to be written to a file must mean the same for both.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base import NotSupportedError

__all__ = ["check_exact", "exact"]


class _Local(threading.local):
    on = False


_local = _Local()


@contextmanager
def exact() -> Iterator[None]:
    """Refuse operations that differ for arrays and symbols, in code outside of mxlite."""
    outer, _local.on = _local.on, True
    try:
        yield
    finally:
        _local.on = outer


def check_exact(symbol: Any, what: str) -> None:
    """Refuse a question about the only output of a symbol that comes from outside of mxlite."""
    if not _local.on or len(symbol._outputs) != 1:
        return
    module = sys._getframe(2).f_globals.get("__name__", "")
    if module != "mxlite" and not module.startswith("mxlite."):
        raise NotSupportedError(
            f"{what} of the symbol {symbol.name} stands for that of an array, whose shape a symbol "
            "does not know"
        )
