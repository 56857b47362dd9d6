"""Blocks: the names of ``mxnet.gluon.block``."""

from __future__ import annotations

from .block import Block
from .formats import flatten as _flatten  # noqa: F401 - libraries for 1.x reach for these
from .formats import regroup as _regroup  # noqa: F401
from .hybrid_block import HybridBlock
from .scope import BlockScope as _BlockScope  # noqa: F401
from .symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
