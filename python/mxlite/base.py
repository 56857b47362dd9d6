"""Errors and small shared helpers.

Every error of mxlite is an :class:`MXNetError` and, where one fits, also the builtin that a Python
programmer would catch: a wrong shape is a ``ValueError``, a missing file a ``FileNotFoundError``.
The C++ core raises the classes of this module as well.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Union

import numpy as np

from ._base_1x import *  # noqa: F403
from ._base_1x import __all__ as _names_1x

__all__ = [
    *_names_1x,
    "AxisError",
    "CommunicatorError",
    "DTypeError",
    "DeviceError",
    "FileAccessError",
    "FileFormatError",
    "IndexError_",
    "InputError",
    "MXNetError",
    "MissingFileError",
    "NotImplementedForSymbol",
    "NotSupportedError",
    "NotSupportedForSparseNDArray",
    "OutOfMemoryError",
    "RecordError",
    "ShapeError",
    "TypeError_",
    "ValueError_",
    "c2pyerror",
    "data_dir",
    "data_dir_default",
    "error_types",
    "numeric_types",
    "register_error",
    "string_types",
    "suggestion",
]

numeric_types = (float, int, np.generic)
string_types = (str,)
Numeric = Union[float, int, np.generic]


class MXNetError(RuntimeError):
    """Base of all errors raised by mxlite (MXNet 1.x: ``mxnet.base.MXNetError``)."""


class ShapeError(MXNetError, ValueError):
    """Shapes that do not fit together, or a shape that an operator cannot take."""


class DTypeError(MXNetError, TypeError):
    """An element type that an operator cannot take, or two that do not fit together."""


class IndexError_(MXNetError, IndexError):  # noqa: N801, N818 - the builtin's name is taken
    """An axis or index outside its range."""


class ValueError_(MXNetError, ValueError):  # noqa: N801, N818 - the builtin's name is taken
    """An argument of the right type with an impossible value."""


class TypeError_(MXNetError, TypeError):  # noqa: N801, N818 - the builtin's name is taken
    """An argument of the wrong Python type."""


class AxisError(IndexError_, ValueError):
    """An axis that an array does not have, where NumPy raises both kinds of error."""


class InputError(TypeError_, ValueError):
    """An input of the wrong type where 1.x raises a ValueError."""


class DeviceError(MXNetError, ValueError):
    """A device that does not exist, or arrays on different devices in one operation."""


class OutOfMemoryError(MXNetError, MemoryError):
    """An allocation that the device or its limit refused."""


class RecordError(MXNetError, OSError):
    """A record file that is damaged or is no record file."""


class CommunicatorError(MXNetError):
    """A collective operation between processes failed."""


class NotSupportedError(MXNetError, NotImplementedError):
    """A feature of MXNet 1.x that this build of mxlite does not have."""


class DynamicShapeError(NotSupportedError):
    """A shape depends on values, which are not known while a graph is made."""


class MissingFileError(MXNetError, FileNotFoundError):
    """A file that was to be read does not exist."""


class FileAccessError(MXNetError, OSError):
    """The operating system refused to read or write a file (permission, full disk, ...)."""


class FileFormatError(MXNetError, ValueError):
    """A file whose bytes are not what its format demands: truncated, damaged or foreign."""


class NotImplementedForSymbol(NotSupportedError):  # noqa: N818 - the name of 1.x
    """A function that works on arrays only was given a Symbol.

    Parameters
    ----------
    function : callable
    alias : str, optional
        The operator as the user wrote it.
    *args
        What it was called with.
    """

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        super().__init__(_refusal(function, alias, args, "Symbol", "implemented"))
        self.function = function.__name__
        self.alias = alias


class NotSupportedForSparseNDArray(NotSupportedError):  # noqa: N818 - the name of 1.x
    """A function that works on dense arrays only was given a sparse one.

    Parameters
    ----------
    function : callable
    alias : str, optional
        The operator as the user wrote it.
    *args
        What it was called with.
    """

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        super().__init__(_refusal(function, alias, args, "SparseNDArray", "supported"))
        self.function = function.__name__
        self.alias = alias


def _refusal(function: Any, alias: str | None, args: Iterable[Any], kind: str, verb: str) -> str:
    """Return the text of an error about an argument of an unsuitable class."""
    operator = f' (operator "{alias}")' if alias else ""
    given = ", ".join(type(arg).__name__ for arg in args)
    return f"{function.__name__}{operator}: arguments ({given}), not {verb} for {kind}, use NDArray"


# Error classes by the word that begins an error text: ``mx.error.register`` adds to it.
error_types: dict[str, type] = {
    "ValueError": ValueError_,
    "TypeError": TypeError_,
    "IndexError": IndexError_,
    "AttributeError": AttributeError,
    "NotImplementedError": NotSupportedError,
    "NotImplementedForSymbol": NotImplementedForSymbol,
}


def register_error(func_name: Any = None, cls: type | None = None) -> Any:
    """Register an error class by the word that begins its texts.

    Parameters
    ----------
    func_name : str or type
        The word; a class stands for its own name.
    cls : type, optional
        Without it a decorator is returned.

    Returns
    -------
    type or callable
    """
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name

    def register(error_class: type) -> type:
        error_types[func_name] = error_class
        return error_class

    return register if cls is None else register(cls)


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """Split the text of an error at the name of a registered error class.

    Parameters
    ----------
    err_msg : str
        As ``"ValueError: wrong"``.

    Returns
    -------
    tuple
        The text, and the name of the class or None.
    """
    match = re.match(r"\s*([A-Za-z_]\w*):", err_msg)
    word = match.group(1) if match else None
    return err_msg, word if word in error_types else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known names, or an empty string.

    Parameters
    ----------
    name : str
        What was given.
    known : iterable of str
        What would have been accepted.

    Returns
    -------
    str
        Text to be appended to an error message.
    """
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    if not near:
        return ""
    return "; did you mean " + " or ".join(repr(match) for match in near) + "?"


def data_dir() -> str:
    """Return the folder of downloads and caches: ``MXNET_HOME``, else ``~/.mxnet``.

    Returns
    -------
    str
        An absolute path; the folder need not exist.
    """
    import os

    return os.path.expanduser(os.environ.get("MXNET_HOME") or data_dir_default())


def data_dir_default() -> str:
    """Return the folder of downloads where ``MXNET_HOME`` is not set: ``~/.mxnet``.

    Returns
    -------
    str
    """
    import os

    return os.path.join(os.path.expanduser("~"), ".mxnet")
