"""Modules of Horovod besides ``horovod.mxnet`` that scripts and test helpers import."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from .. import context
from ..base import ValueError_
from ..comm import basics, process_sets
from ..horovod.elastic.errors import HorovodInternalError, HostsUpdatedInterrupt


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Start a thread that calls a function."""
    if not isinstance(args, tuple):
        raise ValueError_(f"in_thread: args must be a tuple, got {args!r}")

    def run() -> None:
        with contextlib.suppress(*[Exception] if silent else []):
            target(*args)

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether the framework is ``mxnet``, the only one that mxlite's Horovod supports."""
    return ext_base_name == "mxnet"


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether the framework sees a GPU."""
    return extension_available(ext_base_name) and context.num_gpus() > 0


def _built(function: Callable[[], Any]) -> Callable[..., bool]:
    """Return a function with Horovod's signature; its argument ``verbose`` is ignored."""

    @functools.wraps(function)
    def answer(verbose: bool = False) -> bool:
        return bool(function())

    return answer


# The contents of each module; modules with empty contents only have submodules.
CONTENT: dict[str, dict[str, Any]] = {
    "common": {},
    "common.exceptions": {
        "HorovodInternalError": HorovodInternalError,
        "HostsUpdatedInterrupt": HostsUpdatedInterrupt,
    },
    "common.process_sets": {name: getattr(process_sets, name) for name in process_sets.__all__},
    "common.util": {
        "_cache": functools.lru_cache(maxsize=None),
        "extension_available": extension_available,
        "gpu_available": gpu_available,
        **{
            name: _built(getattr(basics, name))
            for name in ("ccl_built", "ddl_built", "gloo_built", "mpi_built", "nccl_built")
        },
    },
    "runner.util": {},
    "runner.util.threads": {"in_thread": in_thread},
}
