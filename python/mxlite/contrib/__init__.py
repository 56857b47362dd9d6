"""``mx.contrib``: operators of ``mx.nd.contrib`` and ``mx.sym.contrib`` by their older names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol

nd = ndarray
sym = symbol

__all__ = ["nd", "ndarray", "sym", "symbol"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
