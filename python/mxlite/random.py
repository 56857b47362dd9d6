"""Random numbers (MXNet 1.x: ``mxnet.random``): counter-based, one generator per device."""

from __future__ import annotations

import random as _python_random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as _np

from . import _core
from ._files.likeness import check_like
from ._names_1x import attributes as _attributes
from ._typed_init import check_number
from .base import FileFormatError
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

_DEVICE_TYPES = (1, 2, 3, 5)  # CPU, GPU, pinned and shared CPU memory


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Seed the generators. Every new process starts with the same fixed seed.

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
    """Return the states of ``mx.random``, ``numpy.random`` and ``random``, made of plain values."""
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
    """Restore the generators' states that `random_state` returned.

    Raises FileFormatError for anything else; no generator has changed then.
    """
    prepare_random_state(state, "set_random_state")()


def prepare_random_state(state: Any, source: str) -> Callable[[], None]:
    """Check a state of the generators; return the function that restores the state."""
    now = random_state()
    now["python"]["spare"] = None
    check_like(state, now, f"{source}: the random state")
    try:
        seed, devices = state["mxlite"]["seed"], state["mxlite"]["devices"]
        _check_words([seed])
        for entry in devices:
            kind, index, *numbers = entry
            _check_words(entry)
            if kind not in _DEVICE_TYPES or index >= 1 << 31 or len(numbers) != 2:
                raise ValueError(f"no device has the state {entry}")
        own = state["numpy"]
        numpy_state = (own["kind"], own["key"], own["pos"], own["has_gauss"], own["gauss"])
        if not 0 <= own["pos"] <= len(own["key"]):
            raise ValueError(f"position {own['pos']} is outside of NumPy's key")
        _np.random.RandomState(0).set_state(numpy_state)
        own = state["python"]
        python_state = (own["version"], tuple(own["words"].tolist()), own["spare"])
        _python_random.Random(0).setstate(python_state)
        if own["spare"] is not None and not isinstance(own["spare"], float):
            raise TypeError(f"'spare' must be a float or None, got {own['spare']!r}")
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{source}: the random state is not understood: {error}") from error

    def apply() -> None:
        _core.set_random_states(seed, devices)
        _np.random.set_state(numpy_state)
        _python_random.setstate(python_state)

    return apply


def _check_words(numbers: list[Any]) -> None:
    for number in numbers:
        if type(number) is not int or not 0 <= number < 1 << 64:
            raise ValueError(f"numbers must be unsigned integers of 64 bits, got {number!r}")


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
