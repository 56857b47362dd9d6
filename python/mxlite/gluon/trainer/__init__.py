"""Trainers: the names of ``mxnet.gluon.trainer``."""

from __future__ import annotations

from .checks import StaleGradientWarning, TrainerModeError
from .trainer import Trainer

__all__ = ["StaleGradientWarning", "Trainer", "TrainerModeError"]
