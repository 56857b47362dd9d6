"""Jobs on a Ray cluster: one actor per rank (``pip install ray``)."""

from __future__ import annotations

import importlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _core
from .base import CommunicatorError, NotSupportedError, ValueError_
from .horovod.elastic import HorovodInternalError
from .horovod.elastic.state import keep_commits_in

__all__ = ["run"]

# Limit in seconds for other workers to report their errors after the first failure.
_LAST_ERRORS_SECONDS = 15.0


class _Keeper:
    """Stores the newest commit of an elastic training while workers are replaced."""

    def __init__(self) -> None:
        self._commits = 0
        self._content: Any = None

    def save(self, commits: int, content: Any) -> None:
        """Replace the commit unless the stored one is newer."""
        if commits >= self._commits:
            self._commits, self._content = commits, content

    def load(self) -> tuple[int, Any]:
        """Return number and content of the newest commit, or 0 and None."""
        return self._commits, self._content


class _Client:
    """Lets a worker access the keeper."""

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper

    def save(self, commits: int, content: Any) -> None:
        """Send a commit, and wait until the keeper has stored it."""
        _ray().get(self._keeper.save.remote(commits, content))

    def load(self) -> tuple[int, Any]:
        """Return the keeper's commit."""
        number, content = _ray().get(self._keeper.load.remote())
        return int(number), content


class _Worker:
    """Runs one rank of the job."""

    def run(
        self, train: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], keeper: Any
    ) -> Any:
        """Call the function. The keeper also stores commits, which outlive this process."""
        keep_commits_in(_Client(keeper))
        return train(*args, **kwargs)


def run(
    train: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    num_workers: int,
    min_workers: int | None = None,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
    restarts: int = 0,
    env: Mapping[str, str] | None = None,
) -> list[Any]:
    """Call a function on Ray actors, which are the ranks of one job.

    The function calls ``mxlite.horovod.init()`` or makes a mesh as under mpirun; Open MPI is not
    needed. Joins the Ray cluster of this program, or starts Ray on this machine.

    Parameters
    ----------
    train : callable
        Pickled by Ray, with its arguments.
    args, kwargs : sequence, mapping
    num_workers : int
        Number of ranks.
    min_workers : int, optional
        Fewest ranks after nodes were lost; ``num_workers`` by default.
    cpus_per_worker, gpus_per_worker : float
        What Ray reserves for each rank.
    restarts : int
        How often all ranks are started again after one was lost. A function decorated with
        `mxlite.horovod.elastic.run` continues with the last commit of its state.
    env : mapping of str to str, optional
        Environment variables of the ranks.

    Returns
    -------
    list
        Results by rank.

    Raises
    ------
    NotSupportedError
        If Ray is not installed.
    HorovodInternalError
        If a rank was lost and no restarts are left, or fewer than ``min_workers`` fit.
    Exception
        Errors of the function, as Ray raises them.
    """
    ray = _ray()
    least = num_workers if min_workers is None else min_workers
    if not 1 <= least <= num_workers:
        raise ValueError_(
            f"mxlite.ray.run: num_workers must be 1 or more and min_workers from 1 to num_workers, "
            f"got {num_workers} and {min_workers}"
        )
    if not ray.is_initialized():
        ray.init(log_to_driver=True)
    keeper = ray.remote(num_cpus=0)(_Keeper).remote()
    call = (train, args, kwargs or {}, keeper)
    resources = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
    try:
        count, attempts = num_workers, 0
        while True:
            results, lost = _attempt(ray, call, count, resources, env or {})
            if lost is None:
                return results
            if attempts == restarts:
                raise HorovodInternalError(
                    f"mxlite.ray.run: a rank was lost and restarts={restarts} is reached: {lost}"
                ) from lost
            attempts += 1
            count = _fitting(ray, num_workers, resources)
            if count < least:
                raise HorovodInternalError(
                    f"mxlite.ray.run: the cluster has room for {count} workers, min_workers must "
                    f"be at most that, got {least}"
                ) from lost
            logging.warning("mxlite.ray: starting %d workers again after a loss: %s", count, lost)
    finally:
        ray.kill(keeper)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise NotSupportedError(
            f"mxlite.ray.run: Ray is not installed ({error}); pip install ray"
        ) from error


def _attempt(
    ray: Any, call: Sequence[Any], count: int, resources: dict[str, float], env: Mapping[str, str]
) -> tuple[list[Any], Exception | None]:
    """Run one job; return the results, and the error if a rank was lost."""
    token = secrets.token_hex(16)
    meeting = _core.JobRendezvous(count, ray.util.get_node_ip_address(), 0, token)
    workers = []
    try:
        for rank in range(count):
            variables = {
                **env,
                "MXLITE_JOB_ADDRESS": meeting.text,
                "MXLITE_JOB_TOKEN": token,
                "MXLITE_JOB_RANK": str(rank),
                "MXLITE_JOB_SIZE": str(count),
            }
            options = {**resources, "runtime_env": {"env_vars": variables}}
            workers.append(ray.remote(**options)(_Worker).remote())
        calls = [worker.run.remote(*call) for worker in workers]
        return _results(ray, calls)
    finally:
        for worker in workers:
            ray.kill(worker)


def _results(ray: Any, calls: list[Any]) -> tuple[list[Any], Exception | None]:
    """Wait for all ranks; raise the function's error, or return the error of a lost rank."""
    results: dict[Any, Any] = {}
    lost: Exception | None = None
    deadline: float | None = None
    waiting = list(calls)
    while waiting:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        done, waiting = ray.wait(waiting, timeout=timeout)
        if not done:
            break
        try:
            results[done[0]] = ray.get(done[0])
        except (CommunicatorError, ray.exceptions.RayActorError) as error:
            lost = lost or error
        if lost is not None:
            deadline = deadline or time.monotonic() + _LAST_ERRORS_SECONDS
    return ([] if lost else [results[call] for call in calls]), lost


def _fitting(ray: Any, wanted: int, resources: dict[str, float]) -> int:
    """Return how many of the requested workers fit into the cluster."""
    there = ray.cluster_resources()
    for kind, needed in (("CPU", resources["num_cpus"]), ("GPU", resources["num_gpus"])):
        if needed:
            wanted = min(wanted, int(there.get(kind, 0) / needed))
    return wanted
