"""Executors: symbols bound to arrays (MXNet 1.x: ``mxnet.executor``)."""

from __future__ import annotations

from .cached_op import CachedOp
from .executor import Executor

__all__ = ["CachedOp", "Executor"]
