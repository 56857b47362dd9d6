"""Further samplers (``mx.gluon.contrib.data``)."""

from __future__ import annotations

from . import sampler
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler"]
