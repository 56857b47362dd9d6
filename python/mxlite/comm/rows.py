"""Collectives that move rows of arrays; they block, because result shapes depend on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import DTypeError, ValueError_
from ..ndarray import NDArray
from ..ndarray.structure import in_class_of
from .process_sets import ProcessSet, global_process_set
from .submitting import (
    Average,
    Sum,
    check_group,
    contiguous,
    full_name,
    group_names,
    reduction,
    set_number,
    submit,
    waited,
)


def _run(
    kind: str,
    tensors: Sequence[NDArray],
    name: str | None,
    priority: int,
    process_set: ProcessSet,
    terms_of: Callable[[list[NDArray]], dict[str, Any]] | None = None,
    grouped: bool = False,
) -> tuple[list[NDArray], Any]:
    """Run one operation on several arrays; return its results and the operation.

    ``terms_of`` returns further arguments after arrays and set are checked. A group of arrays has
    one name.
    """
    given = check_group(kind, tensors)[0]
    inputs = [contiguous(tensor) for tensor in tensors]
    number = set_number(kind, process_set)
    terms = {} if terms_of is None else terms_of(inputs)
    if grouped:
        terms["group"], names = group_names(kind, name, len(inputs), process_set)
    else:
        names = [full_name(kind, name, process_set)]
    pending = submit(kind, names, inputs, [], set=number, priority=priority, **terms)
    return waited(pending, inputs, given), pending


def allgather(
    tensor: NDArray,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """Join the arrays of all ranks along the first dimension, in the order of ranks.

    Parameters
    ----------
    tensor : NDArray
        Shapes may differ in the first dimension.
    name, priority, process_set
        As in `allreduce`.

    Raises
    ------
    MXNetError
        Ranks disagree, or a rank is lost.

    Notes
    -----
    Matches ``horovod.mxnet.allgather``; waits for the result.
    """
    return _run("allgather", [tensor], name, priority, process_set)[0][0]


def grouped_allgather(
    tensors: Sequence[NDArray],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> list[NDArray]:
    """Gather several arrays in one operation; parameters as `allgather`."""
    if not tensors:
        return tensors  # type: ignore[return-value]
    return _run("allgather", tensors, name, priority, process_set, grouped=True)[0]


def _rows_to_send(tensor: NDArray, splits: Any, size: int) -> list[int]:
    if splits is None:
        rows = tensor.shape[0] if tensor.shape else 0
        if rows % size:
            raise ValueError_(
                f"alltoall: without splits, the number of rows must be a multiple of {size} "
                f"ranks, got {rows}"
            )
        return [rows // size] * size
    if isinstance(splits, NDArray):
        if splits.dtype != np.int32:
            raise _SplitsError(
                f"alltoall: dtype of splits must be int32, got {np.dtype(splits.dtype)}"
            )
        splits = splits.asnumpy()
    values = np.asarray(splits)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise _SplitsError(f"alltoall: splits must be a list of integers, got {splits!r}")
    return [int(v) for v in values]


class _SplitsError(DTypeError, ValueError):
    """Splits are not 32-bit integers (Horovod raises a ``ValueError``)."""


def alltoall(
    tensor: NDArray,
    splits: NDArray | Sequence[int] | None = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray | tuple[NDArray, NDArray]:
    """Send rows of an array to each rank, and return what was received, in the order of ranks.

    Parameters
    ----------
    tensor : NDArray
        Shapes may differ in the first dimension.
    splits : NDArray of int32 or list of int, optional
        Number of rows for each rank; equal parts by default.
    name, priority, process_set
        As in `allreduce`.

    Returns
    -------
    received : NDArray
    received_splits : NDArray of int32
        Number of rows from each rank; only if splits were given.

    Raises
    ------
    ValueError
        For splits that are not integers, or rows that cannot be divided.
    MXNetError
        Splits do not fit the tensor or the number of ranks, ranks disagree, or a rank is lost.

    Notes
    -----
    Matches ``horovod.mxnet.alltoall``; waits for the result.
    """

    def terms_of(inputs: list[NDArray]) -> dict[str, Any]:
        return {"splits": _rows_to_send(inputs[0], splits, process_set.size() or 1)}

    outputs, ended = _run("alltoall", [tensor], name, priority, process_set, terms_of)
    if splits is None:
        return outputs[0]
    return outputs[0], in_class_of(nd.array(ended.received_splits, dtype="int32"), tensor)


def _reduce_scatter(
    tensors: Sequence[NDArray],
    op: int,
    name: str | None,
    priority: int,
    process_set: ProcessSet,
    factors: tuple[float, float],
    grouped: bool = False,
) -> list[NDArray]:
    kind = "reducescatter"

    def terms_of(inputs: list[NDArray]) -> dict[str, Any]:
        if op not in (Average, Sum):
            raise ValueError_(f"{kind}: op must be hvd.Average or hvd.Sum, got {op!r}")
        if not all(tensor.shape for tensor in inputs):
            raise ValueError_(f"{kind}: tensor must have 1 or more dimensions, got 0 dimensions")
        return reduction(op, *factors, process_set)

    return _run(kind, tensors, name, priority, process_set, terms_of, grouped)[0]


def reducescatter(
    tensor: NDArray,
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """Reduce an array over all ranks and return this rank's rows of the result.

    Parameters
    ----------
    tensor : NDArray
        Tensor of the same shape and type on all ranks. If the rows do not divide evenly, the
        first ranks get one more.
    op : int
        `Average` or `Sum`.
    name, priority, process_set, prescale_factor, postscale_factor
        As in `allreduce`.

    Raises
    ------
    ValueError
        For another op or a tensor without dimensions.
    MXNetError
        Ranks disagree, or a rank is lost.

    Notes
    -----
    Matches ``horovod.mxnet.reducescatter``; waits for the result.
    """
    factors = prescale_factor, postscale_factor
    return _reduce_scatter([tensor], op, name, priority, process_set, factors)[0]


def grouped_reducescatter(
    tensors: Sequence[NDArray],
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[NDArray]:
    """Reduce and scatter several arrays in one operation; parameters as `reducescatter`."""
    if not tensors:
        return tensors  # type: ignore[return-value]
    factors = prescale_factor, postscale_factor
    return _reduce_scatter(tensors, op, name, priority, process_set, factors, grouped=True)
