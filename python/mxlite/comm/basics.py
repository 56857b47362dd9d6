"""Joining and leaving a job; rank, size and features of the job."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from .. import _core
from .._native.version import __version__
from ..base import MXNetError, TypeError_
from . import process_sets as sets
from .job import JOB, InitError
from .settings import runtime_options, timeline_marks_cycles

_hooks_installed = False


def init(comm: Any = None, process_sets: Sequence[sets.ProcessSet] | str | None = None) -> None:
    """Join the processes that `mpirun` or `mxlite-run` started, or form a job of one process.

    Parameters
    ----------
    comm : list of int or mpi4py.MPI.Comm, optional
        Ranks of the job, or a communicator; all ranks by default. A process that is not included
        forms a job of its own.
    process_sets : list of ProcessSet or 'dynamic', optional
        Process sets besides that of all ranks; 'dynamic' permits adding and removing them later.

    Raises
    ------
    ValueError
        If the job cannot be joined: Open MPI is missing, a rank has another version, ...

    Notes
    -----
    Matches ``horovod.mxnet.init``; a second call does nothing. All ranks must call it.
    """
    if is_initialized():
        return
    options = runtime_options()
    options["version"] = _version()
    given = sets.check_given(process_sets)
    ranks: list[int] = []
    address = 0
    if comm is not None:
        ranks, address = _chosen(comm)
    options["process_sets"] = [s.wanted_ranks() for s in given]
    _install_hooks()
    try:
        _core.comm_start(options, ranks, address)
        JOB.info = dict(_core.comm_info())
    except MXNetError as error:
        raise InitError(f"init: {error}") from error
    JOB.counters.clear()
    sets.joined(given)
    for follower in list(JOB.followers):
        follower._follow_size()


def _version() -> str:
    return __version__


def _chosen(comm: Any) -> tuple[list[int], int]:
    """Return the given ranks, or the address of an mpi4py communicator."""
    if isinstance(comm, (list, tuple)):
        return [sets.checked_rank("init: comm", r) for r in comm], 0
    mpi4py = sys.modules.get("mpi4py.MPI")
    if mpi4py is not None and isinstance(comm, mpi4py.Comm):
        return [], int(mpi4py._addressof(comm))
    raise TypeError_(
        f"init: comm must be a list of ranks or an mpi4py communicator, got {type(comm).__name__}"
    )


def _install_hooks() -> None:
    """Leave the job at exit, and notify the other ranks if an exception ends this process."""
    global _hooks_installed
    if _hooks_installed:
        return
    _hooks_installed = True
    atexit.register(_at_exit)
    previous = sys.excepthook

    def tell_the_others(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        JOB.failed = True
        previous(kind, value, trace)
        sys.stderr.flush()
        if _core.comm_running() and JOB.info is not None:
            text = f"rank {JOB.info['rank']} has ended with {kind.__name__}: {value}"
            _core.comm_abort(text[:1500])

    sys.excepthook = tell_the_others


def _at_exit() -> None:
    # MPI_Finalize waits for all ranks, so a failed process skips it, and mpirun ends the others.
    if JOB.failed or _core.ended_by_interrupt():
        _core.comm_stop()
    else:
        if JOB.info is not None:
            # Completes pending calls. Their errors are ignored here, because reading a result
            # raises them.
            with contextlib.suppress(MXNetError):
                _core.waitall()
        _core.comm_finalize()
    JOB.info = None


def shutdown() -> None:
    """Leave the job. Pending operations fail, and so do later calls on any rank.

    Notes
    -----
    Matches ``horovod.mxnet.shutdown``. Runs by itself at the end of the process.
    """
    _core.comm_stop()
    JOB.info = None
    sets.left()


def forget() -> None:
    """Reset the state before the job is formed again; its process sets must then be added again."""
    JOB.info = None
    sets.left()


def is_initialized() -> bool:
    """Return whether this process has joined the job."""
    return JOB.info is not None


def rank() -> int:
    """Return the number of this process in the job.

    Raises
    ------
    ValueError
        If called before `init`, like all functions of this group.
    """
    return int(JOB.value("rank"))


def size() -> int:
    """Return the number of processes of the job."""
    return int(JOB.value("size"))


def local_rank() -> int:
    """Return the number of this process on its host."""
    return int(JOB.value("local_rank"))


def local_size() -> int:
    """Return how many of the processes are on this host."""
    return int(JOB.value("local_size"))


def cross_rank() -> int:
    """Return the position of this process among the processes of its local rank, by host."""
    return int(JOB.value("cross_rank"))


def cross_size() -> int:
    """Return how many hosts have a process of this local rank."""
    return int(JOB.value("cross_size"))


def is_homogeneous() -> bool:
    """Return whether all hosts have the same number of processes."""
    return bool(JOB.value("homogeneous"))


def mpi_threads_supported() -> bool:
    """Return whether MPI may be called from several threads.

    Raises ValueError before `init` and in jobs that do not use MPI.
    """
    JOB.value("rank")
    if not mpi_enabled():
        raise InitError("Horovod MPI is not enabled; start the job with mpirun or mxlite-run.")
    return bool(_core.mpi_threads_supported())


def mpi_enabled() -> bool:
    """Return whether the processes of the job found each other through MPI."""
    return str(_core.comm_launcher()) == "openmpi"


def mpi_built() -> bool:
    """Return whether this build can use MPI."""
    return bool(_core.mpi_built())


def gloo_enabled() -> bool:
    """Return False: there is no Gloo in mxlite."""
    return False


def gloo_built() -> bool:
    """Return False: there is no Gloo in mxlite."""
    return False


def nccl_built() -> int:
    """Return the version of NCCL as one number (21000 for 2.10), 0 without NCCL or a GPU."""
    return int(_core.nccl_version())


def ddl_built() -> bool:
    """Return False: there is no DDL in mxlite."""
    return False


def ccl_built() -> bool:
    """Return False: there is no oneCCL in mxlite."""
    return False


def cuda_built() -> bool:
    """Return whether collectives on GPU arrays avoid host memory; see `nccl_built`."""
    return nccl_built() > 0


def rocm_built() -> bool:
    """Return False: there is no ROCm in mxlite."""
    return False


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Start writing a trace of all collectives on rank 0, for chrome://tracing.

    Parameters
    ----------
    file_path : str or path
    mark_cycles : bool
        Show where rounds of negotiation begin.

    Raises
    ------
    ValueError
        Before `init`, or if the file cannot be written.
    """
    JOB.value("rank")
    try:
        _core.comm_timeline_start(os.fspath(file_path), mark_cycles or timeline_marks_cycles())
    except OSError as error:
        raise InitError(f"start_timeline: {error}") from error


def stop_timeline() -> None:
    """End the trace. Raises ValueError before `init`."""
    JOB.value("rank")
    _core.comm_timeline_stop()
