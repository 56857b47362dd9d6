"""Small utilities of ``mx.util``: folders, environment variables, numpy-mode questions."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, TypeVar

from .base import DeviceError, NotSupportedError, TypeError_, ValueError_
from .context import Context, gpu_memory_info, num_gpus

__all__ = [
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "makedirs",
    "np_array",
    "np_shape",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_T = TypeVar("_T")


def makedirs(path: str) -> None:
    """Create a folder and its parents; an existing folder is fine.

    Parameters
    ----------
    path : str
        The folder; ``~`` is expanded.
    """
    os.makedirs(os.path.expanduser(path), exist_ok=True)


def getenv(name: str) -> str | None:
    """Return an environment variable of this process, or None.

    Parameters
    ----------
    name : str

    Returns
    -------
    str or None
    """
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable of this process; None removes it.

    Parameters
    ----------
    name : str
    value : str or None
    """
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """Return the number of usable GPUs.

    Returns
    -------
    int
    """
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Return free and total bytes of a GPU.

    Parameters
    ----------
    gpu_dev_id : int

    Returns
    -------
    tuple of int
        Free and total memory.
    """
    return gpu_memory_info(gpu_dev_id)


def is_np_array() -> bool:
    """Say whether numpy mode is on; it never is, ``mx.nd`` is the one array interface.

    Returns
    -------
    bool
    """
    return False


def is_np_shape() -> bool:
    """Say whether numpy shape semantics are on; they never are.

    Returns
    -------
    bool
    """
    return False


def is_np_default_dtype() -> bool:
    """Say whether float64 is the default type; it never is.

    Returns
    -------
    bool
    """
    return False


def _refuse(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what}: numpy mode (mx.np, mx.npx) is not part of mxlite, use mx.nd arrays"
    )


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Refuse numpy mode.

    Raises
    ------
    NotSupportedError
        Unless everything is switched off.
    """
    if shape or array or dtype:
        raise _refuse("set_np")


def set_np_shape(active: bool) -> bool:
    """Refuse numpy shape semantics.

    Parameters
    ----------
    active : bool

    Returns
    -------
    bool
        False: they were off.

    Raises
    ------
    NotSupportedError
        If active. Arrays without elements and without dimensions need no mode here.
    """
    if active:
        raise _refuse("set_np_shape")
    return False


def reset_np() -> None:
    """Do nothing: numpy mode is always off."""


class _NumpyScope:
    """A ``with`` block that leaves numpy mode off, and a decorator of functions."""

    def __init__(self, what: str, active: bool) -> None:
        if active:
            raise _refuse(what)

    def __enter__(self) -> _NumpyScope:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, func: _T) -> _T:
        return func


class _NumpyArrayScope(_NumpyScope):
    """The class behind ``np_array`` in 1.x."""

    def __init__(self, is_np_array: bool) -> None:
        super().__init__("np_array", is_np_array)
        self._is_np_array = is_np_array


def np_shape(active: bool = True) -> _NumpyScope:
    """Return a ``with`` block with numpy shape semantics off.

    Parameters
    ----------
    active : bool

    Raises
    ------
    NotSupportedError
        If active.
    """
    return _NumpyScope("np_shape", active)


def np_array(active: bool = True) -> _NumpyScope:
    """Return a ``with`` block with numpy arrays off.

    Parameters
    ----------
    active : bool

    Raises
    ------
    NotSupportedError
        If active.
    """
    return _NumpyScope("np_array", active)


def _refuse_decorated(what: str, func: Any) -> Any:
    """Let a function or class be defined; calling it is what is refused."""
    if not callable(func):
        raise TypeError_(f"{what}: {func!r} given, a function or class expected")
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
    """Refuse numpy mode for a function or class.

    A file with decorated functions can be imported; only they do not work.

    Parameters
    ----------
    func : function or class

    Returns
    -------
    function or class
        Raises NotSupportedError when it is called or an object of it is made.
    """
    return _refuse_decorated("use_np", func)


def use_np_shape(func: Callable[..., _T]) -> Any:
    """Refuse numpy shape semantics for a function or class.

    A file with decorated functions can be imported; only they do not work.

    Parameters
    ----------
    func : function or class

    Returns
    -------
    function or class
        Raises NotSupportedError when it is called or an object of it is made.
    """
    return _refuse_decorated("use_np_shape", func)


def use_np_array(func: Callable[..., _T]) -> Any:
    """Refuse numpy arrays for a function or class.

    A file with decorated functions can be imported; only they do not work.

    Parameters
    ----------
    func : function or class

    Returns
    -------
    function or class
        Raises NotSupportedError when it is called or an object of it is made.
    """
    return _refuse_decorated("use_np_array", func)


def set_module(module: str | None) -> Callable[[_T], _T]:
    """Return a decorator that sets ``__module__``.

    Parameters
    ----------
    module : str or None
        None changes nothing.

    Returns
    -------
    callable
    """

    def decorate(func: _T) -> _T:
        if module is not None:
            func.__module__ = module
        return func

    return decorate


def get_cuda_compute_capability(ctx: Context) -> int:
    """Return the compute capability of a GPU as a number, 80 for 8.0.

    Parameters
    ----------
    ctx : Context

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the context is no GPU.
    DeviceError
        If there is no such GPU.
    """
    if ctx.device_type != "gpu":
        raise ValueError_(f"get_cuda_compute_capability: {ctx} was given, expected a GPU")
    if ctx.device_id >= num_gpus():
        raise DeviceError(
            f"get_cuda_compute_capability: {ctx} was given, {num_gpus()} GPUs are usable"
        )
    raise NotSupportedError("get_cuda_compute_capability: this build does not ask the driver")
