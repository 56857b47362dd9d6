"""Operators on images that are ``mx.np`` arrays, and the functions of ``mx.image``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core, image
from .calls import numpy_operator

_PREFIX = "_image_"
OPERATORS = {name[len(_PREFIX) :]: name for name in _core.all_ops() if name.startswith(_PREFIX)}

globals().update({name: getattr(image, name) for name in image.__all__})
globals().update({name: numpy_operator(name, op) for name, op in OPERATORS.items()})
__all__ = [*OPERATORS, *(name for name in image.__all__ if not name.startswith("_"))]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a function of a table (declaration for type checkers)."""
