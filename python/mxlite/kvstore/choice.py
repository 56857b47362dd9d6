"""Chooses the store for a training by the rules of `gluon.Trainer` and `mx.mod.Module`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

from ..base import TypeError_
from ..optimizer import Optimizer
from .base import KVStoreBase
from .names import checked_name, create, spans_processes

_BIG = 1024 * 1024 * 16  # elements; 1.x updates larger arrays on the devices


def chosen_store(
    kvstore: Any,
    num_device: int,
    sizes: Iterable[int],
    needed: bool = False,
    optimizer: Any = None,
) -> tuple[KVStoreBase | None, bool]:
    """Return the store for a training, and whether it should update the parameters."""
    if kvstore is None:
        return None, False
    update = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") != "0"
    if isinstance(kvstore, KVStoreBase):
        store = kvstore
    elif isinstance(kvstore, str):
        if num_device == 1 and not needed and not spans_processes(checked_name(kvstore)):
            return None, False
        store = create(kvstore)
        update = update and not (kvstore == "local" and max(sizes, default=0) > _BIG)
    else:
        raise TypeError_(f"kvstore must be KVStore, str or None, {kvstore!r} given")
    update = update and bool(store.is_capable(KVStoreBase.OPTIMIZER))
    return store, update and _takes(store, optimizer)


def _takes(store: Any, optimizer: Any) -> bool:
    """Return whether a store can update with an optimizer; warn if workers must do it instead."""
    if isinstance(optimizer, str):
        optimizer = Optimizer.opt_registry.get(optimizer.lower())
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    if not issubclass(kind, Optimizer) or not kind._same_everywhere:
        return True  # workers cannot update instead, so a store that cannot update raises
    refusal = store._refusal(kind) if hasattr(store, "_refusal") else None
    if refusal is None:
        return True
    if store.rank == 0:
        warnings.warn(
            f"{refusal}; the workers update their parameters instead, all by the same sums",
            stacklevel=4,
        )
    return False
