"""Random numbers (MXNet 1.x: ``mxnet.random``): counter-based, one generator per device."""

from __future__ import annotations

import random as _python_random
from typing import TYPE_CHECKING, Any

import numpy as _np

from . import _core
from ._names_1x import attributes as _attributes
from ._typed_init import check_number
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
    "random_state",
    "seed",
    "set_random_state",
    "shuffle",
    "uniform",
]


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Seed the generators. Every fresh process starts with the same fixed seed.

    Parameters
    ----------
    seed_state : int
    ctx : Context or 'all'
        'all': every device gets its own stream derived from the seed and the device's index.
        A device: only its stream is seeded, with the numbers that 'all' gives to ``mx.cpu(0)``
        and ``mx.gpu(0)``, so equal seeds give equal numbers on all devices.
    """
    check_number("random.seed", "seed_state", seed_state)
    value = int(seed_state) & 0xFFFFFFFFFFFFFFFF
    _core.seed(value, None if isinstance(ctx, str) and ctx == "all" else ctx)


def random_state() -> dict[str, Any]:
    """Return the states of ``mx.random``, ``numpy.random`` and ``random``.

    Returns
    -------
    dict
        Numbers, strings and arrays.
    """
    seed, devices = _core.random_states()
    legacy: Any = _np.random.get_state(legacy=False)
    version, words, spare = _python_random.getstate()
    return {
        "mxlite": {"seed": seed, "devices": devices},
        "numpy": {
            "kind": legacy["bit_generator"],
            "key": _np.array(legacy["state"]["key"], _np.uint32),
            "pos": int(legacy["state"]["pos"]),
            "has_gauss": int(legacy["has_gauss"]),
            "gauss": float(legacy["gauss"]),
        },
        "python": {"version": version, "words": _np.array(words, _np.uint32), "spare": spare},
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Set the generators back to what `random_state` returned.

    Parameters
    ----------
    state : dict
    """
    _core.set_random_states(state["mxlite"]["seed"], state["mxlite"]["devices"])
    own = state["numpy"]
    _np.random.set_state((own["kind"], own["key"], own["pos"], own["has_gauss"], own["gauss"]))
    own = state["python"]
    _python_random.setstate((own["version"], tuple(own["words"].tolist()), own["spare"]))


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
