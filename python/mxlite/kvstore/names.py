"""The types of stores by name, and the function that makes them: ``mx.kv.create``."""

from __future__ import annotations

import os
from typing import cast

from ..base import NotSupportedError, TypeError_, ValueError_, suggestion
from ..runtime import Features
from . import base as _base
from .base import KVStoreBase
from .local import KVStore

_LOCAL_WORDS = {"local", "device", "update", "allreduce", "cpu"}
_DIST_WORDS = {"dist", "sync", "async", "device", "p3"}
_KNOWN = (
    "local",
    "device",
    "nccl",
    "dist_sync",
    "dist_async",
    "dist_sync_device",
    "dist_device_sync",
    "dist_async_device",
    "dist",
    "p3",
    "horovod",
)


def spans_processes(name: str) -> bool:
    """Return whether stores of this type sum over processes."""
    return bool({"dist", "p3", "horovod"} & set(name.split("_")))


def checked_name(name: str) -> str:
    """Return the name of a type of store in lower case; raise if there is no such type."""
    if not isinstance(name, str):
        raise TypeError_(f"kvstore.create: name must be a string, got {name!r}")
    lower = name.lower()
    words = set(lower.split("_"))
    if lower in KVStoreBase.kv_registry or lower in ("nccl", "horovod"):
        return lower
    if "byteps" in words:
        raise NotSupportedError(
            f"kvstore.create: {name!r} is not supported, because mxlite does not have BytePS; "
            "use 'horovod' or 'dist_sync', which also sum over processes"
        )
    if words <= _LOCAL_WORDS and words & {"local", "device"}:
        return lower
    if words <= _DIST_WORDS and words & {"dist", "p3"} and not {"sync", "async"} <= words:
        return lower
    raise ValueError_(
        "kvstore.create: name must be 'local', 'device', 'nccl', 'dist_sync', 'dist_async', "
        f"'dist_sync_device', 'dist_async_device', 'horovod' or a registered plug-in, got {name!r}"
        f"{suggestion(lower, (*_KNOWN, *KVStoreBase.kv_registry))}"
    )


def create(name: str = "local") -> KVStore:
    """Make a store.

    Parameters
    ----------
    name : str
        Type of the store; case and order of its parts do not matter.

        ``'local'``, ``'device'``
            One process (also ``'local_update_cpu'``, ``'local_allreduce_cpu'``,
            ``'local_allreduce_device'``).
        ``'nccl'``
            One process with GPUs, in builds with CUDA.
        ``'dist_sync'``, ``'dist_sync_device'``, ``'dist'``
            Processes of ``tools/launch.py`` use its servers; processes of ``mpirun`` or
            ``mxlite-run`` use all-reduce, with the same results.
        ``'dist_async'``, ``'dist_async_device'``
            Servers update at every push of any worker.
        ``'p3'``
            Same as ``'dist'``, which always orders pushes and pulls by priority.
        ``'horovod'``
            Sums over the processes of ``mpirun``, without optimizer.

        Or the class name of a registered plug-in.

    Returns
    -------
    KVStore
        For a plug-in, an instance of its class.

    Raises
    ------
    TypeError
        If the name is not a string.
    NotSupportedError
        For a type that this build, or this kind of job, does not have.
    ValueError
        If the name is unknown, or the other processes cannot be joined.
    """
    lower = checked_name(name)
    plugin: type[KVStoreBase] | None = KVStoreBase.kv_registry.get(lower)
    if plugin is not None:
        return cast(KVStore, plugin())
    if lower == "nccl":
        _check_nccl()
    if not spans_processes(lower):
        return KVStore(lower)
    if lower != "horovod" and _has_servers():
        # Imported on use: only jobs with servers need it, and importing mxlite would take 2 %
        # longer.
        from .servers import ServerStore

        return ServerStore(lower)
    # Imported on use: only jobs of several processes need it.
    from .processes import AllReduceStore, Horovod

    return cast(KVStore, Horovod()) if lower == "horovod" else AllReduceStore(lower)


def _check_nccl() -> None:
    if not Features().is_enabled("NCCL"):
        raise NotSupportedError(
            "kvstore.create: 'nccl' is not supported, as this build has no CUDA (MXLITE_CUDA=OFF) "
            "and so no NCCL; 'device' sums on the devices of one process"
        )


def _has_servers() -> bool:
    """Return whether `tools/launch.py` (or another tracker) started this job with servers."""
    started = os.environ.get("DMLC_ROLE") == "worker" or "DMLC_PS_ROOT_URI" in os.environ
    return started and os.environ.get("DMLC_NUM_SERVER", "1").strip() != "0"


vars(_base)["create"] = create  # also available in that module, as in 1.x
