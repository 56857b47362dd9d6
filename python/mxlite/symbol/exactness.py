"""During an export, rejects operations that differ between arrays and symbols.

``len(x)``, ``x[0]`` and ``for row in x`` use the first axis of an array, but the outputs of a
symbol. A forward that is exported by calling it on symbols must mean the same for both.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base import NotSupportedError


class _Local(threading.local):
    on = False


_local = _Local()


@contextmanager
def exact() -> Iterator[None]:
    """Make `check_exact` raise within a with block, for calls from code outside mxlite."""
    outer, _local.on = _local.on, True
    try:
        yield
    finally:
        _local.on = outer


def check_exact(symbol: Any, what: str) -> None:
    """Within `exact`, raise if code outside mxlite uses ``what`` of a symbol with one output."""
    if not _local.on or len(symbol._outputs) != 1:
        return
    module = sys._getframe(2).f_globals.get("__name__", "")
    if module != "mxlite" and not module.startswith("mxlite."):
        raise NotSupportedError(
            f"{what} of the symbol {symbol.name} stands for that of an array, whose shape a symbol "
            "does not know"
        )
