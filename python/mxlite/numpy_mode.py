"""The switches of numpy mode: NumPy shapes (``mx.np_shape``), arrays (``mx.np_array``), dtypes.

The class of existing arrays decides the semantics of operators and functions; the switches do not.
If arrays are on, Gluon, ``io`` and data loaders make ``mx.np.ndarray`` unless an input determines
the class. Unknown dimensions and shapes of symbols are -1 and None if shapes are on, else 0 and ().
Arrays without elements or dimensions work in both cases. If dtypes are on, the default is float64.

`set_np` sets the switches of the process, which apply to each thread that has not set its own;
``with`` blocks and decorators set those of their thread.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

from . import _core
from ._core import NDArray
from .base import TypeError_, ValueError_

__all__ = [
    "Scope",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "np_array",
    "np_shape",
    "of_mode",
    "reset_np",
    "set_np",
    "set_np_shape",
    "switches",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_T = TypeVar("_T")
_EVERY_THREAD = 2


class _Own(threading.local):
    """The switches of a thread; the process's switch applies if the thread's one is None."""

    shape: bool | None = None
    array: bool | None = None
    dtype: bool | None = None


_own = _Own()
_process = {"shape": False, "array": False, "dtype": False}


def is_np_shape() -> bool:
    """Return whether NumPy shapes are on in this thread."""
    own = _own.shape
    return _process["shape"] if own is None else own


def is_np_array() -> bool:
    """Return whether Gluon and iterators make ``mx.np.ndarray`` in this thread."""
    own = _own.array
    return _process["array"] if own is None else own


def is_np_default_dtype() -> bool:
    """Return whether ``mx.np`` makes float64 arrays by default in this thread, not float32."""
    own = _own.dtype
    return _process["dtype"] if own is None else own


def of_mode(array: NDArray) -> NDArray:
    """Return a dense array as ``mx.np.ndarray`` on the same memory if NumPy arrays are on."""
    return _core.with_numpy(array, True) if is_np_array() else array


def set_np_shape(active: int) -> bool:
    """Switch NumPy shapes on or off in this thread; return the previous state.

    2 switches them on in all threads that have not set their own switch, until a later False.
    """
    before = is_np_shape()
    if active == _EVERY_THREAD and active is not True:
        _process["shape"], _own.shape = True, None
    else:
        if not active:
            _process["shape"] = False
        _own.shape = bool(active)
    return before


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Switch numpy mode on in the process, also for threads that start later.

    Parameters
    ----------
    shape, array : bool
        Whether NumPy shapes and arrays are on.
    dtype : bool
        Whether functions of ``mx.np`` that make arrays without a dtype make float64, as in MXNet
        2.0. Integers in floating functions and parameters of Gluon stay float32.

    Raises
    ------
    ValueError
        If ``array`` is True and ``shape`` is not.
    """
    if array and not shape:
        raise ValueError_("set_np: shape must be True if array is True, got False")
    _process.update(shape=bool(shape), array=bool(array), dtype=bool(dtype))
    _own.shape = _own.array = _own.dtype = None


def reset_np() -> None:
    """Switch numpy mode off."""
    set_np(shape=False, array=False)


def switches() -> dict[str, bool]:
    """Return the state of this thread, which `Scope` accepts in another thread or process."""
    return {"shape": is_np_shape(), "array": is_np_array(), "dtype": is_np_default_dtype()}


class Scope:
    """A ``with`` block, or a decorator of functions, that sets switches while it runs."""

    def __init__(self, states: Mapping[str, bool]) -> None:
        self._states = states
        self._before: list[dict[str, bool | None]] = []

    def __enter__(self) -> Scope:
        own = vars(_own)
        self._before.append({name: own.get(name) for name in self._states})
        own.update(self._states)
        return self

    def __exit__(self, *exc: object) -> None:
        vars(_own).update(self._before.pop())

    def __call__(self, func: Callable[..., _T]) -> Callable[..., _T]:
        """Return ``func`` wrapped so that this scope's switches are set during each call."""
        return _within(func, self._states)


class _NumpyShapeScope(Scope):
    def __init__(self, is_np_shape: bool) -> None:
        super().__init__({"shape": bool(is_np_shape)})


class _NumpyArrayScope(Scope):
    def __init__(self, is_np_array: bool) -> None:
        super().__init__({"array": bool(is_np_array)})


def np_shape(active: bool = True) -> Scope:
    """Return a ``with`` block or decorator that switches NumPy shapes on or off."""
    return _NumpyShapeScope(active)


def np_array(active: bool = True) -> Scope:
    """Return a ``with`` block or decorator that switches NumPy arrays on or off."""
    return _NumpyArrayScope(active)


def _within(func: Callable[..., _T], states: Mapping[str, bool]) -> Callable[..., _T]:
    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> _T:
        with Scope(states):
            return func(*args, **kwargs)

    return within


def _decorated(what: str, func: Any, states: Mapping[str, bool]) -> Any:
    """Return a function that runs with the states, or a class whose methods do."""
    if not callable(func):
        raise TypeError_(f"{what}: func must be a function or class, got {func!r}")
    if not isinstance(func, type):
        return _within(func, states)
    for name, member in list(vars(func).items()):
        if isinstance(member, (staticmethod, classmethod)):
            setattr(func, name, type(member)(_within(member.__func__, states)))
        elif isinstance(member, property):
            get, put, drop = (
                None if part is None else _within(part, states)
                for part in (member.fget, member.fset, member.fdel)
            )
            setattr(func, name, property(get, put, drop, member.__doc__))
        elif callable(member) and not isinstance(member, type):
            setattr(func, name, _within(member, states))
    return func


def use_np_shape(func: Any) -> Any:
    """Switch NumPy shapes on while a function, or any method of a class, runs.

    Returns the function or the class, which is changed in place.
    """
    return _decorated("use_np_shape", func, {"shape": True})


def use_np_array(func: Any) -> Any:
    """Switch NumPy arrays on while a function, or any method of a class, runs; see `use_np`."""
    return _decorated("use_np_array", func, {"array": True})


def use_np(func: Any) -> Any:
    """Switch NumPy shapes and arrays on while a function, or any method of a class, runs.

    Returns the function or the class, which is changed in place.
    """
    return _decorated("use_np", func, {"shape": True, "array": True})
