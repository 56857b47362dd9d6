"""Keywords of iterators."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from ..base import suggestion

__all__ = ["known_options"]


def known_options(name: str, given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the keywords that an iterator has; a warning names each other one.

    1.x ignores them silently, and scripts hand on what only some iterators take.

    Parameters
    ----------
    name : str
        Name of the iterator.
    given : dict
    known : iterable of str

    Returns
    -------
    dict
    """
    known = list(known)
    for key in given:
        if key not in known:
            warnings.warn(
                f"{name}: unknown parameter {key!r} is ignored{suggestion(key, known)}",
                UserWarning,
                stacklevel=3,
            )
    return {key: value for key, value in given.items() if key in known}
