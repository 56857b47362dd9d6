"""Executors: symbols bound to arrays (MXNet 1.x: ``mxnet.executor``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from . import binding as binding
from .cached_op import CachedOp
from .executor import Executor

__all__ = ["CachedOp", "Executor"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
