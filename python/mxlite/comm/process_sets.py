"""Process sets: groups of ranks that run collectives among themselves."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from .. import _core
from ..base import MXNetError, Provided, TypeError_, ValueError_
from .job import JOB
from .settings import dynamic_process_sets

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


class ProcessSetError(ValueError_):
    """A process set does not exist, exists already, or may not be changed."""


class ProcessSet:
    """Some ranks of the job.

    Parameters
    ----------
    ranks_or_comm : sequence of int
        Ranks of the job. Communicators of mpi4py are not supported; give their ranks.

    Notes
    -----
    Matches ``horovod.common.process_sets.ProcessSet``. Usable after ``init(process_sets=[...])`` or
    `add_process_set`.
    """

    process_set_id: int | None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        self.process_set_id = None
        self.mpi_comm: Any = None
        if isinstance(ranks_or_comm, (str, bytes)) or not hasattr(ranks_or_comm, "__iter__"):
            raise TypeError_(
                "ProcessSet: ranks_or_comm must be a list of ranks (with mpi4py: "
                f"comm.group.Translate_ranks), got {ranks_or_comm!r}"
            )
        ranks = [checked_rank("ProcessSet", r) for r in ranks_or_comm]
        if not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0:
            raise ProcessSetError(f"ProcessSet: ranks must be distinct, got {ranks}")
        self.ranks: list[int] | None = sorted(ranks)

    def wanted_ranks(self) -> list[int]:
        """Return the ranks with which the set was made."""
        return list(self.ranks or [])

    def size(self) -> int | None:
        """Return the number of ranks; None while the set is not part of the job."""
        return None if self.process_set_id is None else len(self.ranks or ())

    def rank(self) -> int | None:
        """Return this process's position in the set; None while the set is not part of the job.

        Raises ValueError if this process is not in the set.
        """
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ProcessSetError(f"this process is not in {self!r}")
        return (self.ranks or []).index(_own_rank())

    def included(self) -> bool | None:
        """Return whether this process is in the set; None for an empty set before `init`."""
        return None if self.ranks is None else _own_rank() in self.ranks

    def __index__(self) -> int:
        """Return the number, so that operators accept a process set as ``process_set_id``."""
        if self.process_set_id is None:
            raise ProcessSetError(
                f"{self!r} is not part of the job: give it to hvd.init(process_sets=[...]) or "
                "hvd.add_process_set"
            )
        return self.process_set_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcessSet):
            return NotImplemented
        return self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(tuple(self.ranks or ()))

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    def __init__(self) -> None:
        self.process_set_id = 0
        self.mpi_comm = None
        self.ranks = None

    def size(self) -> int:
        _own_rank()  # raises before init was called
        return len(self.ranks or ())

    def included(self) -> bool:
        _own_rank()
        return True


global_process_set = _GlobalProcessSet()

_dynamic = False
_added: list[ProcessSet] = []


GivenProcessSet = Union[ProcessSet, int, str, None]
"""None is the set of all ranks, an integer is a process_set_id, a string an axis of the mesh."""

process_set_of_axis = Provided()  # provided by parallel/mesh.py; None without a current mesh


def resolved_process_set(who: str, process_set: GivenProcessSet) -> ProcessSet | int:
    """Return the process set of an argument, or an unchecked number."""
    if process_set is None:
        return global_process_set
    found: Any = process_set
    if isinstance(process_set, str):
        found = process_set_of_axis(process_set)
    if isinstance(found, ProcessSet):
        return found
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise TypeError_(
            f"{who}: process_set must be a ProcessSet, its process_set_id or the name of an axis "
            f"of the current mesh (see Mesh.use), got {process_set!r}"
        )
    return operator.index(found)


def chosen_process_set(who: str, process_set: GivenProcessSet) -> ProcessSet:
    """Return the process set of an argument: a set, a number, the name of a mesh axis, or None."""
    found = resolved_process_set(who, process_set)
    if isinstance(found, ProcessSet):
        return found
    for known in (global_process_set, *_added):
        if known.process_set_id == found:
            return known
    raise ProcessSetError(f"{who}: process set {found} does not exist")


def _own_rank() -> int:
    return int(JOB.value("rank"))


def checked_rank(who: str, rank: Any) -> int:
    """Return a rank as an int; raise if it is not an integer."""
    if isinstance(rank, (bool, np.bool_)) or not hasattr(rank, "__index__"):
        raise TypeError_(f"{who}: rank must be an integer, got {rank!r}")
    return operator.index(rank)


def check_given(process_sets: Sequence[ProcessSet] | str | None) -> list[ProcessSet]:
    """Check the process sets given to ``init``; store whether sets may change later."""
    global _dynamic
    _dynamic = dynamic_process_sets()
    if process_sets is None:
        return []
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ProcessSetError(
                "init: process_sets must be a list of ProcessSet or 'dynamic', got "
                f"{process_sets!r}"
            )
        _dynamic = True
        return []
    given = list(process_sets)
    for entry in given:
        if not isinstance(entry, ProcessSet):
            raise TypeError_(f"init: process_sets must hold ProcessSet objects, got {entry!r}")
        if entry is global_process_set:
            raise ProcessSetError(
                "init: process_sets must not hold global_process_set, which every job has; "
                "leave it out"
            )
    return given


def joined(given: Sequence[ProcessSet]) -> None:
    """Set the numbers of the process sets that ``init`` created, in their order."""
    global_process_set.ranks = list(_core.comm_set_members(0))
    for number, process_set in enumerate(given, 1):
        process_set.process_set_id = number
        _added.append(process_set)


def added_process_sets() -> list[ProcessSet]:
    """Return the process sets of the job except that of all ranks."""
    return list(_added)


def left() -> None:
    """Detach all process sets from the job after ``shutdown``."""
    for process_set in _added:
        process_set.process_set_id = None
    _added.clear()
    global_process_set.ranks = None


def _check_dynamic(who: str) -> None:
    _own_rank()
    if not (_dynamic or dynamic_process_sets()):
        raise ProcessSetError(
            f"{who}: process sets may change only after init(process_sets='dynamic') or with "
            "HOROVOD_DYNAMIC_PROCESS_SETS=1"
        )


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Add a process set, which gets its number, and return it; all ranks of the job call it.

    Raises ValueError if sets may not change, if a set of these ranks exists, or if the ranks pass
    different sets.
    """
    _check_dynamic("add_process_set")
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    return _add(process_set)


