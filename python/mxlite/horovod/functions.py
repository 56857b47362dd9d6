"""Broadcast and all-gather of Python objects."""

from __future__ import annotations

import io
import pickle
from typing import Any, Callable

import numpy as np

from .. import ndarray as nd
from .._files.pickled import (
    Maker,
    PickleContentError,
    Spender,
    Unfinished,
    numpy_maker,
    plain_maker,
    read_pickle,
)
from ..base import MXNetError, TypeError_
from ..comm.basics import rank, size
from ..ndarray import NDArray
from .mpi_ops import allgather, broadcast_


class ObjectError(MXNetError, pickle.PickleError):
    """An object, or a part of one, has a type that may not be sent between processes."""


def _array(value: np.ndarray[Any, Any]) -> NDArray:
    return nd.array(value, dtype=value.dtype)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, NDArray):
            return _array, (obj.asnumpy(),)
        return NotImplemented


class _SentArray(Unfinished):
    """An NDArray, which is sent as a NumPy array."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def value(self, finish: Callable[[Any], Any]) -> Any:
        values = finish(self._values)
        if not isinstance(values, np.ndarray):
            found = type(values).__name__
            raise PickleContentError(f"values of an NDArray must be a NumPy array, got {found}")
        return _array(values)


def _make_array(args: tuple[Any, ...], spend: Spender) -> _SentArray:
    if len(args) != 1:
        raise PickleContentError(f"an NDArray must have 1 argument, its values, got {len(args)}")
    return _SentArray(args[0])


def _maker(module: str, name: str) -> Maker | None:
    """Return the maker of an allowed name; raise for other names, which could run code."""
    if (module, name) == (__name__, "_array"):
        return Maker(_make_array, "NDArray")
    found = numpy_maker(module, name) or plain_maker(module, name)
    if found is None:
        raise PickleContentError(
            "values must be plain Python objects (numbers, texts, lists, dicts, sets, ...), NumPy "
            f"arrays or NDArrays to be sent between processes, got {module[:100]}.{name[:100]}"
        )
    return found


def _to_bytes(who: str, obj: Any) -> bytes:
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=4).dump(obj)
        _from_bytes(stream.getvalue())  # raises on the sender before anything is sent
    except ObjectError as error:
        raise ObjectError(f"{who}: {error}") from None
    except (pickle.PickleError, TypeError, AttributeError) as error:
        raise TypeError_(f"{who}: an object of type {type(obj).__name__}: {error}") from error
    return stream.getvalue()


def _from_bytes(content: bytes) -> Any:
    try:
        return read_pickle(content, _maker)
    except PickleContentError as error:
        raise ObjectError(f"an object of {len(content)} bytes: {error}") from None


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the object of one rank on all ranks.

    Parameters
    ----------
    obj : object
        Plain Python objects, NumPy arrays and NDArrays, nested as needed; used on the root only.
    root_rank : int
    name : str, optional
        As in `broadcast`.

    Raises
    ------
    MXNetError
        For an object of another type, because unpickling user classes would run code.

    Notes
    -----
    Matches ``horovod.mxnet.broadcast_object``, which sends any object and unpickles it unchecked.
    """
    name = name or "broadcast_object"
    content = b""
    error: MXNetError | None = None
    if rank() == root_rank:
        try:
            content = _to_bytes("broadcast_object", obj)
        except MXNetError as raised:
            error = raised  # a negative length makes the other ranks raise, too
    length = nd.array([-1 if error else len(content)], dtype="int64")
    broadcast_(length, root_rank, name=f"{name}.sz")
    count = int(length.asscalar())
    if error is not None:
        raise error
    if count < 0:
        raise ObjectError(f"broadcast_object: rank {root_rank} has an object that cannot be sent")
    if rank() == root_rank:
        message = nd.array(np.frombuffer(content, dtype=np.uint8), dtype="uint8")
    else:
        message = nd.empty((count,), dtype="uint8")
    broadcast_(message, root_rank, name=f"{name}.t")
    return obj if rank() == root_rank else _from_bytes(message.asnumpy().tobytes())


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the objects of all ranks in rank order.

    Parameters
    ----------
    obj : object
        As in `broadcast_object`.
    name : str, optional

    Raises
    ------
    MXNetError
        As in `broadcast_object`, on all ranks.
    """
    name = name or "allgather_object"
    content = b""
    error: MXNetError | None = None
    try:
        content = _to_bytes("allgather_object", obj)
    except MXNetError as raised:
        error = raised
    lengths = allgather(
        nd.array([-1 if error else len(content)], dtype="int64"), name=f"{name}.sz"
    ).asnumpy()
    if error is not None:
        raise error
    for source in range(size()):
        if lengths[source] < 0:
            raise ObjectError(f"allgather_object: rank {source} has an object that cannot be sent")
    message = nd.array(np.frombuffer(content, dtype=np.uint8), dtype="uint8")
    everything = allgather(message, name=f"{name}.t").asnumpy()
    ends = np.cumsum(lengths)
    return [
        _from_bytes(everything[int(end - length) : int(end)].tobytes())
        for end, length in zip(ends, lengths)
    ]
