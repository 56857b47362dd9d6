"""Writes files as ``torch.save`` does, without PyTorch."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

CODES = {
    "<f4": "FloatStorage", "<f8": "DoubleStorage", "<f2": "HalfStorage", "<i8": "LongStorage",
    "<i4": "IntStorage", "<i2": "ShortStorage", "|i1": "CharStorage", "|u1": "ByteStorage",
    "|b1": "BoolStorage", "bfloat16": "BFloat16Storage",
}  # fmt: skip


class Storage:
    def __init__(self, key: str, values: np.ndarray, code: str | None = None) -> None:
        self.key, self.values, self.kind = key, values, CODES[code or values.dtype.str]
        self.size = values.size


class Tensor:
    """A tensor in a storage; all its fields may be wrong."""

    def __init__(
        self, storage: Storage, shape: Any = None, strides: Any = None, offset: Any = 0
    ) -> None:
        values = storage.values
        self.storage, self.offset = storage, offset
        self.shape = values.shape if shape is None else shape
        steps = tuple(step // values.itemsize for step in values.strides)
        self.strides = steps if strides is None else strides

    def __reduce_ex__(self, protocol: Any) -> Any:
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        fields = (self.storage, self.offset, self.shape, self.strides, False, OrderedDict())
        return rebuild, fields


@contextmanager
def _modules() -> Iterator[Any]:
    """Have modules with the names that are in the pickles of PyTorch."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in CODES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*args: Any) -> Any:
        raise NotImplementedError

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    vars(utils)["_rebuild_tensor_v2"] = _rebuild_tensor_v2
    with mock.patch.dict(sys.modules, {"torch": torch, "torch._utils": utils}):
        yield torch


class _Pickler(pickle.Pickler):
    def __init__(self, stream: Any, torch: Any, old: bool) -> None:
        super().__init__(stream, 2)
        self._torch, self._old = torch, old
        self.storages: dict[str, Storage] = {}

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Storage):
            return None
        self.storages[value.key] = value
        kind = getattr(self._torch, value.kind)
        return ("storage", kind, value.key, "cpu", value.size, *(() if not self._old else (None,)))


def state_dict(arrays: Mapping[str, np.ndarray]) -> OrderedDict[str, Tensor]:
    """Return tensors; the same array under several names is one tensor in one storage."""
    keys: dict[int, Storage] = {}
    found: OrderedDict[str, Tensor] = OrderedDict()
    for name, array in arrays.items():
        storage = keys.setdefault(id(array), Storage(str(len(keys)), array))
        found[name] = Tensor(storage)
    vars(found)["_metadata"] = OrderedDict({"": {"version": 1}})
    return found


def zip_file(value: Any, byteorder: bytes = b"little") -> bytes:
    """Return the bytes of the format of PyTorch 1.6 and later."""
    stream, text = io.BytesIO(), io.BytesIO()
    with _modules() as torch:
        pickler = _Pickler(text, torch, old=False)
        pickler.dump(value)
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("model/data.pkl", text.getvalue())
        archive.writestr("model/byteorder", byteorder)
        for key, storage in pickler.storages.items():
            archive.writestr(f"model/data/{key}", storage.values.tobytes())
        archive.writestr("model/version", b"3\n")
    return stream.getvalue()


def old_file(value: Any) -> bytes:
    """Return the bytes of the format before PyTorch 1.6."""
    stream = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(part, stream, 2)
    with _modules() as torch:
        pickler = _Pickler(stream, torch, old=True)
        pickler.dump(value)
    pickle.dump([*pickler.storages], stream, 2)
    for storage in pickler.storages.values():
        stream.write(struct.pack("<q", storage.size) + storage.values.tobytes())
    return stream.getvalue()
