"""Layers whose parameters are divided among processes (``mx.gluon.contrib.parallel``)."""

from __future__ import annotations

from ...parallel import layers
from ...parallel.layers import *  # noqa: F403

__all__ = layers.__all__
