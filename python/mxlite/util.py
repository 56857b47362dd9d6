"""Small utilities of ``mx.util``: folders, environment variables, numpy-mode questions."""

from __future__ import annotations

import os
from typing import Any, Callable, TypeVar

from .base import NotSupportedError
from .context import gpu_memory_info, num_gpus

__all__ = [
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "makedirs",
    "reset_np",
    "set_np",
    "setenv",
    "use_np",
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


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Refuse numpy mode.

    Raises
    ------
    NotSupportedError
        Unless everything is switched off.
    """
    if shape or array or dtype:
        raise NotSupportedError(
            "set_np: numpy mode (mx.np, mx.npx) is not part of mxlite, use mx.nd arrays"
        )


def reset_np() -> None:
    """Do nothing: numpy mode is always off."""


def use_np(func: Callable[..., _T]) -> Any:
    """Refuse numpy mode for a function or class.

    Raises
    ------
    NotSupportedError
        Always.
    """
    name = getattr(func, "__name__", repr(func))
    raise NotSupportedError(
        f"use_np: {name!r} asks for numpy mode (mx.np, mx.npx), which is not part of mxlite; "
        "use mx.nd arrays"
    )
