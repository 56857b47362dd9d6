"""Random arrays of ``mx.npx.random``."""

from __future__ import annotations

from ..numpy.random import bernoulli, normal_n, seed, uniform_n

__all__ = ["bernoulli", "normal_n", "seed", "uniform_n"]
