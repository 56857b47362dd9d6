"""Names of ``mxnet.base`` besides errors: type tuples, ctypes helpers, small tools."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import numpy as np

__all__ = [
    "_Null",
    "_as_list",
    "add_fileline_to_docstring",
    "basestring",
    "build_param_doc",
    "c_array",
    "c_array_buf",
    "c_str",
    "c_str_array",
    "classproperty",
    "ctypes2buffer",
    "ctypes2numpy_shared",
    "integer_types",
    "long",
    "mx_float",
    "mx_float_p",
    "mx_int",
    "mx_int64",
    "mx_real_t",
    "mx_uint",
    "py_str",
    "with_metaclass",
]

long = int
basestring = str
integer_types = (int, np.int32, np.int64)
mx_real_t = np.float32

mx_int = ctypes.c_int
mx_uint = ctypes.c_uint
mx_int64 = ctypes.c_int64
mx_float = ctypes.c_float
mx_float_p = ctypes.POINTER(ctypes.c_float)


class _NullType:
    """Represents a parameter that was not given; false."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()


class classproperty:  # noqa: N801 - the name of 1.x
    """A read-only property of a class: ``Class.name`` calls the function with the class."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.fget = func
        self.__doc__ = func.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.fget(type(instance) if owner is None else owner)


def with_metaclass(meta: type, *bases: type) -> type:
    """Return a base class that makes its subclasses instances of a metaclass.

    Parameters
    ----------
    meta : type
    *bases : type
        Base classes of the subclass.
    """
    return meta("WithMetaclass", bases or (object,), {})


def _as_list(obj: Any) -> Any:
    """Return lists and tuples unchanged, other values as a list of one."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def py_str(x: bytes | str) -> str:
    """Return the text of bytes in UTF-8.

    Parameters
    ----------
    x : bytes or str
        Names that callbacks get are text already.
    """
    if isinstance(x, str):
        return x
    return x.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """Return a C string in UTF-8."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Sequence[str]) -> Any:
    """Return a C array of strings.

    Returns
    -------
    ctypes array of c_char_p
    """
    return (ctypes.c_char_p * len(strings))(*(text.encode("utf-8") for text in strings))


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """Return a C array with given elements.

    Parameters
    ----------
    ctype : ctypes type
    values : sequence

    Returns
    -------
    ctypes array
    """
    return (ctype * len(values))(*values)


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """Return a C array over the memory of an ``array.array``, without a copy.

    Parameters
    ----------
    ctype : ctypes type
    buf : array.array

    Returns
    -------
    ctypes array
    """
    return (ctype * len(buf)).from_buffer(buf)


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """Return a copy of the bytes at a C pointer.

    Parameters
    ----------
    cptr : ctypes.POINTER(ctypes.c_char)
    length : int
        Number of bytes.

    Raises
    ------
    TypeError
        For another kind of pointer.
    """
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError(
            f"ctypes2buffer: cptr must be a pointer to c_char, got {type(cptr).__name__}"
        )
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr: Any, shape: Iterable[int]) -> np.ndarray[Any, Any]:
    """Return a float32 array over the memory at a C pointer.

    Parameters
    ----------
    cptr : ctypes.POINTER(mx_float)
    shape : iterable of int

    Returns
    -------
    numpy.ndarray
        Valid as long as the memory is.

    Raises
    ------
    TypeError
        For another kind of pointer.
    """
    if not isinstance(cptr, mx_float_p):
        raise TypeError(
            f"ctypes2numpy_shared: cptr must be a pointer to float, got {type(cptr).__name__}"
        )
    return np.ctypeslib.as_array(cptr, tuple(shape))


def build_param_doc(
    arg_names: Sequence[str],
    arg_types: Sequence[str],
    arg_descs: Sequence[str],
    remove_dup: bool = True,
) -> str:
    """Return the "Parameters" part of a NumPy docstring.

    Parameters
    ----------
    arg_names, arg_types, arg_descs : sequence of str
        One entry per parameter.
    remove_dup : bool
        Leave out a name that came before.
    """
    lines = ["Parameters", "----------"]
    seen = set()
    for name, kind, text in zip(arg_names, arg_types, arg_descs):
        if remove_dup and name in seen:
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}")
        if text:
            lines.append(f"    {text}")
    return "\n".join(lines) + "\n"


def add_fileline_to_docstring(module: Any, incursive: bool = True) -> None:
    """Do nothing; 1.x used it to add source lines to its documentation.

    Parameters
    ----------
    module : module or str
    incursive : bool
    """
