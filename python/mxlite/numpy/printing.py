"""Options for printing arrays."""

from __future__ import annotations

from typing import Any

import numpy as onp

__all__ = ["set_printoptions"]


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, **kwarg: Any
) -> None:
    """Set how arrays are printed: the options of official NumPy, which they share.

    Parameters
    ----------
    precision : int, optional
        Digits of floats.
    threshold : int, optional
        Number of elements from which on a summary is printed.
    **kwarg
        Further options of ``numpy.set_printoptions``.
    """
    onp.set_printoptions(precision=precision, threshold=threshold, **kwarg)
