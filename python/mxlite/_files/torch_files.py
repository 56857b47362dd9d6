"""Reads the tensors of a file that ``torch.save`` wrote, without PyTorch and without unpickling.

Both formats are read: zip files, which PyTorch writes as of 1.6, and the older sequence of pickles.
"""

from __future__ import annotations

import math
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import IO, Any, Callable, NamedTuple

import numpy as np

from ..base import FileAccessError, FileFormatError, MissingFileError, MXNetError
from .packed import check_unpacked_size
from .pickled import (
    Maker,
    PickleContentError,
    Spender,
    Unfinished,
    numpy_maker,
    plain_maker,
    read_pickle_at,
)
from .whole import open_file, read_to_end, size_of
from .zipped import ZIP_DAMAGE

# Files of the older format begin with this pickle of a number.
_OLD_HEAD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
# Element types by the class of the storage: name, and NumPy's type that has the same bits.
_STORAGES = {
    "DoubleStorage": ("float64", "<f8"), "FloatStorage": ("float32", "<f4"),
    "HalfStorage": ("float16", "<f2"), "BFloat16Storage": ("bfloat16", "<u2"),
    "LongStorage": ("int64", "<i8"), "IntStorage": ("int32", "<i4"),
    "ShortStorage": ("int16", "<i2"), "CharStorage": ("int8", "<i1"),
    "ByteStorage": ("uint8", "<u1"), "BoolStorage": ("bool", "<u1"),
}  # fmt: skip
_MOST_DIMENSIONS = 32
#: Keys under which training programs save the state dict together with other values.
_PLACES = ("state_dict", "model_state_dict", "model")

Bits = np.ndarray[Any, Any]


class _Storage(NamedTuple):
    """The memory of tensors, which the file holds outside of the pickle."""

    kind: str
    key: str
    size: int  # elements

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(_STORAGES[self.kind][1]).itemsize


class _Tensor(Unfinished):
    def __init__(self, args: tuple[Any, ...]) -> None:
        storage, offset, shape, strides = args[:4]
        if not isinstance(storage, _Storage):
            raise PickleContentError(f"a tensor must have a storage, got {type(storage).__name__}")
        if type(offset) is not int or offset < 0:
            got = "a negative one" if type(offset) is int else type(offset).__name__
            raise PickleContentError(
                f"the offset of a tensor must be an integer of at least 0, got {got}"
            )
        counts = (*_extents(shape), *_extents(strides))
        if len(shape) != len(strides) or any(type(n) is not int or n < 0 for n in counts):
            raise PickleContentError(
                "shape and strides of a tensor must be integers of at least 0, with as many "
                f"strides as dimensions, got shape {str(shape)[:100]}, strides {str(strides)[:100]}"
            )
        last = sum((n - 1) * stride for n, stride in zip(shape, strides))
        if 0 not in shape and offset + last >= storage.size:
            raise PickleContentError(
                f"a tensor of shape {shape} from element {offset} reaches beyond its storage of "
                f"{storage.size} elements"[:300]
            )
        # Two names with equal places are tied weights.
        self.place = storage, offset, shape, strides

    def value(self, finish: Callable[[Any], Any]) -> Any:
        return self


class _Dict(OrderedDict, Unfinished):  # type: ignore[type-arg]
    """An ordered dict; its state, the versions of a module's parts, is ignored."""

    def build(self, state: Any, spend: Spender) -> None:
        pass

    def value(self, finish: Callable[[Any], Any]) -> Any:
        return {name: finish(value) for name, value in self.items()}


