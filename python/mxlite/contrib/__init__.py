"""``mx.contrib``: operators of ``mx.nd.contrib`` and ``mx.sym.contrib`` by their older names."""

from __future__ import annotations

from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol

nd = ndarray
sym = symbol

__all__ = ["nd", "ndarray", "sym", "symbol"]
