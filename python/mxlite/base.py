"""Errors and small shared helpers.

Every error of mxlite is an :class:`MXNetError` and, where one fits, also the builtin that a Python
programmer would catch: a wrong shape is a ``ValueError``, a missing file a ``FileNotFoundError``.
The C++ core raises the classes of this module as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Union

import numpy as np

__all__ = [
    "CommunicatorError",
    "DTypeError",
    "DeviceError",
    "FileAccessError",
    "FileFormatError",
    "IndexError_",
    "MXNetError",
    "MissingFileError",
    "NotSupportedError",
    "OutOfMemoryError",
    "RecordError",
    "ShapeError",
    "TypeError_",
    "ValueError_",
    "data_dir",
    "numeric_types",
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


class DeviceError(MXNetError):
    """A device that does not exist, or arrays on different devices in one operation."""


class OutOfMemoryError(MXNetError, MemoryError):
    """An allocation that the device or its limit refused."""


class RecordError(MXNetError, OSError):
    """A record file that is damaged or is no record file."""


class CommunicatorError(MXNetError):
    """A collective operation between processes failed."""


class NotSupportedError(MXNetError, NotImplementedError):
    """A feature of MXNet 1.x that this build of mxlite does not have."""


class MissingFileError(MXNetError, FileNotFoundError):
    """A file that was to be read does not exist."""


class FileAccessError(MXNetError, OSError):
    """The operating system refused to read or write a file (permission, full disk, ...)."""


class FileFormatError(MXNetError, ValueError):
    """A file whose bytes are not what its format demands: truncated, damaged or foreign."""


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

    return os.path.expanduser(os.environ.get("MXNET_HOME") or os.path.join("~", ".mxnet"))
