"""NumPy's functions on np arrays: ``__array_function__``, ``__array_ufunc__``, namespaces.

If a function of official NumPy is called with np arrays, it calls this package's function of the
same name. If there is none, the official function runs on host copies (`fallback`).
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from ..base import NotSupportedError
from .fallback import call_official
from .ndarray import attach, ndarray

_PACKAGE = __name__.rpartition(".")[0]
_MODULES = {"numpy": "", "numpy.linalg": ".linalg", "numpy.random": ".random"}

# Functions of this package that compute ``ufunc.reduce``, by the name of the ufunc.
_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}


@functools.cache
def _own_function(module: str, name: str) -> Any:
    """Return the function of this package, or None."""
    if module not in _MODULES:
        return None
    return getattr(importlib.import_module(_PACKAGE + _MODULES[module]), name, None)


def _foreign(values: Any) -> bool:
    """Return whether the values include arrays of other classes."""
    return any(hasattr(v, "__array__") and not isinstance(v, (ndarray, np.generic)) for v in values)


def _array_function(self: ndarray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Call the function of this package for an official function with np arrays."""
    if not all(issubclass(t, ndarray) for t in types):
        return NotImplemented
    own = _own_function(func.__module__, func.__name__)
    if own is not None:
        return own(*args, **kwargs)
    return call_official(func.__name__, func, args, kwargs)


def _array_ufunc(self: ndarray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Call the function of this package for an official ufunc, or one of its methods."""
    out = kwargs.pop("out", None)
    if _foreign(inputs) or (out is not None and not all(isinstance(o, ndarray) for o in out)):
        return NotImplemented
    if out is not None and len(out) == 1:
        kwargs["out"] = out[0]
    elif out is not None:
        raise NotSupportedError(f"{ufunc.__name__}: out must be one array, got {len(out)}")
    run = _METHODS.get(method)
    return NotImplemented if run is None else run(ufunc, inputs, kwargs)


def _call(ufunc: Any, inputs: Any, kwargs: Any) -> Any:
    own = _own_function("numpy", ufunc.__name__)
    if own is not None:
        return own(*inputs, **kwargs)
    return call_official(ufunc.__name__, ufunc, inputs, kwargs)


def _reduce(ufunc: Any, inputs: Any, kwargs: Any) -> Any:
    own = _own_function("numpy", _REDUCTIONS.get(ufunc.__name__, ""))
    extra = {k for k, v in kwargs.items() if v is not None} - {"axis", "keepdims", "dtype", "out"}
    if own is None or extra:
        return call_official(f"{ufunc.__name__}.reduce", ufunc.reduce, inputs, kwargs)
    kwargs = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
    kwargs.setdefault("axis", 0)
    return own(*inputs, **kwargs)


def _accumulate(ufunc: Any, inputs: Any, kwargs: Any) -> Any:
    own = _own_function("numpy", _RUNNING.get(ufunc.__name__, ""))
    if own is None:
        return call_official(f"{ufunc.__name__}.accumulate", ufunc.accumulate, inputs, kwargs)
    kwargs.setdefault("axis", 0)
    return own(*inputs, **kwargs)


def _outer(ufunc: Any, inputs: Any, kwargs: Any) -> Any:
    first, second = inputs
    if isinstance(first, ndarray):
        first = first.reshape(first.shape + (1,) * np.ndim(second))
    return _call(ufunc, (first, second), kwargs)


def _at(ufunc: Any, inputs: Any, kwargs: Any) -> None:
    target, *rest = inputs

    def changed(values: Any, *others: Any) -> Any:
        ufunc.at(values, *others)
        return values

    target[...] = call_official(f"{ufunc.__name__}.at", changed, (target, *rest), kwargs)


def _reduceat(ufunc: Any, inputs: Any, kwargs: Any) -> Any:
    return call_official(f"{ufunc.__name__}.reduceat", ufunc.reduceat, inputs, kwargs)


_METHODS = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _at,
    "reduceat": _reduceat,
}


def _array_namespace(self: ndarray, /, *, api_version: str | None = None) -> Any:
    """Return the functions of the Python array API standard: ``mx.np.array_api``."""
    namespace = importlib.import_module(f"{_PACKAGE}.array_api")
    namespace.check_version(api_version)
    return namespace


attach(
    {
        "__array_function__": _array_function,
        "__array_namespace__": _array_namespace,
        "__array_priority__": 1000.0,
        "__array_ufunc__": _array_ufunc,
    }
)
