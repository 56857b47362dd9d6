"""NumPy's arrays, numbers and types in pickles of NumPy 1.x and 2.x."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .values import Maker, PickleContentError, Spender, Unfinished

_CODES = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split())
_MOST_CHARACTERS = 1 << 20
_MOST_DIMENSIONS = 32
_LAST_CHARACTER = 0x10FFFF


def numpy_maker(module: str, name: str) -> Maker | None:
    """Return the maker of a name of NumPy, or None."""
    module = module.replace("numpy._core", "numpy.core")
    make = _MAKERS.get((module, name))
    return make and Maker(make, f"numpy's {name}")


def object_array_maker(module: str, name: str) -> Maker | None:
    """Like `numpy_maker`, but arrays may also contain other objects."""
    found = numpy_maker(module, name)
    if found and name == "dtype":
        return Maker(_make_object_dtype, found.name)
    if found and name == "_reconstruct":
        return Maker(_make_object_array, found.name)
    return found


def raw_bytes(value: Any) -> bytes:
    """Return bytes from a pickle, which protocols 0 to 2 write as text."""
    if type(value) is str:
        return value.encode("latin1")
    if type(value) not in (bytes, bytearray):
        raise PickleContentError(f"value must be bytes, got {type(value).__name__}")
    return bytes(value)


class _DType(Unfinished):
    """A supported type; its byte order is set by the state."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._order = "<"

    def build(self, state: Any, spend: Spender) -> None:
        if type(state) is not tuple or len(state) < 5 or state[1] not in ("<", ">", "|", "="):
            raise PickleContentError("a NumPy type has a damaged state")
        if any(entry is not None for entry in state[2:5]):
            raise PickleContentError("NumPy types with fields are not allowed")
        self._order = state[1]

    def dtype(self) -> np.dtype[Any]:
        """Return the type; byte order ``|`` means none."""
        return np.dtype(self._order + self._code)

    def value(self, finish: Callable[[Any], Any]) -> Any:
        return self.dtype()


def _check_shape(shape: Any) -> None:
    if type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS:
        raise PickleContentError("an array has no shape")
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise PickleContentError(
            f"the shape of an array must be a tuple of sizes, got {str(shape)[:100]}"
        )


def _values(dtype: Any, raw: bytes, shape: Any, fortran: bool) -> np.ndarray[Any, Any]:
    """Return a new array; raise if the sizes do not match the number of bytes."""
    if not isinstance(dtype, _DType):
        raise PickleContentError("an array has no type")
    _check_shape(shape)
    kind = dtype.dtype()
    if kind.hasobject:
        raise PickleContentError("arrays of objects are not allowed here")
    if math.prod(shape) * kind.itemsize != len(raw):
        raise PickleContentError(
            f"an array of shape {str(shape)[:100]} and type {kind} has {len(raw)} bytes"
        )
    if kind.kind == "b":  # bytes other than 0 and 1 would give wrong sums
        return (np.frombuffer(raw, np.uint8) != 0).reshape(shape, order="F" if fortran else "C")
    values = np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")
    if kind.kind == "U" and values.size:
        points = np.frombuffer(raw, np.dtype("u4").newbyteorder(kind.byteorder))
        if points.max() > _LAST_CHARACTER:
            raise PickleContentError("a NumPy string must have valid Unicode characters")
    return values.copy(order="F" if fortran else "C")


class _Array(Unfinished):
    """An array made by ``_reconstruct``; all its data are in the state."""

    def __init__(self) -> None:
        self._made: np.ndarray[Any, Any] | None = None

    def build(self, state: Any, spend: Spender) -> None:
        if type(state) is not tuple or len(state) != 5 or type(state[3]) not in (bool, int):
            raise PickleContentError("an array has a damaged state")
        _, shape, dtype, fortran, content = state
        raw = raw_bytes(content)
        spend(2 * len(raw))
        self._made = _values(dtype, raw, shape, bool(fortran))

    def value(self, finish: Callable[[Any], Any]) -> Any:
        if self._made is None:
            raise PickleContentError("an array has no state")
        return self._made


