"""Functions that official NumPy computes on host copies.

Each name in `FALLBACKS` is a function of this module. The function copies np arrays to the host,
calls the official function, and copies resulting arrays to the context of the first argument. These
functions have no gradient and cannot run inside a hybridized forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import autograd
from ..base import NotSupportedError, TypeError_, ValueError_
from ..ndarray import NDArray
from .arguments import as_array, from_host, refuse_traced, set_name
from .ndarray import ndarray

#: Names of the functions.
FALLBACKS = """
    apply_along_axis apply_over_axes convolve correlate frexp histogram2d histogram_bin_edges
    histogramdd i0 min_scalar_type mirr npv packbits piecewise poly polyadd polydiv polyfit polyint
    polymul polysub ppmt pv rate roots spacing trim_zeros unpackbits vander
    """.split()

__all__ = [*FALLBACKS]  # noqa: PLE0604 - a table of names


class _Copies:
    """Converts the arguments of one call to host copies, and its result back."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.ctx: Any = None

    def to_host(self, value: Any) -> Any:
        """Return the value with official arrays in place of np arrays, also inside containers."""
        if isinstance(value, ndarray):
            self._check(value)
            if self.ctx is None:
                self.ctx = value.ctx
            return value.asnumpy()
        if isinstance(value, NDArray):
            as_array(value, self.who)  # raises
        if isinstance(value, (list, tuple)):
            parts = [self.to_host(part) for part in value]
            return type(value)(parts) if type(value) in (list, tuple) else value
        if isinstance(value, dict):
            return {key: self.to_host(part) for key, part in value.items()}
        return value

    def _check(self, array: ndarray) -> None:
        refuse_traced(array, self.who, "official NumPy needs the values")
        if autograd.is_recording() and (array._recorded or array._grad_req):
            raise ValueError_(
                f"{self.who}: arrays must need no gradient because official NumPy computes this "
                "function, got a recorded array; call it on a.detach() or under autograd.pause()"
            )

    def from_host(self, value: Any) -> Any:
        """Return np arrays in place of official ones, also inside containers."""
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "biuf":
                raise TypeError_(
                    f"{self.who}: the result must have a dtype of mx.np, got {value.dtype}; call "
                    "the official function on a.asnumpy()"
                )
            return from_host(value, self.ctx)
        if isinstance(value, tuple):
            parts = [self.from_host(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [self.from_host(part) for part in value]
        return value


def call_official(who: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call an official function on host copies of np arrays, and convert its result back.

    Resulting arrays become np arrays on the context of the first argument; scalars stay official
    scalars. If ``out`` is an np array, the result is written into it.

    Raises
    ------
    ValueError
        If an argument needs a gradient while autograd records.
    TypeError
        If the result has a dtype that np arrays cannot have.
    """
    copies = _Copies(who)
    out = kwargs.get("out")
    if isinstance(out, ndarray):
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    host_args = [copies.to_host(value) for value in args]
    host_kwargs = {name: copies.to_host(value) for name, value in kwargs.items()}
    result = copies.from_host(function(*host_args, **host_kwargs))
    if not isinstance(out, ndarray):
        return result
    out[...] = result
    return out


def _make(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        official = getattr(np, name, None)
        if official is None:
            raise NotSupportedError(
                f"{name}: the installed NumPy must have numpy.{name}, got NumPy "
                f"{np.__version__} without it"
            )
        return call_official(name, official, args, kwargs)

    doc = f"""Call NumPy's ``{name}`` on copies of the values.

    There is no gradient.

    Parameters
    ----------
    *args, **kwargs
        As in NumPy, whose documentation describes them; arrays may be np arrays.

    Returns
    -------
    ndarray, number or tuple of these
        As in NumPy.

    Raises
    ------
    ValueError
        If an argument needs a gradient while autograd records.
    """
    return set_name(function, name, doc)


globals().update({name: _make(name) for name in FALLBACKS})
