"""Code shared by all named collectives: names, process sets, checks, submission."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import _core, autograd
from ..base import InputError, MXNetError, TypeError_, ValueError_
from ..context import Context
from ..ndarray import NDArray
from ..ndarray.structure import in_class_of
from .job import JOB, InitError
from .process_sets import ProcessSet, ProcessSetError, global_process_set

Average, Sum, Adasum, Min, Max, Product = range(6)

_REDUCTIONS = {Average: "sum", Sum: "sum", Min: "min", Max: "max", Product: "product"}


class AdasumError(ValueError_, AssertionError):
    """Adasum is not supported (``horovod.mxnet`` raises an ``AssertionError``)."""


def full_name(kind: str, name: str | None, process_set: ProcessSet) -> str:
    """Return the name of an operation on all ranks; unnamed calls of a set are numbered."""
    if name is None:
        return f"{kind}.noname.{next(JOB.counters[kind, process_set.process_set_id])}"
    return f"{kind}.{name}"


def set_number(kind: str, process_set: ProcessSet) -> int:
    """Return the number of a process set; raise if this process does not belong to it."""
    if JOB.info is None:
        raise InitError("Horovod has not been initialized; use hvd.init().")
    if not isinstance(process_set, ProcessSet):
        raise TypeError_(f"{kind}: process_set must be a ProcessSet, got {process_set!r}")
    if process_set is global_process_set:
        return 0
    if process_set.process_set_id is None:
        raise ProcessSetError(
            f"{kind}: {process_set!r} is not part of the job: give it to init(process_sets=[...]) "
            "or add_process_set"
        )
    if not process_set.included():
        raise ProcessSetError(
            f"{kind}: this process (rank {JOB.info['rank']}) is not in {process_set!r}"
        )
    return process_set.process_set_id


def checked(kind: str, tensor: Any) -> NDArray:
    """Return the tensor; raise if it is not a dense NDArray."""
    if _core.array_kind(tensor) != "dense":
        what = getattr(tensor, "stype", type(tensor).__name__)
        raise InputError(f"{kind}: tensor must be a dense NDArray, got {what}")
    return tensor


def submit(
    kind: str, names: list[str], inputs: list[NDArray], outputs: list[NDArray], **terms: Any
) -> Any:
    """Start one operation per name, all in one engine task."""
    return _core.comm_submit(kind, names, inputs, outputs, terms)


def contiguous(tensor: NDArray) -> NDArray:
    """Return the array, or a contiguous copy on a device that collectives support."""
    place = _core.comm_place(tensor)
    if place is None:
        return tensor
    with autograd.pause():
        target = Context(*place)
        return tensor.copy() if target == tensor.ctx else tensor.as_in_context(target)


def returned(output: NDArray, tensor: NDArray) -> NDArray:
    """Return a result in the class of the caller's tensor, and on its context if it is on a GPU."""
    output = in_class_of(output, tensor)
    if tensor.ctx.device_type != "gpu":
        return output
    with autograd.pause():
        return output.as_in_context(tensor.ctx)


def chosen_op(kind: str, op: int | None, average: bool | None = None) -> int:
    """Return the reduction from ``op`` or the older argument ``average``."""
    if average is not None:
        if op is not None:
            raise ValueError_(f"{kind}: op or average must be None, got both")
        warnings.warn(
            f"{kind}: average is deprecated, use op=hvd.Average or op=hvd.Sum",
            DeprecationWarning,
            stacklevel=4,
        )
        return Average if average else Sum
    if op is None:
        return Average
    if op == Adasum:
        raise AdasumError(f"{kind}: Adasum is not part of horovod.mxnet")
    if op not in _REDUCTIONS:
        raise ValueError_(f"{kind}: op must be hvd.Average, Sum, Min, Max or Product, got {op!r}")
    return op


def reduction(
    op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> dict[str, Any]:
    """Return the core's arguments for a reduction; an average is a scaled sum."""
    if op == Average:
        postscale = postscale / (process_set.size() or 1)
    return {"op": _REDUCTIONS[op], "prescale": float(prescale), "postscale": float(postscale)}


def group_names(
    kind: str, name: str | None, count: int, process_set: ProcessSet
) -> tuple[str, list[str]]:
    """Return the name of a group and those of its members."""
    base = full_name(kind, name, process_set)
    return base, [f"{base}_{i + 1}of{count}" for i in range(count)]


def check_group(kind: str, tensors: Any) -> list[NDArray]:
    """Return the tensors of a group; raise if they cannot be reduced in one operation."""
    if not isinstance(tensors, (list, tuple)):
        raise InputError(
            f"{kind}: tensors must be a list of NDArrays, got {type(tensors).__name__}"
        )
    group = [checked(kind, tensor) for tensor in tensors]
    if len({tensor.ctx.device_type for tensor in group}) > 1:
        raise MXNetError(f"{kind}: all tensors of a group must be on one device type")
    return group


def run_in_place(kind: str, names: list[str], tensors: list[NDArray], **terms: Any) -> None:
    """Run an operation in place, through a copy if an array is not contiguous."""
    ordered = [contiguous(tensor) for tensor in tensors]
    submit(kind, names, ordered, ordered, **terms)
    for tensor, copy in zip(tensors, ordered):
        if copy is not tensor:
            with autograd.pause():
                copy.copyto(tensor)


def waited(pending: Any, inputs: Sequence[NDArray], given: NDArray) -> list[NDArray]:
    """Wait for an operation; return its results on the context of the caller's tensor."""
    try:
        pending.wait()
    except MXNetError:
        for tensor in inputs:
            tensor.wait_to_read()  # raises the error of a failed input
        raise
    return [returned(output, given) for output in pending.outputs]