class _ObjectArray(_Array):
    """An array of numbers, or an array of objects whose state is a list."""

    _entries: list[Any] | None = None

    def build(self, state: Any, spend: Spender) -> None:
        if type(state) is not tuple or len(state) != 5 or type(state[4]) is not list:
            super().build(state, spend)
            return
        _, shape, dtype, fortran, entries = state
        _check_shape(shape)
        if not isinstance(dtype, _DType) or not dtype.dtype().hasobject:
            raise PickleContentError("an array of numbers must not have a list of values")
        if math.prod(shape) != len(entries):
            raise PickleContentError(
                f"an array of shape {str(shape)[:100]} has {len(entries)} values"
            )
        spend(8 * len(entries))
        self._entries, self._shape, self._fortran = entries, shape, bool(fortran)

    def value(self, finish: Callable[[Any], Any]) -> Any:
        if self._entries is None:
            return super().value(finish)
        made = np.empty(len(self._entries), object)
        for position, entry in enumerate(self._entries):
            made[position] = finish(entry)
        return made.reshape(self._shape, order="F" if self._fortran else "C")


class _Made(_Array):
    def __init__(self, made: np.ndarray[Any, Any]) -> None:
        self._made = made

    def build(self, state: Any, spend: Spender) -> None:
        raise PickleContentError("a complete array must not be followed by a state")


def _make_dtype(args: tuple[Any, ...], spend: Spender) -> _DType:
    code = args[0] if args else None
    if type(code) is bytes:
        code = code.decode("latin1")
    if type(code) is not str:
        raise PickleContentError("a NumPy type must have a type code such as 'f4'")
    sized = code[:1] in ("S", "U") and code[1:].isdigit() and len(code) < 9
    if code not in _CODES and not (sized and 0 < int(code[1:]) <= _MOST_CHARACTERS):
        raise PickleContentError(f"the NumPy type {code[:20]!r} is not allowed")
    return _DType(code)


def _make_object_dtype(args: tuple[Any, ...], spend: Spender) -> _DType:
    if args and args[0] in ("O", "O8"):
        return _DType("O")
    return _make_dtype(args, spend)


def _check_class(args: tuple[Any, ...]) -> None:
    if len(args) != 3 or not isinstance(args[0], Maker) or args[0].make is not _no_direct_array:
        raise PickleContentError("only plain NumPy arrays are allowed")


def _make_empty(args: tuple[Any, ...], spend: Spender) -> _Array:
    _check_class(args)
    return _Array()


def _make_object_array(args: tuple[Any, ...], spend: Spender) -> _Array:
    _check_class(args)
    return _ObjectArray()


def _make_scalar(args: tuple[Any, ...], spend: Spender) -> Any:
    if len(args) != 2:
        raise PickleContentError("a NumPy number needs a type and bytes")
    raw = raw_bytes(args[1])
    spend(len(raw))
    return _values(args[0], raw, (), False)[()]


def _make_from_buffer(args: tuple[Any, ...], spend: Spender) -> _Array:
    if len(args) != 4 or args[3] not in ("C", "F"):
        raise PickleContentError("an array needs bytes, type, shape and order")
    raw = raw_bytes(args[0])
    spend(2 * len(raw))
    return _Made(_values(args[1], raw, args[2], args[3] == "F"))


def _no_direct_array(args: tuple[Any, ...], spend: Spender) -> Any:
    raise PickleContentError("arrays are made by _reconstruct only")


_MAKERS: dict[tuple[str, str], Callable[[tuple[Any, ...], Spender], Any]] = {
    ("numpy", "dtype"): _make_dtype,
    ("numpy", "ndarray"): _no_direct_array,
    ("numpy.core.multiarray", "_reconstruct"): _make_empty,
    ("numpy.core.multiarray", "scalar"): _make_scalar,
    ("numpy.core.numeric", "_frombuffer"): _make_from_buffer,
}
