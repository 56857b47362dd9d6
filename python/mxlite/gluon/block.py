"""Blocks: the names of ``mxnet.gluon.block``."""

from __future__ import annotations

from .base_block import Block
from .hybrid_block import HybridBlock
from .scope import BlockScope as _BlockScope  # noqa: F401 - scripts of 1.x reach for it
from .symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