def _extents(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise PickleContentError(
            f"shape and strides of a tensor must be tuples, got {type(value).__name__}"
        )
    if len(value) > _MOST_DIMENSIONS:
        raise PickleContentError(
            f"shape and strides of a tensor must have at most {_MOST_DIMENSIONS} numbers, got "
            f"{len(value)}"
        )
    return value


def _make_dict(args: tuple[Any, ...], spend: Spender) -> _Dict:
    if args:
        raise PickleContentError("an OrderedDict must be created without arguments")
    return _Dict()


def _make_tensor(args: tuple[Any, ...], spend: Spender) -> _Tensor:
    return _Tensor(args)


def _make_parameter(args: tuple[Any, ...], spend: Spender) -> Any:
    if not args or not isinstance(args[0], _Tensor):
        raise PickleContentError("a parameter has no tensor")
    return args[0]


def _no_storage(args: tuple[Any, ...], spend: Spender) -> Any:
    raise PickleContentError("storage classes must not be called")


_MAKERS = {
    ("collections", "OrderedDict"): _make_dict,
    ("torch._utils", "_rebuild_tensor_v2"): _make_tensor,
    ("torch._utils", "_rebuild_parameter"): _make_parameter,
    **{("torch", name): _no_storage for name in _STORAGES},
}


def _maker(module: str, name: str) -> Maker | None:
    make = _MAKERS.get((module, name))
    return Maker(make, name) if make else plain_maker(module, name) or numpy_maker(module, name)


def _storage(key: Any) -> _Storage:
    if type(key) is not tuple or len(key) not in (5, 6) or key[0] != "storage":
        raise PickleContentError("a storage was expected")
    _, kind, name, _, size = key[:5]
    known = isinstance(kind, Maker) and kind.name in _STORAGES
    if not known or type(name) is not str or type(size) is not int or size < 0:
        raise PickleContentError("a storage has no type, name or size")
    if len(key) == 6 and key[5] is not None:
        raise PickleContentError("views of storages are not supported")
    return _Storage(kind.name, name, size)


def read_torch(path: str) -> dict[str, tuple[str, Bits]]:
    """Return the state dict in a file: for each name the element type and the values.

    Values of bfloat16 are uint16 with the same bits. Tied weights are one object. The state dict
    may be the value of the key ``state_dict``, ``model_state_dict`` or ``model``.

    Raises
    ------
    MissingFileError, FileAccessError
        If the file does not exist or cannot be read.
    FileFormatError
        If it is damaged, has other objects than tensors and plain values, or no state dict.
    """
    where = f"read_torch: file {path!r}"
    try:
        with open_file(path) as stream:
            old = stream.read(len(_OLD_HEAD)) == _OLD_HEAD
            stream.seek(0)
            tensors = _read_old(stream, path) if old else _read_zip(stream, where)
    except FileNotFoundError as error:
        raise MissingFileError(f"{where} does not exist") from error
    except MXNetError:
        raise
    except PickleContentError as error:
        raise FileFormatError(
            f"{where} must be one of torch.save(model.state_dict(), file): {error}"
        ) from None
    except ZIP_DAMAGE as error:
        text = str(error)[:300] or type(error).__name__
        raise FileFormatError(
            f"{where} is damaged, or was not written by torch.save: {text}"
        ) from None
    except OSError as error:
        raise FileAccessError(f"{where} cannot be read: {error.strerror or error}") from error
    return tensors


def is_torch(path: str) -> bool:
    """Return whether a file begins like those of ``torch.save``: a pickle or a zip file."""
    try:
        with open_file(path) as stream:
            head = stream.read(len(_OLD_HEAD))
            if head[:4] != b"PK\x03\x04":
                return head == _OLD_HEAD
            with zipfile.ZipFile(stream) as archive:
                return any(name.endswith("data.pkl") for name in archive.namelist())
    except (OSError, *ZIP_DAMAGE):
        return False


def _read_zip(stream: IO[bytes], where: str) -> dict[str, tuple[str, Bits]]:
    size = size_of(stream)
    with zipfile.ZipFile(stream) as archive:
        (name,) = [n for n in archive.namelist() if n.rpartition("/")[2] == "data.pkl"] or [""]
        folder = name[: -len("data.pkl")]

        def content(member: str) -> bytes:
            info = archive.getinfo(folder + member)
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                raise ValueError(
                    f"zip member {member[:100]!r} must be uncompressed and not larger than the file"
                )
            return archive.read(info)

        if f"{folder}byteorder" in archive.namelist() and content("byteorder") != b"little":
            raise ValueError("its numbers must be little-endian, got big-endian ones")
        value, _ = read_pickle_at(0, content("data.pkl"), _maker, _storage)
        tensors = _state_dict(value)
        _check_size(tensors, size, where)
        contents = {
            key: content(f"data/{key}")
            for key in {tensor.place[0].key: None for tensor in tensors.values()}
        }
    return _values(tensors, contents)


def _read_old(stream: IO[bytes], path: str) -> dict[str, tuple[str, Bits]]:
    data = bytes(read_to_end(stream, path))
    at = len(_OLD_HEAD)
    for _ in ("protocol", "system"):
        _, at = read_pickle_at(at, data, _maker, None)
    sizes: dict[str, int] = {}

    def storage(key: Any) -> _Storage:
        found = _storage(key)
        if sizes.setdefault(found.key, found.nbytes) != found.nbytes:
            raise PickleContentError(f"storage {found.key[:100]!r} has two sizes")
        return found

    value, at = read_pickle_at(at, data, _maker, storage)
    keys, at = read_pickle_at(at, data, _maker, None)
    tensors = _state_dict(value)
    _check_size(tensors, len(data), f"read_torch: file {path!r}")
    contents: dict[str, bytes] = {}
    for key in keys if isinstance(keys, list) else ():
        contents[key] = data[at + 8 : at + 8 + sizes[key]]  # behind the number of elements
        at += 8 + sizes[key]
    return _values(tensors, contents)


def _state_dict(value: Any) -> dict[str, _Tensor]:
    """Return the tensors by name; raise if the value has no tensors, or also other objects."""
    nested = [value.get(place) for place in _PLACES] if isinstance(value, dict) else []
    for found in (value, *nested):
        if not isinstance(found, dict) or not any(isinstance(v, _Tensor) for v in found.values()):
            continue
        for name, tensor in found.items():
            if not isinstance(name, str) or not isinstance(tensor, _Tensor):
                raise PickleContentError(
                    f"entry {str(name)[:100]!r} must be a tensor, got {type(tensor).__name__}"
                )
        return found
    keys = ", ".join(map(str, value))[:200] if isinstance(value, dict) else type(value).__name__
    raise PickleContentError(f"it must hold tensors by name, got the keys {keys}")


def _check_size(tensors: Mapping[str, _Tensor], size: int, where: str) -> None:
    """Raise if tensors that overlap in their storages would take much more memory than the file."""
    places = {tensor.place for tensor in tensors.values()}
    check_unpacked_size(sum(8 * math.prod(shape) for _, _, shape, _ in places), size, where)


def _values(
    tensors: Mapping[str, _Tensor], contents: Mapping[str, bytes]
) -> dict[str, tuple[str, Bits]]:
    made: dict[Any, tuple[str, Bits]] = {}
    for name, tensor in tensors.items():
        if tensor.place in made:
            continue
        storage, offset, shape, strides = tensor.place
        dtype, code = _STORAGES[storage.kind]
        content = contents[storage.key]
        if len(content) != storage.nbytes:
            raise PickleContentError(
                f"the storage of tensor {name[:100]!r} must have {storage.nbytes} bytes, got "
                f"{len(content)} (truncated?)"
            )
        bits = np.zeros(shape, code)
        if bits.size:
            steps = tuple(bits.itemsize * stride for stride in strides)
            source = np.frombuffer(content, code, offset=offset * bits.itemsize)
            bits = np.lib.stride_tricks.as_strided(source, shape, steps)
        made[tensor.place] = dtype, bits
    return {name: made[tensor.place] for name, tensor in tensors.items()}
