"""Layers (``mx.gluon.nn``)."""

from __future__ import annotations

from ..block import Block, HybridBlock, SymbolBlock
from .activations import *
from .activations import __all__ as _activations
from .basic_layers import *
from .basic_layers import __all__ as _basic
from .conv_layers import *
from .conv_layers import __all__ as _conv
from .pool_layers import *
from .pool_layers import __all__ as _pool

__all__ = ["Block", "HybridBlock", "SymbolBlock", *_activations, *_basic, *_conv, *_pool]
