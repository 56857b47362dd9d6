"""Random numbers (MXNet 1.x: ``mxnet.random``): counter-based, one generator per device."""

from __future__ import annotations

from typing import Any

from . import _core
from .ndarray.random import (
    exponential,
    gamma,
    generalized_negative_binomial,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    shuffle,
    uniform,
)

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "shuffle",
    "uniform",
]


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Seed the generators. Every fresh process starts with the same fixed seed.

    Parameters
    ----------
    seed_state : int
    ctx : Context or 'all'
        'all': every device gets its own stream derived from the seed.
    """
    value = int(seed_state) & 0xFFFFFFFFFFFFFFFF
    _core.seed(value, None if isinstance(ctx, str) and ctx == "all" else ctx)
