"""Names that 1.x scripts use and that NumPy has removed since."""

from __future__ import annotations

from typing import Any

import numpy as np

_TEXT_FROMSTRING = np.fromstring


def _fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "") -> Any:
    """``np.fromstring`` with its binary mode, which NumPy 2.3 removed."""
    if sep == "":
        data = string.encode("latin1") if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count).copy()
    return _TEXT_FROMSTRING(string, dtype, count, sep=sep)


def add_numpy_names() -> None:
    """Add the names that this version of NumPy lacks; existing names are kept."""
    removed: dict[str, Any] = {
        **{kind.__name__: kind for kind in (bool, int, float, complex, object, str)},
        "float_": np.float64,
        "complex_": np.complex128,
        "Inf": np.inf,
        "Infinity": np.inf,
        "infty": np.inf,
        "NaN": np.nan,
        "NAN": np.nan,
        "product": np.prod,
        "cumproduct": np.cumprod,
        "alltrue": np.all,
        "sometrue": np.any,
        "round_": np.round,
        "asscalar": lambda array: array.item(),
    }
    for name, value in removed.items():
        if name not in np.__dict__:  # getattr would warn
            setattr(np, name, value)
    if np.lib.NumpyVersion(np.__version__) >= "2.3.0":
        np.fromstring = _fromstring  # type: ignore[assignment]
