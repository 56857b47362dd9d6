"""The interface of stores, and the registry for user-defined stores."""

from __future__ import annotations

import builtins
import os
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import _core
from .. import ndarray as nd
from .._files.whole import read_file
from ..base import FileAccessError, MissingFileError, NotSupportedError, TypeError_, ValueError_
from ..ndarray import NDArray

__all__ = ["KVStoreBase", "TestStore", "create"]

create: Any  # set by names.py, because 1.x also has it in this module


class KVStoreBase:
    """Interface of stores for `gluon.Trainer`; plug-ins derive from it and register themselves.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStoreBase``: a plug-in defines broadcast, pushpull, is_capable, type,
    rank and num_workers, and is made by ``mx.kv.create`` with its class name in lower case.
    """

    OPTIMIZER: ClassVar[str] = "optimizer"
    kv_registry: ClassVar[dict[str, builtins.type[Any]]] = {}
    # True for types that span processes although their name has no "dist".
    _spans_processes: bool = False

    def __repr__(self) -> str:
        if type(self).type is KVStoreBase.type:  # a plug-in that does not define its type
            return object.__repr__(self)
        return f"{type(self).__name__}({self.type!r}, rank {self.rank} of {self.num_workers})"

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the value of rank 0 to all outputs of all workers.

        Parameters
        ----------
        key : int or str, or list of them
        value : NDArray, or list of NDArray
        out : NDArray, or list of NDArray
        priority : int
            Keys with larger numbers may be sent first.
        """
        raise self._undefined("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum values over devices and workers into the outputs.

        Parameters
        ----------
        key : int or str, or list of them
        value : NDArray, or list of NDArray
        out : NDArray, or list of NDArray, optional
            None: the sums overwrite the values.
        priority : int
        """
        raise self._undefined("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Make the store update its arrays with an `Optimizer`."""
        raise self._undefined("set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability, such as ``KVStoreBase.OPTIMIZER``."""
        raise NotSupportedError(f"kvstore: is_capable({capability!r}) is not defined")

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Save the states of the optimizer that runs in the store.

        With ``dump_optimizer`` the file also has the optimizer's options and counts.
        """
        raise self._undefined("save_optimizer_states")

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Load a file that `save_optimizer_states` wrote."""
        raise self._undefined("load_optimizer_states")

    @property
    def type(self) -> str:
        """The store's type."""
        raise self._undefined("type")

    @property
    def rank(self) -> int:
        """Number of this worker, from 0."""
        raise self._undefined("rank")

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        raise self._undefined("num_workers")

    def _undefined(self, name: str) -> NotSupportedError:
        return NotSupportedError(f"kvstore: {type(self).__name__} does not define {name}")

    @staticmethod
    def register(klass: builtins.type[Any]) -> builtins.type[Any]:
        """Register a store under its lower-case class name; usable as a decorator."""
        if not isinstance(klass, builtins.type):
            raise TypeError_(f"KVStoreBase.register: klass must be a class, got {klass!r}")
        name = klass.__name__.lower()
        old = KVStoreBase.kv_registry.get(name)
        if old is not None and old is not klass:
            warnings.warn(
                f"kvstore {name!r} was {old.__qualname__} and is now {klass.__qualname__}",
                UserWarning,
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A minimal store that sums on the first device and stores nothing; for tests of plug-ins."""

    __test__ = False  # pytest must not collect this class

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the value to all outputs."""
        for array in out if isinstance(out, (list, tuple)) else [out]:
            value.copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values into the outputs, or in place without outputs."""
        values = value if isinstance(value, (list, tuple)) else [value]
        outputs = values if out is None else out if isinstance(out, (list, tuple)) else [out]
        total = summed(values)
        for array in outputs:
            total.copyto(array)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return False, because this store has no optimizer."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise ValueError_(f"Unknown capability: {capability}")

    @property
    def type(self) -> str:
        """``'teststore'``."""
        return "teststore"

    @property
    def rank(self) -> int:
        """Always 0."""
        return 0

    @property
    def num_workers(self) -> int:
        """Always 1."""
        return 1


def summed(values: Sequence[NDArray]) -> NDArray:
    """Return the sum of arrays as a new array on the context of the first one."""
    if len(values) == 1:
        return values[0].copy()
    context = values[0].ctx
    return nd.add_n(*(value.as_in_context(context) for value in values))


def all_reduced(values: Sequence[NDArray]) -> list[NDArray] | None:
    """Return the sum of arrays on each of their GPUs, using NCCL; None if NCCL cannot sum them."""
    if not sums_on_gpus(values):
        return None
    copies = [value.copy() for value in values]
    _core.sum_on_devices(copies)
    return copies


def sums_on_gpus(values: Sequence[NDArray]) -> bool:
    """Return whether NCCL can sum arrays of one shape."""
    devices = {(value.ctx.device_type, value.ctx.device_id) for value in values}
    if len(values) < 2 or len(devices) < len(values) or {name for name, _ in devices} != {"gpu"}:
        return False
    if not all(
        _core.array_kind(value) == "dense" and value.dtype == values[0].dtype for value in values
    ):
        return False
    return "int16" not in str(values[0].dtype) and bool(_core.has_device_groups())


def read_states(fname: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file of optimizer states."""
    path = os.fspath(fname)
    try:
        return read_file(path)
    except FileNotFoundError as error:
        raise MissingFileError(f"load_states: file {path!r} does not exist") from error
    except OSError as error:
        raise FileAccessError(
            f"load_states: cannot read file {path!r}: {error.strerror or error}"
        ) from error
