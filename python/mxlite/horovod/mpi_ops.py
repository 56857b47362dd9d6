"""Collectives of arrays, by name.

Ranks may call them in any order: an operation runs when all ranks of its process set have called
it. All-reduce and broadcast run in the background, like every operation on arrays; reading a
result raises their errors. The other collectives block, as the result's shape depends on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from ..comm.process_sets import ProcessSet, checked_rank, global_process_set
from ..comm.rows import allgather, alltoall, grouped_allgather, grouped_reducescatter, reducescatter
from ..comm.submitting import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    check_group,
    checked,
    chosen_op,
    contiguous,
    full_name,
    group_names,
    reduction,
    returned,
    run_in_place,
    set_number,
    submit,
)
from ..ndarray import NDArray

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "allreduce_",
    "alltoall",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "reducescatter",
]


def allreduce(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """Reduce an array over all ranks: ``postscale * op(prescale * tensor of each rank)``.

    Parameters
    ----------
    tensor : NDArray
        Tensor of the same shape and type on all ranks.
    average : bool, optional
        Deprecated: True means op=Average, False means op=Sum.
    name : str, optional
        Unnamed calls must come in the same order on all ranks.
    priority : int
        If several operations are ready, larger priorities run first.
    prescale_factor, postscale_factor : float
        Factors before and after ``op``. Integers are scaled as float64, float16 as float32.
    process_set : ProcessSet
    op : int
        `Average`, `Sum`, `Min`, `Max` or `Product`. The average of integers is truncated.

    Returns
    -------
    NDArray
        Has the same bits on all ranks.

    Raises
    ------
    MXNetError
        When the result is read, if ranks disagree on shape, type or op, or a rank is lost.
    """
    kind = "allreduce"
    sent = contiguous(checked(kind, tensor))
    number = set_number(kind, process_set)
    terms = reduction(chosen_op(kind, op, average), prescale_factor, postscale_factor, process_set)
    output = _core.comm_empty(sent)
    submit(
        kind,
        [full_name(kind, name, process_set)],
        [sent],
        [output],
        set=number,
        priority=priority,
        **terms,
    )
    return returned(output, tensor)


def allreduce_(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """Reduce an array over all ranks in place and return it; see `allreduce` for the parameters."""
    kind = "allreduce"
    number = set_number(kind, process_set)
    terms = reduction(chosen_op(kind, op, average), prescale_factor, postscale_factor, process_set)
    run_in_place(
        kind,
        [full_name(kind, name, process_set)],
        [checked(kind, tensor)],
        set=number,
        priority=priority,
        **terms,
    )
    return tensor


def grouped_allreduce(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> list[NDArray]:
    """Reduce several arrays in one operation; see `allreduce` for the parameters."""
    kind = "allreduce"
    if not tensors:
        return tensors  # type: ignore[return-value]
    inputs = [contiguous(tensor) for tensor in check_group(kind, tensors)]
    number = set_number(kind, process_set)
    terms = reduction(chosen_op(kind, op, average), prescale_factor, postscale_factor, process_set)
    base, names = group_names(kind, name, len(inputs), process_set)
    outputs = [_core.comm_empty(t) for t in inputs]
    submit(kind, names, inputs, outputs, set=number, priority=priority, group=base, **terms)
    return [returned(output, t) for output, t in zip(outputs, tensors)]


def grouped_allreduce_(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Sequence[NDArray]:
    """Reduce several arrays in place and return them; see `allreduce` for the parameters."""
    kind = "allreduce"
    if not tensors:
        return tensors
    arrays = check_group(kind, tensors)
    number = set_number(kind, process_set)
    terms = reduction(chosen_op(kind, op, average), prescale_factor, postscale_factor, process_set)
    base, names = group_names(kind, name, len(arrays), process_set)
    run_in_place(kind, names, arrays, set=number, priority=priority, group=base, **terms)
    return tensors


def broadcast(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """Return the array of one rank on all ranks.

    Parameters
    ----------
    tensor : NDArray
        Tensor of the same shape and type on all ranks.
    root_rank : int
        Rank whose array is sent: its rank in the job, also for a process set.
    name, priority, process_set
        As in `allreduce`.

    Raises
    ------
    MXNetError
        When the result is read, if ranks disagree or a rank is lost.
    """
    kind = "broadcast"
    sent = contiguous(checked(kind, tensor))
    number = set_number(kind, process_set)
    output = _core.comm_empty(sent)
    submit(
        kind,
        [full_name(kind, name, process_set)],
        [sent],
        [output],
        set=number,
        priority=priority,
        root=checked_rank(kind, root_rank),
    )
    return returned(output, tensor)


def broadcast_(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """Overwrite an array with that of one rank and return it; see `broadcast` for parameters."""
    kind = "broadcast"
    number = set_number(kind, process_set)
    run_in_place(
        kind,
        [full_name(kind, name, process_set)],
        [checked(kind, tensor)],
        set=number,
        priority=priority,
        root=checked_rank(kind, root_rank),
    )
    return tensor
