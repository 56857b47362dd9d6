"""The inputs of a case: the same numbers for every system."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Case

SEED = 41  # as opperf of MXNet 1.x


def arrays(case: Case, dtype: str) -> dict[str, Any]:
    """Return the arrays by name.

    Parameters
    ----------
    case : Case
        The row.
    dtype : str
        Type of arrays that do not name their own.

    Returns
    -------
    dict
        NumPy arrays.
    """
    rng = np.random.default_rng(SEED)
    made: dict[str, Any] = {}
    for name, spec in case.arrays.items():
        if spec.kind == "index":
            numbers = rng.integers(0, spec.high, spec.shape)
        elif spec.kind == "positive":
            numbers = rng.uniform(0.5, 1.5, spec.shape)
        elif spec.kind == "unit":
            numbers = rng.uniform(-0.9, 0.9, spec.shape)
        else:
            numbers = rng.standard_normal(spec.shape)
        made[name] = numbers.astype(spec.dtype or dtype)
    if case.setup:
        exec(case.setup, {"np": np}, made)  # a statement of the table beside this file
    return {name: np.ascontiguousarray(value) for name, value in made.items()}
