"""NumPy shapes (``mx.np_shape``), which can be switched on; NumPy arrays are not supported.

Arrays without elements and without dimensions work always. The switch says how shapes of symbols
are read and printed: off, 0 is an unknown dimension and () an unknown shape; on, -1 and None are,
and 0 and () mean what they say.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, TypeVar

from .base import NotSupportedError, TypeError_

__all__ = [
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "np_array",
    "np_shape",
    "reset_np",
    "set_np",
    "set_np_shape",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_T = TypeVar("_T")
_EVERY_THREAD = 2


class _Switch(threading.local):
    """Whether NumPy shapes are on in a thread; if None, the default of the process applies."""

    shape: bool | None = None


_switch = _Switch()
_everywhere = [False]


def is_np_shape() -> bool:
    """Return whether NumPy shapes are on in this thread."""
    own = _switch.shape
    return _everywhere[0] if own is None else own


def set_np_shape(active: int) -> bool:
    """Switch NumPy shapes on or off in this thread; return the previous state.

    2 switches them on in all threads that did not choose themselves; a later False ends that, too.
    """
    before = is_np_shape()
    if active == _EVERY_THREAD and active is not True:
        _everywhere[0], _switch.shape = True, None
    else:
        if not active:
            _everywhere[0] = False
        _switch.shape = bool(active)
    return before


def is_np_array() -> bool:
    """Return False, because NumPy arrays are not supported."""
    return False


def is_np_default_dtype() -> bool:
    """Return False, because float64 is not supported as the default type."""
    return False


def _refuse(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what}: numpy mode (mx.np, mx.npx) is not part of mxlite, use mx.nd arrays"
    )


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Switch NumPy shapes on or off; raise NotSupportedError if array or dtype is True."""
    if array or dtype:
        raise _refuse("set_np")
    set_np_shape(shape)


def reset_np() -> None:
    """Switch NumPy shapes off."""
    set_np(shape=False, array=False)


class _NumpyShapeScope:
    """A ``with`` block, or a decorator of functions, in which NumPy shapes are on or off."""

    def __init__(self, active: bool) -> None:
        self._active = bool(active)
        self._before: list[bool | None] = []

    def __enter__(self) -> _NumpyShapeScope:
        self._before.append(_switch.shape)
        _switch.shape = self._active
        return self

    def __exit__(self, *exc: object) -> None:
        _switch.shape = self._before.pop()

    def __call__(self, func: Callable[..., _T]) -> Callable[..., _T]:
        return _within_shapes(func, self._active)


class _NumpyArrayScope:
    """The class behind ``np_array`` in 1.x; it only accepts switching arrays off."""

    def __init__(self, is_np_array: bool) -> None:
        if is_np_array:
            raise _refuse("np_array")
        self._is_np_array = False

    def __enter__(self) -> _NumpyArrayScope:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, func: _T) -> _T:
        return func


def np_shape(active: bool = True) -> _NumpyShapeScope:
    """Return a ``with`` block or decorator that switches NumPy shapes on or off."""
    return _NumpyShapeScope(active)


def np_array(active: bool = True) -> _NumpyArrayScope:
    """Return a ``with`` block with NumPy arrays off; raise NotSupportedError if active."""
    return _NumpyArrayScope(active)


def _within_shapes(func: Callable[..., _T], active: bool) -> Callable[..., _T]:
    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> _T:
        with np_shape(active):
            return func(*args, **kwargs)

    return within


def _checked(what: str, func: Any) -> None:
    if not callable(func):
        raise TypeError_(f"{what}: func must be a function or class, got {func!r}")


def use_np_shape(func: Any) -> Any:
    """Switch NumPy shapes on while a function, or any method of a class, runs.

    Returns the function or the class, which is changed in place.
    """
    _checked("use_np_shape", func)
    if not isinstance(func, type):
        return _within_shapes(func, True)
    for name, member in list(vars(func).items()):
        if isinstance(member, (staticmethod, classmethod)):
            setattr(func, name, type(member)(_within_shapes(member.__func__, True)))
        elif isinstance(member, property):
            get, put, drop = (
                None if part is None else _within_shapes(part, True)
                for part in (member.fget, member.fset, member.fdel)
            )
            setattr(func, name, property(get, put, drop, member.__doc__))
        elif callable(member) and not isinstance(member, type):
            setattr(func, name, _within_shapes(member, True))
    return func


def _refuse_decorated(what: str, func: Any) -> Any:
    """Allow the definition of a function or class whose calls raise NotSupportedError."""
    _checked(what, func)
    error = f"{what}: {getattr(func, '__qualname__', repr(func))}"
    if isinstance(func, type):

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            raise _refuse(error)

        func.__init__ = __init__  # type: ignore[misc]
        return func

    @functools.wraps(func)
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise _refuse(error)

    return refused


def use_np(func: Callable[..., _T]) -> Any:
    """Decorate a function or class so that its use raises, because numpy mode is not supported.

    A file with decorated functions can be imported; only they do not work: the result raises
    NotSupportedError when it is called or an object of it is made.
    """
    return _refuse_decorated("use_np", func)


def use_np_array(func: Callable[..., _T]) -> Any:
    """Decorate a function or class like `use_np`."""
    return _refuse_decorated("use_np_array", func)
