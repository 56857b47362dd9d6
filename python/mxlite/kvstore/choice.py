"""Which store a training needs: the rules of `gluon.Trainer` and `mx.mod.Module`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..base import TypeError_
from .base import KVStoreBase
from .names import checked_name, create, spans_processes

__all__ = ["chosen_store"]

_BIG = 1024 * 1024 * 16  # elements; 1.x updates larger arrays on the devices


def chosen_store(
    kvstore: Any, num_device: int, sizes: Iterable[int], needed: bool = False
) -> tuple[KVStoreBase | None, bool]:
    """Return the store for a training, and whether it should update the parameters.

    Parameters
    ----------
    kvstore : KVStoreBase, str or None
        One device needs no store, unless it is given as an object or spans processes.
    num_device : int
    sizes : iterable of int
        Elements of each parameter.
    needed : bool
        Make a store for one device, too.

    Returns
    -------
    store : KVStoreBase or None
    update_on_kvstore : bool
        False without a store, for stores that cannot, and where ``MXNET_UPDATE_ON_KVSTORE`` is 0.

    Raises
    ------
    TypeError
        For a kvstore of another type.
    """
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
    return store, update and bool(store.is_capable(KVStoreBase.OPTIMIZER))
