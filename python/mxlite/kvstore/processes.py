"""Stores of jobs without servers: every process keeps all values, and sums use all-reduce.

The results are those of a parameter server: a push stores the sum of all workers' values, initial
values come from rank 0, and an updater gets the same sums on every rank, so all copies stay equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core, autograd
from .. import ndarray as nd
from ..base import InputError, MXNetError, NotSupportedError
from ..comm import basics
from ..comm.bucket_plan import kind_of
from ..comm.buckets import GradientBuckets
from ..comm.groups import group_of
from ..comm.submitting import contiguous, returned, submit, waited
from ..context import Context, cpu
from ..ndarray import NDArray
from ..profiler.scope import COMM_SCOPE, scope
from .base import KVStoreBase, summed
from .compression import Compression
from .gradients import BucketStore, Entry
from .local import KVStore
from .rows import is_sparse

# All ranks create stores in the same order, so these numbers make tensor names unique.
_numbers = itertools.count()


class _Group:
    """Collectives of one store among the processes of the job."""

    def __init__(self, store: str, ordered: bool) -> None:
        basics.init()
        self._ordered = ordered
        self.rank, self.size = basics.rank(), basics.size()
        self._name = f"kvstore.{store}.{next(_numbers)}"
        self._prefix = f"{self._name}."
        self._buckets: dict[bool, GradientBuckets] = {}
        self._compression: Compression | None = None
        self._tick: NDArray | None = None

    def add(self, key: Any, value: NDArray, total: NDArray, priority: int = 0) -> None:
        """Write the sum of all ranks' values into ``total``, in the background.

        All sums of a key must use the same array ``total``, so that the engine keeps their order,
        which is the same on all ranks.
        """
        self._submit("allreduce", key, [contiguous(value)], [total], priority, op="sum")

    def add_gradients(
        self,
        names: Sequence[str],
        gradients: Sequence[Sequence[NDArray]],
        in_place: bool,
        compression: Compression | None = None,
    ) -> list[NDArray]:
        """Return the sums of gradients over contexts and ranks, computed in buckets.

        If ``in_place``, the sums replace the gradients of all contexts.
        """
        group = group_of("kvstore", None)
        if group.size == 1 and compression is None:
            return [_sum_alone(arrays, in_place) for arrays in gradients]
        if self._compression is not compression:
            self._buckets.clear()
            self._compression = compression
        buckets = self._buckets.get(in_place)
        if buckets is None:
            wire = None if compression is None else compression.wire
            code = None
            if compression is not None and wire is None:
                code = compression.type, compression.threshold
            buckets = GradientBuckets(self._name, in_place=in_place, wire=wire, code=code)
            self._buckets[in_place] = buckets
        return buckets.sum(names, gradients, group)

    def broadcast(self, key: Any, array: NDArray, priority: int = 0) -> None:
        """Overwrite an array with that of rank 0, in the background."""
        if self.size > 1:
            self._submit("broadcast", key, [array], [array], priority, root=0)

    def gather(self, key: Any, array: NDArray) -> NDArray:
        """Return the rows of all ranks in rank order."""
        rows = contiguous(array)
        if self.size == 1:
            return returned(rows.copy(), array)
        pending = submit("allgather", [f"{self._prefix}{key}"], [rows], [], ordered=self._ordered)
        return waited(pending, [rows], array)[0]

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        if self._tick is None:
            self._tick = nd.zeros((1,), ctx=cpu())
        self.add("barrier", self._tick, self._tick)
        self._tick.wait_to_read()

    def _submit(
        self,
        kind: str,
        key: Any,
        inputs: list[NDArray],
        outputs: list[NDArray],
        priority: int,
        **terms: Any,
    ) -> None:
        if self.size == 1:
            if inputs[0] is not outputs[0]:
                inputs[0].copyto(outputs[0])
            return
        terms.update(priority=priority, ordered=self._ordered)
        submit(kind, [f"{self._prefix}{key}"], inputs, outputs, **terms)


class AllReduceStore(KVStore, BucketStore):
    """``dist_sync`` and similar types for processes of ``mpirun``, or for one process.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStore`` of type ``dist_sync``, without servers. Beyond 1.x,
    optimizer states can be saved, because every process has them, and rows of dense values can be
    pulled. All ranks must make the same calls in the same order; calls that differ raise an error
    on every rank.
    """

    _spans_processes = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._group = _Group(name, ordered=True)
        self._sums: dict[Any, NDArray] = {}  # by key: sums that are passed to updaters
        if "async" in name and self._group.size > 1:
            raise NotSupportedError(
                f"kvstore.create: {name!r} is not supported in a job of {self._group.size} "
                "processes without servers; start it with python -m mxlite.tools.launch -n "
                f"{self._group.size} -s 1 --launcher local ..., or use 'dist_sync'"
            )

    def init(self, key: Any, value: Any) -> None:
        """Set the initial value of keys to that of rank 0."""
        with autograd.pause():
            fresh = [
                (name, self._first_value(name, first))
                for name, first in self._first_values(key, value)
            ]
            for _, array in fresh:
                array.wait_to_read()
        self._arrays.update(fresh)

    def _first_value(self, name: Any, value: NDArray) -> NDArray:
        if not is_sparse(value):
            own = value.copyto(_sum_context(value))
            self._group.broadcast(f"{name}.init", own)
            return own
        here = value.as_in_context(cpu())
        if self._group.size == 1:
            return here.copy()
        rows: Any = here
        if self._group.rank:
            rows = nd.sparse.zeros("row_sparse", here.shape, ctx=here.ctx, dtype=here.dtype)
        parts = self._gathered(f"{name}.init", rows)
        return parts[0] if parts else rows.copy()

    def _gathered(self, name: str, rows: Any) -> list[NDArray]:
        """Return the row-sparse arrays of all ranks that have rows, in rank order."""
        ids = self._group.gather(f"{name}.rows", rows.indices.astype("int64"))
        data = self._group.gather(f"{name}.values", rows.data)
        numbers = ids.asnumpy()
        # Row ids of one rank ascend, so an id that is not larger starts the rows of another rank.
        cuts = [0, *(np.flatnonzero(np.diff(numbers) <= 0) + 1).tolist(), len(numbers)]
        return [
            nd.sparse.row_sparse_array((data[a:b], ids[a:b]), shape=rows.shape, ctx=rows.ctx)
            for a, b in zip(cuts, cuts[1:])
            if b > a
        ]

    def _push(self, name: Any, values: list[NDArray], stored: NDArray, priority: int = 0) -> None:
        if not values:
            return
        with autograd.pause(), scope("KVStore: push", COMM_SCOPE):
            mine = values[0] if len(values) == 1 else summed(values)
            if is_sparse(mine) or self._compression is not None:
                mine = _on_cpu(mine)
            if mine.dtype != stored.dtype:
                mine = mine.astype(stored.dtype)
            if is_sparse(mine):
                self._update(name, self._sum_rows(name, mine), stored)
                return
            if self._compression is not None:
                mine = self._compression(name, mine)
            if self._updater is None and "async" in self._type:
                raise MXNetError(
                    "push: Updater needs to be set for async mode: call set_optimizer first"
                )
            mine = mine.as_in_context(_sum_context(mine))
            if not is_sparse(stored) and stored.ctx != mine.ctx:
                stored = self._arrays[name] = stored.as_in_context(mine.ctx)
            if self._updater is None and not is_sparse(stored):
                self._group.add(name, mine, stored, priority)
                return
            total = self._sums.get(name)
            if total is None or total.ctx != mine.ctx:
                total = self._sums[name] = _core.comm_empty(mine)
            self._group.add(name, mine, total, priority)
            self._update(name, total, stored)

    def _pushpull_gradients(
        self, entries: Sequence[Entry], updates: bool, names: Sequence[str]
    ) -> None:
        packed = []
        for entry, name in zip(entries, names):
            position, key, arrays, grads = entry
            if self._travels_in_bucket(key, grads, updates):
                packed.append((entry, name))
            else:
                self.pushpull(key, grads, out=arrays if updates else grads, priority=-position)
        if not packed:
            return
        with autograd.pause(), scope("KVStore: pushpull", COMM_SCOPE):
            self._sum_packed([entry for entry, _ in packed], updates, [name for _, name in packed])

    def _travels_in_bucket(self, key: Any, grads: list[NDArray], updates: bool) -> bool:
        """Return whether buckets can sum a key's gradients: all arrays are dense, of one dtype."""
        stored = self._stored("push", key)
        self._check_shapes("push", key, grads, stored)
        if updates and self._updater is None:
            return False
        if not all(
            _core.array_kind(array) == "dense" and array.dtype == stored.dtype
            for array in (stored, *grads)
        ):
            return False
        # Buckets round only float32 arrays on the CPU; push() rounds others individually.
        if self._compression is None or self._compression.wire is not None:
            return True
        return grads[0].ctx == cpu() and kind_of(grads[0], None)[0] == "float32 on the CPU"

    def _sum_packed(self, entries: Sequence[Entry], updates: bool, names: Sequence[str]) -> None:
        gradients = [grads for _, _, _, grads in entries]
        sums = self._group.add_gradients(
            names, gradients, in_place=not updates, compression=self._compression
        )
        if not updates:
            return
        with self._updates_together():
            for (_, key, _, _), total in zip(entries, sums):
                stored = self._arrays[key]
                if stored.ctx != total.ctx:
                    stored = self._arrays[key] = stored.as_in_context(total.ctx)
                if self._waiting is None:
                    self._updater(key, total, stored)
                else:
                    self._waiting.append((key, total, stored))
        for position, key, arrays, _ in entries:
            self._pull(key, arrays, self._arrays[key], -position)

    def _sum_rows(self, name: Any, mine: NDArray) -> NDArray:
        if self._compression is not None:
            raise NotSupportedError(
                f"push: key {name}: Gradient compression for row sparse storage type is not "
                "supported"
            )
        if self._group.size == 1:
            return mine.copy()
        parts = self._gathered(str(name), mine)
        if not parts:
            return mine.copy()
        return parts[0] if len(parts) == 1 else nd.add_n(*parts)

    def _update(self, name: Any, total: NDArray, stored: NDArray) -> None:
        if self._updater is not None:
            self._updater(name, total, stored)
        elif total is self._sums.get(name):
            self._arrays[name] = total.copy()
        else:
            self._arrays[name] = total

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Round pushed values to a few bits, and add the rounding error to the next push.

        Notes
        -----
        '2bit' and '1bit' give the values that servers of 1.x would add. Gradients of Trainer and
        Module are sent as packed bits in buckets; `push` sends the rounded values unpacked.
        """
        super().set_gradient_compression(compression_params)

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self._group.rank

    @property
    def num_workers(self) -> int:
        """Number of processes."""
        return self._group.size

    def barrier(self) -> None:
        """Wait for all workers."""
        self._group.barrier()

    _barrier = barrier


@KVStoreBase.register
class Horovod(BucketStore):
    """The store ``'horovod'``: sums over processes; optimizers run in the trainer.

    Notes
    -----
    Matches ``mxnet.kvstore.Horovod``; joins the job when it is made.
    """

    _spans_processes = True

    def __init__(self) -> None:
        self._group = _Group("horovod", ordered=False)
        self._buffers: dict[Any, NDArray] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the value of rank 0 to all outputs of all ranks."""
        given = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        if not isinstance(given, NDArray):
            raise InputError(f"broadcast: value must be an NDArray, got {type(value).__name__}")
        with autograd.pause():
            buffer = given.copyto(_sum_context(given))
            self._group.broadcast(f"{key}.init", buffer, priority)
            for array in _listed(out):
                buffer.copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum values over devices and ranks into the outputs."""
        values = _listed(value)
        outputs = values if out is None else _listed(out)
        with autograd.pause(), scope("KVStore: pushpull", COMM_SCOPE):
            if len(values) == 1 and outputs[0] is values[0] and contiguous(values[0]) is values[0]:
                self._group.add(key, values[0], values[0], priority)
                outputs, total = outputs[1:], values[0]
            else:
                mine = values[0] if len(values) == 1 else summed(values)
                mine = mine.as_in_context(_sum_context(mine))
                total = self._buffer(key, mine)
                self._group.add(key, mine, total, priority)
            for array in outputs:
                total.copyto(array)

    def _pushpull_gradients(
        self, entries: Sequence[Entry], updates: bool, names: Sequence[str]
    ) -> None:
        gradients = [_listed(grads) for _, _, _, grads in entries]
        with autograd.pause(), scope("KVStore: pushpull", COMM_SCOPE):
            self._group.add_gradients(names, gradients, in_place=True)

    def _buffer(self, key: Any, like: NDArray) -> NDArray:
        found = self._buffers.get(key)
        wanted = like.shape, like.dtype, like.ctx
        if found is None or (found.shape, found.dtype, found.ctx) != wanted:
            found = self._buffers[key] = _core.comm_empty(like)
        return found

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return False, because this store has no optimizer."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise MXNetError(f"Unknown capability: {capability}")

    @property
    def type(self) -> str:
        """``'horovod'``."""
        return "horovod"

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self._group.rank

    @property
    def local_rank(self) -> int:
        """Number of this process on its host."""
        return basics.local_rank()

    @property
    def num_workers(self) -> int:
        """Number of processes."""
        return self._group.size

    def barrier(self) -> None:
        """Wait for all processes."""
        self._group.barrier()

    _barrier = barrier


def _listed(arrays: Any) -> list[NDArray]:
    found = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    for array in found:
        if _core.array_kind(array) != "dense":
            what = getattr(array, "stype", type(array).__name__)
            raise InputError(f"kvstore 'horovod': values must be dense NDArrays, got {what}")
    return found


def _sum_alone(arrays: Sequence[NDArray], in_place: bool) -> NDArray:
    """Return the sum over the contexts of this process, in a job of one process."""
    if len(arrays) == 1:
        return arrays[0]
    total = summed(arrays)
    if not in_place:
        return total
    for array in arrays:
        total.copyto(array)
    return arrays[0]


def _on_cpu(array: NDArray) -> NDArray:
    return array.as_in_context(cpu())


def _sum_context(array: NDArray) -> Context:
    """Return the context on which an array is summed: its GPU if NCCL can, else the CPU."""
    place = _core.comm_place(array)
    context = array.ctx if place is None else Context(*place)
    return context if context.device_type == "gpu" else cpu()
