"""``mx.model``: `FeedForward` and checkpoints of symbols."""

from __future__ import annotations

from ..module.checkpoint_files import BatchEndParam, load_checkpoint, load_params, save_checkpoint
from .feed_forward import FeedForward

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]
