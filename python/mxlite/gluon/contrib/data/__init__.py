"""Further samplers and data sets (``mx.gluon.contrib.data``)."""

from __future__ import annotations

from . import sampler, text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler", "text"]
