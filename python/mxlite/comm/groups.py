"""The process set of a layer, parameter or trainer, with its number for collectives."""

from __future__ import annotations

import operator
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from .. import ndarray as nd
from ..base import CommunicatorError, MXNetError
from .job import JOB
from .process_sets import (
    GivenProcessSet,
    ProcessSet,
    ProcessSetError,
    added_process_sets,
    resolved_process_set,
)
from .submitting import submit, waited

# Environment variables in which launchers set the number of processes.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MXLITE_JOB_SIZE")
_LENGTHS = struct.Struct("<QQ")


@dataclass(frozen=True)
class Group:
    """A process set to which this process belongs.

    Attributes
    ----------
    number : int
        The value for the parameter ``process_set`` of collective operators.
    ranks : tuple of int
        Ranks of the job, in ascending order.
    index : int
        Position of this process among them.
    """

    number: int
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)


def group_of(who: str, process_set: GivenProcessSet) -> Group:
    """Return the group for an argument that names a process set."""
    process_set = resolved_process_set(who, process_set)
    number = process_set.process_set_id if isinstance(process_set, ProcessSet) else process_set
    if JOB.info is None:
        if number != 0:
            raise ProcessSetError(
                f"{who}: process set must be that of all ranks, as this process has joined no job, "
                f"got {process_set!r}; call mxlite.parallel.mesh(...) or "
                "mxlite.horovod.init(process_sets=[...]) first"
            )
        launched = max(int(os.environ.get(name, "1")) for name in _SIZES)
        if launched > 1:
            raise CommunicatorError(
                f"{who}: this process was started as one of {launched} and must join the others: "
                "call mxlite.parallel.mesh(...), create a dist_sync store, or call "
                "mxlite.horovod.init() first"
            )
        return Group(0, (0,), 0)
    try:
        number = operator.index(process_set)
        ranks = tuple(_core.comm_set_members(number))
    except MXNetError as error:
        raise ProcessSetError(f"{who}: {error}") from None
    rank = int(JOB.value("rank"))
    if rank not in ranks:
        raise ProcessSetError(
            f"{who}: process set {number} of ranks {', '.join(map(str, ranks))} does not contain "
            f"this process, rank {rank}"
        )
    return Group(number, ranks, ranks.index(rank))


def find_process_set(ranks: Sequence[int]) -> int | None:
    """Return the number of the process set of exactly these ranks; None if there is none."""
    if JOB.info is None:
        return 0 if list(ranks) == [0] else None
    for number in [0, *(entry.process_set_id for entry in added_process_sets())]:
        if number is not None and _core.comm_set_members(number) == list(ranks):
            return number
    return None


def exchange_bytes(
    group: Group, content: bytes, what: str, *, ordered: bool = False
) -> list[bytes]:
    """Return the bytes of all ranks of a group; all of them must call this in the same order."""
    if group.size == 1:
        return [content]
    name = what
    if not ordered:
        number = next(JOB.counters["exchange_bytes", group.number])
        name = f"exchange of settings between {ranks_text(group.ranks)}, number {number}"
    purpose = what.encode()
    header = _LENGTHS.pack(len(purpose), len(content))
    message = np.frombuffer(header + purpose + content, dtype=np.uint8)
    rows = nd.array(message, dtype="uint8")
    pending = submit("allgather", [name], [rows], [], set=group.number, ordered=ordered)
    gathered = waited(pending, [rows], rows)[0].asnumpy().tobytes()
    purposes, parts = [], []
    at = 0
    while at < len(gathered):
        purpose_size, size = _LENGTHS.unpack_from(gathered, at)
        begin = at + _LENGTHS.size + purpose_size
        purposes.append(gathered[at + _LENGTHS.size : begin].decode())
        at = begin + size
        parts.append(gathered[begin:at])
    if len(set(purposes)) > 1:
        calls = "; ".join(f"{call} on rank {rank}" for rank, call in zip(group.ranks, purposes))
        raise CommunicatorError(
            f"{ranks_text(group.ranks)} make different calls: {calls}; all of them must make the "
            "same calls in the same order"
        )
    return parts


def exchange_texts(group: Group, text: str, what: str, *, ordered: bool = False) -> list[str]:
    """Return the texts of all ranks of a group; see `exchange_bytes`."""
    parts = exchange_bytes(group, text.encode(), what, ordered=ordered)
    return [part.decode() for part in parts]


def ranks_text(ranks: Sequence[int]) -> str:
    """Return "rank 1" or "ranks 0, 1, 2", for errors."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
