"""Rows of an embedding table that a device keeps, in front of a table in the host's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core, autograd
from ... import ndarray as nd
from ...base import OutOfMemoryError
from ...context import Context
from ...ndarray import NDArray
from ...optimizer.fused import FusedOptimizer

_HOST = Context("cpu", 0)
_BASE = 4096  # EmbeddingPlan.expand takes float32, so row numbers become two digits


def _on(array: np.ndarray, ctx: Context) -> NDArray:
    return nd.array(array, ctx=ctx, dtype=array.dtype)


class CachedRows:
    """The interface of ``_core.EmbeddingTable`` for a table of a fixed size with a device cache.

    The device holds the rows of the last batches and their optimizer states, in float32. A row
    that the device lacks replaces the least recently used one, which is written to the host. Rows
    whose update is pending are not replaced.

    Parameters
    ----------
    who : str
        Start of error messages.
    weights, states : _core.EmbeddingTable
        The host's rows without states, and the states of each row as a row of float32 numbers;
        ``states`` is None if the optimizer has none.
    optimizer : FusedOptimizer
    cache_rows, dim : int
        Size of the cache.
    dtype : str
        Element type of the host's rows.
    ctx : Context
        The device.
    """

    def __init__(
        self,
        who: str,
        weights: Any,
        states: Any,
        optimizer: FusedOptimizer,
        cache_rows: int,
        dim: int,
        dtype: str,
        ctx: Context,
    ) -> None:
        self._who, self._weights, self._host_states = who, weights, states
        self._optimizer, self._dim, self._dtype, self._ctx = optimizer, dim, dtype, ctx
        self._rows = nd.zeros((cache_rows, dim), ctx=ctx)
        self._rows.attach_grad(stype="row_sparse")
        self._state = state = optimizer.create_state(0, self._rows)
        whole = [] if state is None else [state] if isinstance(state, NDArray) else state
        self._states: list[NDArray] = list(whole)
        self._indices: dict[Any, NDArray] = {}  # device rows of lookups whose update is pending
        self._forget()

    def _forget(self) -> None:
        """Mark all rows of the device as free."""
        count = len(self._rows)
        self._ids = np.full(count, -1, np.int64)
        self._used = np.full(count, -1, np.int64)  # number of the last lookup; -1: never
        self._waiting = np.zeros(count, bool)  # update is pending
        self._changed = np.zeros(count, bool)
        self._sorted, self._slots = np.zeros(0, np.int64), np.zeros(0, np.int64)  # sorted by id
        self._lookups = 0

    @property
    def slots(self) -> int:
        """Number of rows on this rank."""
        return int(self._weights.slots)

    size = slots

    @property
    def row_bytes(self) -> int:
        """Bytes of host memory of a row with its optimizer states."""
        states = 0 if self._host_states is None else self._host_states.row_bytes
        return int(self._weights.row_bytes + states)

    def gather(self, plan: Any, inserts: bool, in_float32: bool) -> NDArray:
        """Return the rows of a plan's positions; ``inserts``: an update will follow.

        The rows are float32 on the device, or have the table's dtype on the host.
        """
        slots = self._place(plan.ids().asnumpy())
        index = self._index_of(plan, slots)
        rows = nd.take(self._rows, index)
        if inserts:
            self._waiting[slots] = True
            self._indices[plan] = index
        if in_float32:
            return rows
        return rows.astype(self._dtype, copy=False).as_in_context(_HOST)

    def update(self, plan: Any, grad: NDArray) -> None:
        """Add up the gradients of each row and update it."""
        ids = plan.ids().asnumpy()
        slots = self._place(ids)
        if grad.context == self._ctx and plan in self._indices:
            index = self._indices.pop(plan)
        else:  # the host adds the gradients of ranks, bags or several lookups
            grad = plan.reduce(grad.as_in_context(_HOST), self._dim).as_in_context(self._ctx)
            index = _on(slots, self._ctx)
        with autograd.record():
            rows = nd.Embedding(
                index, self._rows, input_dim=len(self._rows), output_dim=self._dim, sparse_grad=True
            )
        autograd.backward([rows], [grad.reshape(rows.shape)])
        self._optimizer.update(0, self._rows, self._rows.grad, self._state)
        self._changed[slots] = True
        self._waiting[:] = False  # a step updates the rows of all lookups
        self._indices.clear()

    def read(self, slot: int, count: int) -> tuple[NDArray, ...]:
        """Return ids, rows, states and empty use counts of updated rows."""
        self._write_back(np.flatnonzero(self._changed))
        tables = [self._weights] + ([] if self._host_states is None else [self._host_states])
        ids = np.unique(np.concatenate([t.read(slot, count)[0].asnumpy() for t in tables]))
        plan = self._plan_of(ids)
        weights = self._weights.gather(plan, False, False)
        states = self._host_state(plan).reshape((len(ids), len(self._states), self._dim))
        return _on(ids, _HOST), weights, states, nd.zeros((0,), dtype="int64")

    def write(self, ids: NDArray, weights: NDArray, states: NDArray, uses: NDArray) -> None:
        """Set rows on the host; the device loads them again when it needs them."""
        self._write_back(np.flatnonzero(self._changed))
        self._forget()
        self._write(ids, weights, states)

    def _plan_of(self, ids: np.ndarray) -> Any:
        return _core.EmbeddingPlan(self._who, -1, "error", 1, _on(ids, _HOST))

    def _host_state(self, plan: Any) -> NDArray:
        """Return the states of a plan's rows on the host, (rows, states * dim)."""
        if self._host_states is None:
            return nd.zeros((plan.count, 0))
        state: NDArray = self._host_states.gather(plan, False, True)
        return state

    def _index_of(self, plan: Any, slots: np.ndarray) -> NDArray:
        """Return the device's row of each position of a plan, from those of its distinct ids."""
        digits = np.stack([slots // _BASE, slots % _BASE], axis=1).astype(np.float32)
        high, low = plan.expand(_on(digits, _HOST)).asnumpy().astype(np.int64).T
        return _on(high * _BASE + low, self._ctx)

    def _place(self, ids: np.ndarray) -> np.ndarray:
        """Return the device's rows of distinct ascending ids, loading those that it lacks."""
        self._lookups += 1
        at = np.searchsorted(self._sorted, ids)
        known = at < len(self._sorted)
        known[known] = self._sorted[at[known]] == ids[known]
        slots = np.empty(len(ids), np.int64)
        slots[known] = self._slots[at[known]]
        self._used[slots[known]] = self._lookups
        if not known.all():
            slots[~known] = self._load(ids[~known])
        return slots

    def _load(self, ids: np.ndarray) -> np.ndarray:
        """Copy rows of the host to the device, replacing the least recently used ones."""
        free = np.flatnonzero(~self._waiting & (self._used < self._lookups))
        count = len(ids)
        if len(free) < count:
            raise OutOfMemoryError(
                f"{self._who}: the cache must hold all rows that wait for an update, got "
                f"{count - len(free)} rows more than its {len(self._ids)}; raise cache_rows"
            )
        slots = free[np.argpartition(self._used[free], count - 1)[:count]]
        self._write_back(slots[self._changed[slots]])
        plan, index = self._plan_of(ids), _on(slots, self._ctx)
        self._rows[index] = self._weights.gather(plan, False, True).as_in_context(self._ctx)
        host = self._host_state(plan)
        for number, state in enumerate(self._states):
            part = host[:, number * self._dim : (number + 1) * self._dim]
            state[index] = part.as_in_context(self._ctx)
        gone = np.searchsorted(self._sorted, self._ids[slots][self._ids[slots] >= 0])
        left, their_slots = np.delete(self._sorted, gone), np.delete(self._slots, gone)
        at = np.searchsorted(left, ids)
        self._sorted, self._slots = np.insert(left, at, ids), np.insert(their_slots, at, slots)
        self._ids[slots], self._used[slots] = ids, self._lookups
        return slots

    def _write_back(self, slots: np.ndarray) -> None:
        """Copy rows of the device to the host."""
        if not len(slots):
            return
        index = _on(slots, self._ctx)
        rows, *states = (
            nd.take(array, index).as_in_context(_HOST) for array in (self._rows, *self._states)
        )
        state = nd.concat(*states, dim=1) if states else nd.zeros((len(slots), 0))
        self._write(_on(self._ids[slots], _HOST), rows.astype(self._dtype, copy=False), state)
        self._changed[slots] = False

    def _write(self, ids: NDArray, weights: NDArray, states: NDArray) -> None:
        none, uses = nd.zeros((0,)), nd.zeros((0,), dtype="int64")
        self._weights.write(ids, weights, none, uses)
        if self._host_states is not None:
            self._host_states.write(ids, states.reshape((len(ids), -1)), none, uses)
