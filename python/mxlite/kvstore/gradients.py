"""Sums the gradients of a training in a store, in buckets if the store supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core, autograd
from .. import optimizer as opt
from ..ndarray import NDArray
from ..profiler.scope import COMM_SCOPE, scope
from .base import KVStoreBase
from .local import KVStore

# Position, key, arrays and gradients of a parameter.
Entry = tuple[int, Any, list[NDArray], list[NDArray]]


class BucketStore(KVStoreBase):
    """A store that sums the gradients of a training in buckets."""

    def _pushpull_gradients(
        self, entries: Sequence[Entry], updates: bool, names: Sequence[str]
    ) -> None:
        """Sum gradients, then update the arrays with the sums if ``updates``, else store them."""
        raise self._undefined("pushpull")


def pushpull_all(
    store: KVStoreBase,
    entries: Sequence[Entry],
    updates: bool,
    names: Sequence[str] | None = None,
) -> None:
    """Sum the gradients of parameters in a store."""
    if isinstance(store, BucketStore):
        own = [str(key) for _, key, _, _ in entries]
        store._pushpull_gradients(entries, updates, own if names is None else names)
        return
    if type(store) is KVStore:
        is_packed = [_is_packed(store, entry) for entry in entries]
        if all(is_packed) or _any_order(store):
            _pushpull_devices(store, [e for e, yes in zip(entries, is_packed) if yes], updates)
            entries = [e for e, yes in zip(entries, is_packed) if not yes]
    if updates and type(store) is KVStore:
        keys, outputs, values = ([entry[k] for entry in entries] for k in (1, 2, 3))
        store.pushpull(keys, values, out=outputs)
        return
    for position, key, arrays, grads in entries:
        store.pushpull(key, grads, out=arrays if updates else grads, priority=-position)


def _is_packed(store: KVStore, entry: Entry) -> bool:
    """Check the shapes of a parameter's gradients; return whether buckets support them."""
    _, key, _, grads = entry
    if len(grads) < 2 or store._compression is not None:
        return False
    stored = store._stored("push", key)
    store._check_shapes("push", key, grads, stored)
    return all(_core.array_kind(a) == "dense" and a.dtype == stored.dtype for a in (stored, *grads))


def _pushpull_devices(store: KVStore, packed: Sequence[Entry], updates: bool) -> None:
    """Sum the gradients of several devices of this process in buckets.

    A bucket updates or replaces its arrays as soon as it is summed, while backward still computes
    the gradients of later buckets.
    """
    if not packed:
        return
    later: dict[int, list[NDArray]] = {}
    with autograd.pause(), scope("KVStore: pushpull", COMM_SCOPE):
        sums = store._device_buckets.sum(
            [key for _, key, _, _ in packed],
            [grads for _, _, _, grads in packed],
            with_nccl="local" not in store._type,
        )
        for positions, arrays_of in sums:
            if _any_order(store):
                _take_sums(store, [packed[i] for i in positions], arrays_of, updates)
            else:
                later.update(zip(positions, arrays_of))
        if later:
            _take_sums(store, packed, [later[i] for i in range(len(packed))], updates)


def _any_order(store: KVStore) -> bool:
    """Return whether updates may run in any order, because each uses only its own weight."""
    updater = store._updater
    if type(updater) is not opt.Updater:
        return updater is None
    return updater.optimizer._by_weight and updater.optimizer._same_everywhere


def _take_sums(
    store: KVStore, entries: Sequence[Entry], sums: Sequence[list[NDArray]], updates: bool
) -> None:
    """Store the sums or update with them, then pull the values."""
    with store._updates_together():
        for (_, key, _, _), replicas in zip(entries, sums):
            store._take_sum(key, replicas, store._arrays[key])
    for position, key, arrays, grads in entries:
        store._pull(key, arrays if updates else grads, store._arrays[key], -position)
