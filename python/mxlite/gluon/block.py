"""Blocks: the names of ``mxnet.gluon.block``."""

from __future__ import annotations

from .base_block import Block
from .hybrid_block import HybridBlock
from .symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
