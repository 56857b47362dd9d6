"""Reads optimizer states that MXNet 1.x pickled, as plain values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Callable

import numpy as np

from .._files.pickled import (
    Maker,
    PickleContentError,
    Spender,
    Unfinished,
    numpy_maker,
    plain_maker,
    read_pickle,
)
from ..base import FileFormatError
from ..ndarray.serialization import array_from_blob

__all__ = ["LegacyObject", "read_legacy_states"]

_ARRAYS = {
    ("mxnet.ndarray", "NDArray"),
    ("mxnet.ndarray.ndarray", "NDArray"),
    ("mxnet.ndarray.sparse", "CSRNDArray"),
    ("mxnet.ndarray.sparse", "RowSparseNDArray"),
    ("mxnet.numpy", "ndarray"),
    ("mxnet.numpy.multiarray", "ndarray"),
}
_OBJECT_MODULES = ("mxnet.optimizer", "mxnet.lr_scheduler")
_MOST_ENTRIES = 1_000_000  # far more than the few entries of each parameter
_PLAIN = {"OrderedDict", "bytearray", "bytes", "complex", "encode", "frozenset", "set"}


class LegacyObject(Unfinished):
    """An optimizer or scheduler of 1.x: the name of its class and its attributes."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name
        self.attributes: dict[str, Any] = {}

    def build(self, state: Any, spend: Spender) -> None:
        """Set the attributes from the pickled state."""
        if type(state) is not dict or any(type(key) is not str for key in state):
            raise PickleContentError(f"the attributes of {self.class_name} are not a dict of names")
        self.attributes = state

    def value(self, finish: Callable[[Any], Any]) -> Any:
        """Return the object itself, with final attributes."""
        self.attributes = finish(self.attributes)
        return self


class _LegacyArray(Unfinished):
    """An array of 1.x, given by the bytes of its blob."""

    def __init__(self) -> None:
        self._blob: bytes | bytearray | None = None

    def build(self, state: Any, spend: Spender) -> None:
        blob = state.get("handle") if type(state) is dict else None
        if blob is not None and type(blob) not in (bytes, bytearray):
            raise PickleContentError("an array has no bytes")
        if blob is not None:
            spend(len(blob))
        self._blob = blob

    def value(self, finish: Callable[[Any], Any]) -> Any:
        return None if self._blob is None else array_from_blob(self._blob)


def _make_array(args: tuple[Any, ...], spend: Spender) -> _LegacyArray:
    if args not in ((), (None,)):
        raise PickleContentError("an array must not have arguments")
    return _LegacyArray()


def _make_object(name: str) -> Callable[[tuple[Any, ...], Spender], LegacyObject]:
    def make(args: tuple[Any, ...], spend: Spender) -> LegacyObject:
        if args:
            raise PickleContentError(f"{name} must not have arguments")
        return LegacyObject(name)

    return make


def _make_instance(args: tuple[Any, ...], spend: Spender) -> Any:
    """Make an object from a class and the arguments in pickle protocols 0 and 1."""
    if len(args) != 3 or args[2] is not None or not isinstance(args[0], Maker):
        raise PickleContentError("a class of MXNet was expected")
    return args[0].make((), spend)


def _refuse(args: tuple[Any, ...], spend: Spender) -> Any:
    raise PickleContentError("plain objects are not allowed")


def _number(args: tuple[Any, ...], spend: Spender) -> Any:
    maker = numpy_maker("numpy.core.multiarray", "scalar")
    assert maker is not None
    number = maker.make(args, spend)
    return number.item() if isinstance(number, np.generic) else number


def _maker(module: str, name: str) -> Maker | None:
    if (module, name) in _ARRAYS:
        return Maker(_make_array, "NDArray")
    if module.split(".")[0] == "mxnet" and module.startswith(_OBJECT_MODULES):
        return Maker(_make_object(name), name) if name.isidentifier() else None
    if module in ("copyreg", "copy_reg") and name == "_reconstructor":
        return Maker(_make_instance, name)
    if module in ("builtins", "__builtin__") and name == "object":
        return Maker(_refuse, name)
    if name == "scalar" and numpy_maker(module, name):
        return Maker(_number, "NumPy's scalar")
    return numpy_maker(module, name) or (plain_maker(module, name) if name in _PLAIN else None)


def read_legacy_states(
    data: bytes, source: str, registered: Collection[tuple[str, str]] = ()
) -> Any:
    """Read a pickle of MXNet 1.x without running any code in it."""

    def maker(module: str, name: str) -> Maker | None:
        return (
            Maker(_make_object(name), name)
            if (module, name) in registered
            else _maker(module, name)
        )

    try:
        return read_pickle(data, maker, most_entries=_MOST_ENTRIES)
    except PickleContentError as error:
        raise FileFormatError(
            f"load_states: {source} ({len(data)} bytes) holds neither mxlite's states (they begin "
            f"with MXLSTATE) nor a pickle of MXNet 1.x: {error}"
        ) from None
