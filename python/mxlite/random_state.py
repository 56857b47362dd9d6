"""Where the random generators of mxlite, NumPy and Python are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from . import _core

__all__ = ["random_state", "set_random_state"]


def random_state() -> dict[str, Any]:
    """Return the states of ``mx.random``, ``numpy.random`` and ``random``.

    Returns
    -------
    dict
        Numbers, strings and arrays.
    """
    seed, devices = _core.random_states()
    legacy: Any = np.random.get_state(legacy=False)
    version, words, spare = random.getstate()
    return {
        "mxlite": {"seed": seed, "devices": devices},
        "numpy": {
            "kind": legacy["bit_generator"],
            "key": np.array(legacy["state"]["key"], np.uint32),
            "pos": int(legacy["state"]["pos"]),
            "has_gauss": int(legacy["has_gauss"]),
            "gauss": float(legacy["gauss"]),
        },
        "python": {"version": version, "words": np.array(words, np.uint32), "spare": spare},
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Set the generators back to what `random_state` returned.

    Parameters
    ----------
    state : dict
    """
    _core.set_random_states(state["mxlite"]["seed"], state["mxlite"]["devices"])
    own = state["numpy"]
    np.random.set_state((own["kind"], own["key"], own["pos"], own["has_gauss"], own["gauss"]))
    own = state["python"]
    random.setstate((own["version"], tuple(own["words"].tolist()), own["spare"]))
