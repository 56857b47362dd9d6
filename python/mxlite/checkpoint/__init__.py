"""Checkpoints from which training continues bit for bit: ``docs/howto/checkpoints.md``."""

from __future__ import annotations

from .manager import CheckpointManager, load, save, verify
from ..random import random_state, set_random_state

__all__ = ["CheckpointManager", "load", "random_state", "save", "set_random_state", "verify"]
