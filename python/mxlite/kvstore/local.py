"""The store of one process: sums arrays over devices, and updates values if it has an updater.

The engine sums and copies arrays in the background, like every operation on arrays, so push and
pull return immediately, and a later pull sees all pushes before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable

from .. import autograd
from .. import optimizer as opt
from .._files.saving import replacing_file
from ..base import (
    InputError,
    MXNetError,
    NotSupportedError,
    ShapeError,
    TypeError_,
    ValueError_,
    suggestion,
)
from ..ndarray import NDArray
from ..profiler.scope import COMM_SCOPE, scope
from .base import KVStoreBase, all_reduced, read_states, summed
from .compression import Compression
from .device_buckets import DeviceBuckets
from .rows import check_sparse, is_sparse, rows_of, wanted_rows


class KVStoreError(MXNetError, KeyError):
    """The store does not have a key, or the key is already initialized."""

    __str__ = RuntimeError.__str__  # str() of a KeyError would add quotes


class KVStoreModeError(MXNetError, AssertionError):
    """A call needs an updater, but the store has none (1.x: ``AssertionError``)."""


class KVStore(KVStoreBase):
    """A store of arrays by key, shared by the devices of this process; made by ``mx.kv.create``.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStore`` for one process.
    """

    # Updates collected for one call (key, gradient, weight), or None to update immediately.
    _waiting: list[tuple[Any, NDArray, NDArray]] | None = None

    def __init__(self, name: str = "local") -> None:
        self._type = name
        self._arrays: dict[Any, NDArray] = {}
        self._replicas: dict[Any, dict[str, NDArray]] = {}  # copies of the stored value, by context
        self._updater: Any = None
        self._compression: Compression | None = None
        self._device_buckets = DeviceBuckets(f"kvstore {name}")

    @property
    def handle(self) -> KVStore:
        """The store itself, for ``mx.profiler.set_kvstore_handle`` (1.x: a pointer)."""
        return self

    # -- values ----------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Set the first value of keys.

        Parameters
        ----------
        key : int or str, or list of them
            All keys have the same type.
        value : NDArray, or list of NDArray
            One value for each key, of which the store makes copies.

        Raises
        ------
        KVStoreError
            For a key that has a value.
        """
        for name, first in self._first_values(key, value):
            with autograd.pause():
                self._arrays[name] = first.copy()

    def _first_values(self, key: Any, value: Any) -> Iterator[tuple[Any, NDArray]]:
        """Check the arguments of `init`; yield each key with its value."""
        for name, values in self._pairs("init", key, value):
            if len(values) != 1:
                raise KVStoreError(
                    f"init: number of values must be 1 for key {name}, got {len(values)}"
                )
            if name in self._arrays:
                raise KVStoreError(
                    f"duplicate init of key {name}: a key gets its first value once, by init or "
                    "broadcast"
                )
            self._check_kind(name)
            yield name, values[0]

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum values of each key, and store the sum or pass it to the updater.

        Parameters
        ----------
        key : int or str, or list of them
        value : NDArray, list of NDArray, or a list of these for a list of keys
            Arrays of one key are summed.
        priority : int
            Accepted and ignored: the engine orders by dependency.

        Raises
        ------
        KVStoreError
            For a key without a first value.
        ShapeError
            For a value of another shape.
        """
        with self._updates_together():
            for name, values in self._pairs("push", key, value):
                stored = self._stored("push", name)
                self._check_shapes("push", name, values, stored)
                self._push(name, values, stored, priority)

    @contextmanager
    def _updates_together(self) -> Iterator[None]:
        """Collect updates inside a with block; apply them in one call if the optimizer can."""
        updater = self._updater
        if type(updater) is not opt.Updater or not updater.optimizer._takes_lists():
            yield
            return
        waiting: list[Any] = []
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
            if waiting:
                with autograd.pause():
                    lists: list[Any] = [list(column) for column in zip(*waiting)]
                    updater(*lists)

    def _push(self, name: Any, values: list[NDArray], stored: NDArray, priority: int = 0) -> None:
        if not values:
            return
        with autograd.pause(), scope("KVStore: push", COMM_SCOPE):
            if self._compression is not None:
                values = [self._compression((name, i), v) for i, v in enumerate(values)]
            replicas = None if "local" in self._type else all_reduced(values)
            # As in 1.x, the updater gets a single array itself, without a copy.
            alone = len(values) == 1 and self._updater is not None
            total = replicas[0] if replicas else values[0] if alone else summed(values)
            self._take_sum(name, replicas or [total], stored)

    def _take_sum(self, name: Any, sums: list[NDArray], stored: NDArray) -> None:
        """Store a sum, given as one array or one per GPU, or pass it to the updater."""
        total = sums[0]
        self._replicas[name] = {}
        if self._updater is None:
            self._arrays[name] = total
            if len(sums) > 1:
                self._replicas[name] = {str(array.ctx): array for array in sums}
            return
        if total.ctx != stored.ctx:
            stored = self._arrays[name] = stored.as_in_context(total.ctx)
        if self._waiting is None:
            self._updater(name, total, stored)
        else:
            self._waiting.append((name, total, stored))

    def pull(
        self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        """Copy stored values into arrays.

        Parameters
        ----------
        key : int or str, or list of them
        out : NDArray, list of NDArray, or a list of these for a list of keys
        priority : int
        ignore_sparse : bool
            Leave row-sparse outputs unchanged.

        Raises
        ------
        KVStoreError
            For a key without a value.
        """
        if out is None:
            raise InputError("pull: out must be NDArrays, got None")
        for name, arrays in self._pairs("pull", key, out):
            stored = self._stored("pull", name)
            self._check_shapes("pull", name, arrays, stored)
            if ignore_sparse:
                arrays = [array for array in arrays if not is_sparse(array)]
            with autograd.pause(), scope("KVStore: pull", COMM_SCOPE):
                self._pull(name, arrays, stored, priority)

    def _pull(self, name: Any, arrays: list[NDArray], stored: NDArray, priority: int) -> None:
        near = self._replicas.get(name, {})
        for array in arrays:
            near.get(str(array.ctx), stored).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push, then pull; see `push` and `pull`. Without out, the results replace the values."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority, ignore_sparse=False)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Set the first value of one or more keys, as `init`, and pull it, as `pull`."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(
        self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None
    ) -> None:
        """Pull rows of row-sparse values; servers send only these rows.

        Parameters
        ----------
        key : int or str, or list of them
        out : NDArray or list of NDArray
            Row-sparse. Values of ``dist`` stores may be dense.
        priority : int
        row_ids : NDArray or list of NDArray
            Row ids in any order, possibly repeated or empty.

        Raises
        ------
        ValueError
            For values or outputs that are not row-sparse, or without out or row_ids.
        """
        if out is None or row_ids is None:
            raise InputError("row_sparse_pull: out and row_ids must be arrays, got None")
        rows = list(row_ids) if isinstance(row_ids, (list, tuple)) else [row_ids]
        by_key = rows and isinstance(rows[0], (list, tuple))
        if by_key:
            if not isinstance(key, (list, tuple)) or len(key) != len(rows):
                given = len(key) if isinstance(key, (list, tuple)) else 1
                raise InputError(
                    "row_sparse_pull: row_ids must have one entry for each of the "
                    f"{given} keys, got {len(rows)}"
                )
            for name, arrays, ids in zip(key, out, rows):
                self.row_sparse_pull(name, arrays, priority, ids)
            return
        for name, arrays in self._pairs("row_sparse_pull", key, out):
            stored = self._stored("row_sparse_pull", name)
            for array in arrays if self._spans_processes else (stored, *arrays):
                check_sparse(name, array)
            ids_of = rows * len(arrays) if len(rows) == 1 else rows
            if len(ids_of) != len(arrays):
                raise InputError(
                    f"row_sparse_pull: key {name}: {len(ids_of)} row_ids given for {len(arrays)} "
                    "arrays, the number of row_ids doesn't match the number of values"
                )
            for array, ids in zip(arrays, ids_of):
                wanted = wanted_rows(name, ids, stored.shape)
                with autograd.pause():
                    self._rows(name, stored, wanted, priority).copyto(array)

    def _rows(self, name: Any, stored: NDArray, wanted: NDArray, priority: int) -> NDArray:
        return rows_of(stored, wanted)

    # -- checks ----------------------------------------------------------------------------------

    def _pairs(self, method: str, key: Any, value: Any) -> list[tuple[Any, list[NDArray]]]:
        """Return (key, arrays) by key, in the order of the keys."""
        if isinstance(key, (list, tuple)):
            if not isinstance(value, (list, tuple)) or len(value) != len(key):
                given = len(value) if isinstance(value, (list, tuple)) else type(value).__name__
                raise InputError(
                    f"{method}: values must have one entry for each of the "
                    f"{len(key)} keys, got {given}"
                )
            grouped: dict[Any, list[NDArray]] = {}
            for name, entry in zip(key, value):
                grouped.setdefault(_checked_key(method, name), []).extend(_arrays(method, entry))
            kinds = {type(name) for name in grouped}
            if len(kinds) > 1:
                raise InputError(
                    f"{method}: Mixed key types are not allowed: keys {list(grouped)} given"
                )
            return list(grouped.items())
        return [(_checked_key(method, key), _arrays(method, value))]

    def _check_kind(self, key: Any) -> None:
        other = next(iter(self._arrays), key)
        if type(other) is not type(key):
            raise InputError(
                f"Mixed key types are not allowed: key {key!r} given, the store has {other!r}"
            )

    def _stored(self, method: str, key: Any) -> NDArray:
        if key not in self._arrays:
            self._check_kind(key)
            raise KVStoreError(
                f"{method}: key {key} has not been inited"
                f"{suggestion(str(key), (str(k) for k in self._arrays))}"
            )
        return self._arrays[key]

    @staticmethod
    def _check_shapes(method: str, key: Any, arrays: Sequence[NDArray], stored: NDArray) -> None:
        for array in arrays:
            if array.shape != stored.shape:
                raise ShapeError(
                    f"{method}: key {key}: the array must have the stored shape, {stored.shape}, "
                    f"got {array.shape}"
                )

    # -- updating --------------------------------------------------------------------------------

    def set_updater(self, updater: Callable[[Any, NDArray, NDArray], None] | None) -> None:
        """Call ``updater(key, sum, stored)``, which changes the stored array, at every push.

        Raises TypeError if it cannot be called; None removes it.
        """
        if updater is not None and not callable(updater):
            raise TypeError_(f"set_updater: updater must be a function, got {updater!r}")
        self._updater = updater

    _set_updater = set_updater

    def set_optimizer(self, optimizer: opt.Optimizer) -> None:
        """Update stored values with an optimizer at every push."""
        if not isinstance(optimizer, opt.Optimizer):
            raise InputError(
                "set_optimizer: optimizer must be an mx.optimizer.Optimizer, got "
                f"{type(optimizer).__name__}"
            )
        self.set_updater(opt.get_updater(optimizer))

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Round pushed values to a few bits, and add the rounding error to the next push.

        Parameters
        ----------
        compression_params : dict
            ``{'type': '2bit', 'threshold': 0.5}``, or type '1bit'.

        Raises
        ------
        NotSupportedError
            For a store whose type has no ``device``, because it would save no traffic. For types
            ``fp16`` and ``bf16`` in a store of one process.
        """
        if "device" not in self._type and not self._spans_processes:
            raise NotSupportedError(
                "Gradient compression is not supported for this type of kvstore"
            )
        compression = Compression(compression_params)
        if compression.wire is not None and not self._spans_processes:
            raise NotSupportedError(
                "set_gradient_compression: type must be '2bit' or '1bit', as a "
                f"{self._type!r} store sends nothing between processes, got "
                f"{compression.type!r}; use a dist_sync store of a job of mpirun"
            )
        self._compression = compression

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Save the states of the optimizer.

        Parameters
        ----------
        fname : str or path
            Replaced only after everything was written. Has a checksum and no pickle.
        dump_optimizer : bool
            Whether to include the optimizer's options and counts.

        Raises
        ------
        KVStoreModeError
            If no optimizer was set.
        """
        content = self._states_updater("save").get_states(dump_optimizer)
        with replacing_file(os.fspath(fname)) as stream:
            stream.write(content)

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Load states that `save_optimizer_states` wrote or that MXNet 1.x pickled.

        Raises
        ------
        KVStoreModeError
            If no optimizer was set.
        MissingFileError
            If there is no such file.
        FileFormatError
            If the file is damaged or of another format.
        """
        updater = self._states_updater("load")
        updater.set_states(read_states(fname))

    def _states_updater(self, verb: str) -> opt.Updater:
        if not isinstance(self._updater, opt.Updater):
            raise KVStoreModeError(
                f"Cannot {verb} states: the kvstore has no optimizer (set_optimizer)"
            )
        return self._updater

    # -- properties ------------------------------------------------------------------------------

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability; only ``'optimizer'`` is known."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise ValueError_(f"Unknown capability: {capability}")

    @property
    def type(self) -> str:
        """The name with which the store was made, in lower case."""
        return self._type

    @property
    def rank(self) -> int:
        """Number of this worker: 0."""
        return 0

    @property
    def num_workers(self) -> int:
        """Number of workers, which is 1."""
        return 1

    def barrier(self) -> None:
        """Return immediately, because there is only one worker."""

    _barrier = barrier

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Send a command to the servers; does nothing without servers, as in 1.x."""


def _checked_key(method: str, key: Any) -> Any:
    if isinstance(key, str):
        return key
    if hasattr(key, "__index__") and not isinstance(key, bool):
        return int(key)
    raise InputError(f"{method}: unexpected type for keys: {type(key)}, int or str expected")


def _arrays(method: str, value: Any) -> list[NDArray]:
    arrays = list(value) if isinstance(value, (list, tuple)) else [value]
    for array in arrays or [None]:
        if not isinstance(array, NDArray):
            given = type(array).__name__ if arrays else "an empty list"
            raise InputError(
                f"{method}: value must be an NDArray or a list of NDArrays, got {given}"
            )
    return arrays
