"""The loop around training, which continues after processes are lost or added."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ... import _core
from ... import ndarray as nd
from ...base import MXNetError, NotSupportedError
from ...comm import basics
from ...comm.job import InitError
from ..mpi_ops import allreduce
from . import hosts
from .errors import HorovodInternalError, HostsUpdatedInterrupt
from .state import ObjectState, State, keeper

_NOTICE_SECONDS = 2.0  # an operation may fail before the loss of the rank is reported
_WAIT_SECONDS = 1.0


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make a training function continue after losses; for use as a decorator.

    Parameters
    ----------
    func : callable
        Its first argument is a `State`, from whose position it continues.

    Returns
    -------
    callable
        Calls ``func`` until it returns. After a lost process, it is called again with the last
        commit; when processes join, with the current state.

    Raises
    ------
    NotSupportedError
        From the call, if the job is not elastic; the message says how to start an elastic job.
    HorovodInternalError
        From the call, if fewer processes than ``--min-np`` are left or the reset limit is reached.

    Notes
    -----
    Matches ``horovod.torch.elastic.run``. All ranks return at the same time.
    """

    @functools.wraps(func)
    def training(state: State, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(state, State):
            raise TypeError(
                f"elastic.run: first argument must be a State, got {type(state).__name__}"
            )
        basics.init()
        _check_launch()
        return _run(func, state, args, kwargs)

    return training


def _check_launch() -> None:
    if _core.comm_launcher() == "none" or keeper() is not None:
        return
    if _core.comm_launcher() == "host":
        raise NotSupportedError(
            "elastic training: launch.py has started this job without MPI; start it with "
            "mxlite-run --elastic and Open MPI 5"
        )
    obstacle = _core.comm_obstacle()
    if obstacle:
        raise NotSupportedError(f"elastic training: {obstacle}")


def _run(func: Callable[..., Any], state: State, args: Any, kwargs: Any) -> Any:
    resets = 0
    state.on_reset()
    if isinstance(state, ObjectState):
        state.take_kept()
    while True:
        try:
            state.sync()
            result = func(state, *args, **kwargs)
            # No rank may return while another rank still needs it.
            allreduce(nd.ones((1,)), name="elastic.end").wait_to_read()
            _register_success()
            return result
        except HostsUpdatedInterrupt:
            lost = _saved(state)
        except MXNetError as error:
            if keeper() is not None or not _is_loss(error):
                raise  # with a keeper, the launcher restarts all processes
            lost = error
        resets += 1
        limit = hosts.settings().resets
        if limit and resets > limit:
            raise HorovodInternalError(f"elastic training: --reset-limit {limit} reached") from lost
        if lost is not None:
            _tell(lost)
        _reset(lost)
        if lost is not None:
            state.restore()
        state.on_reset()


def _saved(state: State) -> MXNetError | None:
    """Save the current state; return the error if a rank was lost during saving."""
    try:
        state.save()
    except MXNetError as error:
        if not _is_loss(error):
            raise
        return error
    return None


def _is_loss(error: MXNetError) -> bool:
    """Return whether a rank was lost; waits briefly, because losses are reported later."""
    if isinstance(error, HorovodInternalError):
        return True
    limit = time.monotonic() + _NOTICE_SECONDS
    while time.monotonic() < limit:
        if _core.comm_lost():
            return True
        if not _core.comm_running():
            return False
        time.sleep(0.005)
    return False


def _tell(error: MXNetError) -> None:
    text = str(error).splitlines()[0]
    print(f"mxlite: elastic training: continuing after a loss: {text}", file=sys.stderr, flush=True)


def _reset(lost: MXNetError | None) -> None:
    """Form a job of the remaining processes; retry until it succeeds or too few are left."""
    if _core.comm_launcher() == "none":
        if lost is not None:
            raise HorovodInternalError(f"elastic training: no other process is left: {lost}")
        return
    known = hosts.settings()
    limit = time.monotonic() + known.timeout
    wanted = hosts.wanted_processes()
    while True:
        with contextlib.suppress(MXNetError):
            _core.waitall()  # operations in flight have failed and will be computed again
        basics.forget()
        try:
            _core.comm_rebuild(
                {
                    "processes": wanted,
                    "command": hosts.command() if wanted else [],
                    "folder": os.getcwd(),
                    "start_timeout": known.start_timeout,
                }
            )
            hosts.note_start()
            basics.init()
        except (InitError, MXNetError) as error:
            if isinstance(error, NotSupportedError) or time.monotonic() > limit:
                raise HorovodInternalError(f"elastic training: {error}") from error
            continue  # another process was lost in the meantime
        if basics.size() >= known.least:
            return
        if time.monotonic() > limit or not wanted:
            raise HorovodInternalError(
                f"elastic training: number of processes must be at least --min-np {known.least}, "
                f"got {basics.size()}"
            ) from lost
        time.sleep(_WAIT_SECONDS)


_registered = False


def _register_success() -> None:
    global _registered
    if not _registered:
        atexit.register(hosts.tell_success)
    _registered = True
