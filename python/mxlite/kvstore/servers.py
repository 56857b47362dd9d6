"""Stores of jobs with servers: this process is a worker of `tools/launch.py`."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core, autograd
from .. import ndarray as nd
from .. import optimizer as opt
from ..base import NotSupportedError, ValueError_
from ..comm.submitting import contiguous
from ..context import cpu
from ..ndarray import NDArray
from ..profiler import set_kvstore_handle
from ..profiler.scope import COMM_SCOPE, scope
from .base import summed
from .compression import Compression
from .local import KVStore, KVStoreModeError
from .remote_optimizer import RemoteOptimizer, refused_by_servers
from .rows import is_sparse


class _Value:
    """Shape, dtype and storage type of a value on the servers."""

    def __init__(self, array: NDArray) -> None:
        self.shape = tuple(array.shape)
        self.dtype = array.dtype
        self.stype = "row_sparse" if is_sparse(array) else "default"

    def empty(self, rows: int | None = None) -> NDArray:
        """Return a new array for the value, or for a number of its rows."""
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        return nd.empty(shape, dtype=self.dtype)


class _Connection:
    """The connection of this process to the servers, shared by all of its stores."""

    def __init__(self) -> None:
        self.client: Any = _core.ServerClient()
        self.stores: list[ServerStore] = []
        self._failed = False
        previous = sys.excepthook

        def leave_without_goodbye(
            kind: type[BaseException], value: BaseException, trace: TracebackType | None
        ) -> None:
            self._failed = True
            previous(kind, value, trace)

        sys.excepthook = leave_without_goodbye
        atexit.register(self._leave)

    def _leave(self) -> None:
        if not self._failed:
            self.client.close()
            return
        # Other workers must see a failed worker as lost, because they would wait for a worker that
        # left properly. So the client is kept alive: its destructor would leave properly.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.client))


_connection: _Connection | None = None


def _connected() -> _Connection:
    global _connection
    if _connection is None:
        _connection = _Connection()
    return _connection


class ServerStore(KVStore):
    """``dist_sync`` and ``dist_async`` as a client of parameter servers.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStore`` of these types. Values are pushed and pulled in the
    background; reading a result raises errors of the servers. Later changes of the optimizer, such
    as batch size and learning rate, are sent to the servers; 1.x refuses such changes.
    """

    _spans_processes = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        connection = _connected()
        self._client = connection.client
        self._others = connection.stores
        kinds = {"async" in store.type for store in self._others}
        if kinds - {"async" in name}:
            raise ValueError_(
                f"kvstore.create: name must be {self._others[0].type!r} as that of the first "
                "store, because the servers of a job are either synchronous or asynchronous, got "
                f"{name!r}"
            )
        # Each store of a process has its own optimizer and its own keys on the servers.
        self._prefix = f"{len(self._others)}:" if self._others else ""
        self._optimizer: RemoteOptimizer | None = None
        if not self._others:
            self._client.set_sync("async" not in name)
            self._client.barrier()  # no worker may push before the servers are configured
        connection.stores.append(self)
        set_kvstore_handle(self)

    def _name(self, key: Any) -> str:
        """Return the name of a key on the servers."""
        if not self._prefix and re.match(r"\d+:", str(key)):
            return f"0:{key}"  # without "0:", another store could have a key of this name
        return f"{self._prefix}{key}"

    # -- values ----------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Set the initial value of keys to that of rank 0."""
        names, wholes, specs = [], [], {}
        with autograd.pause():
            for name, first in self._first_values(key, value):
                whole: Any = first.as_in_context(cpu())
                names.append(self._name(name))
                wholes.append(contiguous(whole.tostype("default") if is_sparse(whole) else whole))
                specs[name] = _Value(first)
            self._client.init(names, wholes)
        values: dict[Any, Any] = self._arrays
        values.update(specs)

    def _push(self, name: Any, values: list[NDArray], stored: Any, priority: int = 0) -> None:
        if not values:
            return
        with autograd.pause(), scope("KVStore: push", COMM_SCOPE):
            self._follow_optimizer(name)
            mine: Any = values[0] if len(values) == 1 else summed(values)
            mine = mine.as_in_context(cpu())
            if mine.dtype != stored.dtype:
                mine = mine.astype(stored.dtype)
            if not is_sparse(mine):
                self._client.push(self._name(name), contiguous(mine), priority)
                return
            if self._compression is not None:
                raise NotSupportedError(
                    f"push: key {name}: Gradient compression for row sparse storage type is not "
                    "supported"
                )
            rows = mine.indices.astype("int64")
            self._client.push_rows(self._name(name), rows, contiguous(mine.data), priority)

    def _follow_optimizer(self, name: Any) -> None:
        """Send changed options of the optimizer to the servers, before a push."""
        if self._optimizer is None:
            return
        self._optimizer.count(name)
        news = self._optimizer.news()
        if news is None or self.rank:
            return
        # Waits for earlier pushes and pulls, because they must use the old options.
        nd.waitall()
        self._client.update_optimizer(news, self._prefix)

    def _pull(self, name: Any, arrays: list[NDArray], stored: Any, priority: int) -> None:
        if not arrays:
            return
        dense = [array for array in arrays if not is_sparse(array)]
        target = next((array for array in dense if _fits(array, stored)), None)
        if target is None:
            target = stored.empty()
        self._client.pull(self._name(name), target, priority)
        whole: Any = target
        for array in arrays:
            if array is target:
                continue
            (whole.tostype("row_sparse") if is_sparse(array) else whole).copyto(array)

    def _rows(self, name: Any, stored: Any, wanted: NDArray, priority: int) -> NDArray:
        if not wanted.size:
            return nd.sparse.zeros("row_sparse", stored.shape, dtype=stored.dtype)
        data = stored.empty(rows=wanted.size)
        self._client.pull_rows(self._name(name), wanted, data, priority)
        return nd.sparse.row_sparse_array((data, wanted), shape=stored.shape)

    # -- updating --------------------------------------------------------------------------------

    def set_optimizer(self, optimizer: opt.Optimizer) -> None:
        """Let the servers update values; sends the optimizer as an operator's name and numbers."""
        remote = RemoteOptimizer(optimizer, self._name)
        self._client.set_optimizer(remote.name, remote.text(), self._prefix)
        self._optimizer = remote

    def _refusal(self, kind: type[opt.Optimizer]) -> str | None:
        """Return why workers must update instead of servers, or None."""
        # Asynchronous workers have no common gradient, so they cannot update instead.
        return None if "async" in self._type else refused_by_servers(kind)

    def set_updater(self, updater: Any) -> None:
        """Raise, because servers cannot run a worker's functions."""
        raise NotSupportedError(
            f"set_updater: values of a {self._type!r} store are updated on servers, which run no "
            "functions of workers; use set_optimizer"
        )

    _set_updater = set_updater

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Send gradients as a few bits per value, and add rounding errors to the next gradient."""
        compression = Compression(compression_params)
        if compression.wire is not None:
            raise NotSupportedError(
                "set_gradient_compression: type must be '2bit' or '1bit' with servers, got "
                f"{compression.type!r}; without servers, gradients can also be sent as fp16 or bf16"
            )
        self._client.set_compression(compression.type, compression.threshold)
        self._compression = compression

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Save the optimizer states of the servers; rank 0 writes the file."""
        self._need_optimizer("save")
        self._client.save_states(os.fspath(fname))

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Load the file of `save_optimizer_states`; rank 0 sends it to the servers."""
        self._need_optimizer("load")
        self._client.load_states(os.fspath(fname))

    def _need_optimizer(self, verb: str) -> None:
        if self._optimizer is None:
            raise KVStoreModeError(
                f"Cannot {verb} states for distributed training: the store has no optimizer "
                "(set_optimizer)"
            )

    # -- properties ------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of this worker."""
        return int(self._client.rank)

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        return int(self._client.num_workers)

    @property
    def num_servers(self) -> int:
        """Number of servers."""
        return int(self._client.num_servers)

    def report(self) -> Any:
        """Return the counters of each server: pushes, staleness, rejected frames."""
        return self._client.report()

    def _profile_servers(self, name: str, text: str) -> None:
        """Send a command to the servers' profilers: see mxlite.profiler.serving."""
        self._client.profile_servers(name, text)

    def barrier(self) -> None:
        """Wait for all workers."""
        self._client.barrier()

    _barrier = barrier

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Send a command to the servers, which write it to their log."""
        self._client.command(int(head), str(body))


def _fits(array: NDArray, stored: _Value) -> bool:
    return (
        array.ctx.device_type == "cpu"
        and np.dtype(array.dtype) == np.dtype(stored.dtype)
        and contiguous(array) is array
    )
