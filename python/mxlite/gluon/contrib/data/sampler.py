"""Samplers of ``mx.gluon.contrib.data``."""

from __future__ import annotations

from ...data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
