"""Python objects between processes."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError, TypeError_
from ..ndarray import NDArray
from .basics import rank, size
from .mpi_ops import allgather, broadcast_

__all__ = ["allgather_object", "broadcast_object"]

# What plain objects and NumPy arrays consist of. Anything else could run code of a damaged or
# foreign message, so it is refused.
_ALLOWED = {
    ("builtins", "complex"),
    ("builtins", "frozenset"),
    ("builtins", "range"),
    ("builtins", "set"),
    ("builtins", "slice"),
    ("builtins", "bytearray"),
    ("collections", "OrderedDict"),
    ("collections", "deque"),
    ("collections", "Counter"),
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("uuid", "UUID"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
    ("_codecs", "encode"),
    (__name__, "_array"),
}


class ObjectError(MXNetError, pickle.PickleError):
    """An object that is not sent between processes, or a message that holds one."""


def _array(value: np.ndarray[Any, Any]) -> NDArray:
    return nd.array(value, dtype=value.dtype)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, NDArray):
            return _array, (obj.asnumpy(),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise ObjectError(
                f"objects of type {module}.{name} are not sent between processes: plain Python "
                "objects (numbers, texts, lists, dicts, sets, ...), NumPy arrays and NDArrays are"
            )
        return super().find_class(module, name)


def _to_bytes(who: str, obj: Any) -> bytes:
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=4).dump(obj)
        _from_bytes(stream.getvalue())  # the sender gets the error, before anything is sent
    except ObjectError as error:
        raise ObjectError(f"{who}: {error}") from None
    except (pickle.PickleError, TypeError, AttributeError) as error:
        raise TypeError_(f"{who}: an object of type {type(obj).__name__}: {error}") from error
    return stream.getvalue()


def _from_bytes(content: bytes) -> Any:
    return _Unpickler(io.BytesIO(content)).load()


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the object of one rank on all ranks.

    Parameters
    ----------
    obj : object
        Plain Python objects, NumPy arrays and NDArrays, nested as needed; used on the root only.
    root_rank : int
    name : str, optional
        As in `broadcast`.

    Returns
    -------
    object

    Raises
    ------
    MXNetError
        For an object of another type: a class of the user would need code to be run.

    Notes
    -----
    Matches ``horovod.mxnet.broadcast_object``, which sends any object (and trusts what it gets).
    """
    name = name or "broadcast_object"
    content = b""
    error: MXNetError | None = None
    if rank() == root_rank:
        try:
            content = _to_bytes("broadcast_object", obj)
        except MXNetError as raised:
            error = raised  # the others learn it by a negative length, and do not wait
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
    """Return the objects of all ranks, in their order.

    Parameters
    ----------
    obj : object
        As in `broadcast_object`.
    name : str, optional

    Returns
    -------
    list

    Raises
    ------
    MXNetError
        As `broadcast_object`, on all ranks.
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
