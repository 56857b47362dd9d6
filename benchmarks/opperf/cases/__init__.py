"""Cases of the operator benchmark; imports no mxlite, because PyTorch's process reads it, too."""

from __future__ import annotations

from . import arrays, elementwise, layers
from .case import Array, Case

ALL: list[Case] = elementwise.CASES + arrays.CASES + layers.CASES

__all__ = ["ALL", "Array", "Case"]
