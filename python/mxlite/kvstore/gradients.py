"""The gradients of a training in a store: summed together where the store can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ndarray import NDArray
from .base import KVStoreBase
from .local import KVStore

__all__ = ["BucketStore", "Entry", "pushpull_all"]

# Position, key, arrays and gradients of a parameter.
Entry = tuple[int, Any, list[NDArray], list[NDArray]]


class BucketStore(KVStoreBase):
    """A store that sums the gradients of a training in buckets."""

    def _pushpull_gradients(
        self, entries: Sequence[Entry], updates: bool, names: Sequence[str]
    ) -> None:
        """Sum gradients; the sums update the arrays (``updates``) or replace the gradients."""
        raise self._undefined("pushpull")


def pushpull_all(
    store: KVStoreBase,
    entries: Sequence[Entry],
    updates: bool,
    names: Sequence[str] | None = None,
) -> None:
    """Sum the gradients of parameters in a store.

    Parameters
    ----------
    store : KVStoreBase
    entries : list of (int, int or str, list of NDArray, list of NDArray)
        Position, key, arrays and gradients of each parameter; lower positions go first.
    updates : bool
        The store updates the parameters, which are pulled; else sums replace the gradients.
    names : list of str, optional
        Names of the parameters, which ranks compare; None: the keys.
    """
    if isinstance(store, BucketStore):
        own = [str(key) for _, key, _, _ in entries]
        store._pushpull_gradients(entries, updates, own if names is None else names)
        return
    if updates and type(store) is KVStore:
        keys, outputs, values = ([entry[k] for entry in entries] for k in (1, 2, 3))
        store.pushpull(keys, values, out=outputs)
        return
    for position, key, arrays, grads in entries:
        store.pushpull(key, grads, out=arrays if updates else grads, priority=-position)