def provide_process_set(ranks: Sequence[int]) -> ProcessSet:
    """Return the process set of these ranks; add it if there is none. All ranks must call this.

    Unlike `add_process_set`, it works without ``init(process_sets="dynamic")``.
    """
    wanted = list(ranks)
    if wanted == global_process_set.ranks:
        return global_process_set
    for known in _added:
        if known.ranks == wanted:
            return known
    return _add(ProcessSet(wanted))


def _add(process_set: ProcessSet) -> ProcessSet:
    ranks = process_set.wanted_ranks()
    try:  # the core checks the ranks, so that all ranks raise if one passes invalid ranks
        pending = _core.comm_submit(
            "add_process_set", ["process_set.add"], [], [], {"splits": ranks}
        )
        pending.wait()
    except MXNetError as error:
        raise ProcessSetError(str(error)) from None
    process_set.process_set_id = int(pending.set_number)
    process_set.ranks = ranks
    _added.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set; all ranks of the job call it.

    Operations of the set that still wait for other ranks fail. Returns False for the set of all
    ranks, which is kept, and for a set that was already removed. Raises ValueError if sets may not
    change, or if the ranks pass different sets.
    """
    _check_dynamic("remove_process_set")
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    try:
        _core.comm_submit(
            "remove_process_set", ["process_set.remove"], [], [], {"splits": [number]}
        ).wait()
    except MXNetError as error:
        raise ProcessSetError(str(error)) from None
    process_set.process_set_id = None
    if process_set in _added:
        _added.remove(process_set)
    return True
