"""Optimizer states as bytes: mxlite's checksummed format, and the pickles of MXNet 1.x.

Layout, little-endian: magic ``MXLSTATE``, u32 version, u64 length and bytes of a JSON tree, u64
length and bytes of the arrays (the ``.params`` format), SHA-256 of everything before. The tree has
arrays as ``{"array": number}`` and containers by kind, so that keys keep their type.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lr_scheduler as _schedulers
from ..base import FileFormatError, NotSupportedError
from ..ndarray import NDArray
from ..ndarray.serialization import load_frombuffer, save_tobuffer
from .legacy_states import LegacyObject, read_legacy_states
from .optimizer import Optimizer
from .saved_options import NOT_SAVED, SCHEDULER, prepare_options

__all__ = [
    "bytes_of_tree",
    "copied",
    "dump_states",
    "load_states",
    "parsed_states",
    "prepare_states",
    "states_from_tree",
    "states_tree",
    "tree_of_bytes",
]

_MAGIC = b"MXLSTATE"
_VERSION = 1


def dump_states(states: dict[Any, Any], optimizer: Optimizer | None) -> bytes:
    """Return states, and an optimizer's options and counts, as bytes."""
    return bytes_of_tree(states_tree(states, optimizer))


def bytes_of_tree(tree: dict[str, Any]) -> bytes:
    """Return the result of `states_tree` as bytes."""
    arrays: list[NDArray] = []
    text = json.dumps(_encode(tree, arrays)).encode()
    blob = save_tobuffer(arrays)
    body = b"".join(
        [
            _MAGIC,
            struct.pack("<IQ", _VERSION, len(text)),
            text,
            struct.pack("<Q", len(blob)),
            blob,
        ]
    )
    return body + _checksum(body)


def load_states(
    data: bytes, optimizer: Optimizer, source: str = "optimizer states"
) -> tuple[dict[Any, Any], Optimizer | None]:
    """Read states in mxlite's format or pickled by MXNet 1.x."""
    return states_from_tree(parsed_states(data, optimizer, source), optimizer, source)


def parsed_states(data: bytes, optimizer: Optimizer, source: str) -> dict[str, Any]:
    """Return the tree of states in either format; see `load_states`."""
    if data[: len(_MAGIC)] != _MAGIC:
        return _legacy_tree(data, optimizer, source)
    tree = tree_of_bytes(data, source)
    if not isinstance(tree, dict):
        raise FileFormatError(
            f"load_states: content of {source} must be a dict of states, got {type(tree).__name__}"
        )
    return tree


def tree_of_bytes(data: bytes, source: str) -> Any:
    """Return the tree from the bytes of `bytes_of_tree`, with new arrays."""
    tree, arrays = _open(data, source)
    try:
        return _decode(tree, arrays)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"load_states: {source} has an unexpected structure: {error!r}"
        ) from None


def states_tree(states: dict[Any, Any], optimizer: Optimizer | None) -> dict[str, Any]:
    """Return states, and an optimizer's options and counts, as containers of plain values."""
    tree: dict[str, Any] = {"states": states, "optimizer": None}
    if optimizer is not None:
        optimizer._settle()
        scheduler = optimizer.lr_scheduler
        tree["optimizer"] = {
            "name": type(optimizer).__name__,
            "attributes": _attributes(optimizer, NOT_SAVED),
            "lr_scheduler": None if scheduler is None else _scheduler_tree(scheduler),
        }
    return tree


def states_from_tree(
    tree: dict[str, Any], optimizer: Optimizer, source: str
) -> tuple[dict[Any, Any], Optimizer | None]:
    """Read the result of `states_tree`; see `load_states`."""
    return prepare_states(tree, optimizer, source)()


def prepare_states(
    tree: dict[str, Any], optimizer: Optimizer, source: str
) -> Callable[[], tuple[dict[Any, Any], Optimizer | None]]:
    """Check the result of `states_tree`; return a function that restores it."""
    try:
        states, saved = tree["states"], tree["optimizer"]
        _check_states(states, source)
        if saved is None:
            return lambda: (states, None)
        name, attributes, scheduler = saved["name"], saved["attributes"], saved["lr_scheduler"]
        if scheduler is not None:
            scheduler = {SCHEDULER: scheduler["name"], "attributes": scheduler["attributes"]}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise FileFormatError(
            f"load_states: {source} has an unexpected structure: {error!r}"
        ) from error
    apply = prepare_options(optimizer, name, attributes, scheduler, source)
    return lambda: (states, apply())


def copied(tree: Any) -> Any:
    """Return containers with copies of their arrays."""
    if isinstance(tree, (NDArray, np.ndarray)):
        return tree.copy()
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(copied(value) for value in tree)
    return tree


def _checksum(data: bytes) -> bytes:
    import hashlib  # imported on use, because it loads OpenSSL (4 MB)

    return hashlib.sha256(data).digest()


def _open(data: bytes, source: str) -> tuple[dict[str, Any], list[NDArray]]:
    if len(data) < 60 or _checksum(data[:-32]) != data[-32:]:
        raise FileFormatError(
            f"load_states: {source} of {len(data)} bytes is truncated or damaged: the checksum in "
            "its last 32 bytes is wrong"
        )
    version, length = struct.unpack_from("<IQ", data, 8)
    if version != _VERSION:
        raise FileFormatError(
            f"load_states: {source} has version {version}, this mxlite reads version {_VERSION}"
        )
    if length > len(data) - 60:
        raise FileFormatError(
            f"load_states: {source}, offset 12: the tree must be within the {len(data)} bytes of "
            f"the file, got a length of {length}"
        )
    try:
        tree = json.loads(data[20 : 20 + length].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"load_states: {source}, offset 20: the next {length} bytes must be valid JSON: {error}"
        ) from None
    arrays = load_frombuffer(data[28 + length : -32])
    return tree, arrays


def _scheduler_tree(scheduler: Any) -> dict[str, Any]:
    return {"name": type(scheduler).__name__, "attributes": _without_objects(vars(scheduler))}


def _without_objects(value: Any) -> Any:
    """Return a copy of a scheduler's attributes, with nested schedulers as containers."""
    if isinstance(value, _schedulers.LRScheduler):
        return {SCHEDULER: type(value).__name__, "attributes": _without_objects(vars(value))}
    if isinstance(value, dict):
        return {key: _without_objects(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_without_objects(entry) for entry in value)
    return value


def _attributes(value: Any, left_out: tuple[str, ...]) -> dict[str, Any]:
    return {key: entry for key, entry in vars(value).items() if key not in left_out}


def _encode(value: Any, arrays: list[NDArray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, NDArray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        pairs = [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]
        return {"dict": pairs}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(entry, arrays) for entry in value]}
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:  # NumPy scalars
        return value.item()
    raise NotSupportedError(
        f"save_states: {value!r} of type {type(value).__name__} cannot be saved; states are "
        "numbers, strings, arrays and containers of them"
    )


def _decode(value: Any, arrays: list[NDArray]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {_decode(k, arrays): _decode(v, arrays) for k, v in content}
    entries = [_decode(entry, arrays) for entry in content]
    return tuple(entries) if kind == "tuple" else entries


def _check_states(states: Any, source: str) -> None:
    """Raise if states are not arrays, numbers or containers of them."""
    if not isinstance(states, dict):
        raise FileFormatError(
            f"load_states: content of {source} must be a dict of states, got "
            f"{type(states).__name__}"
        )
    waiting = [(key, value) for key, value in states.items()]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, (tuple, list)):
            waiting.extend((key, entry) for entry in value)
        elif not (value is None or isinstance(value, (NDArray, int, float))):
            raise FileFormatError(
                f"load_states: {source}: the state of parameter {str(key)[:100]!r} must be an "
                f"array, got {type(value).__name__}"
            )


def _legacy_tree(data: bytes, optimizer: Optimizer, source: str) -> dict[str, Any]:
    """Read a pickle of MXNet 1.x, which contains states, or states and an optimizer."""
    # Includes optimizers of other packages.
    classes = {type(optimizer), *Optimizer.opt_registry.values()}
    content = read_legacy_states(data, source, {(c.__module__, c.__qualname__) for c in classes})
    saved = None
    if isinstance(content, tuple) and len(content) == 2:
        content, saved = content
    _check_states(content, source)
    if saved is None:
        return {"states": content, "optimizer": None}
    if not isinstance(saved, LegacyObject):
        raise FileFormatError(
            f"load_states: content of {source} must be an optimizer, got {type(saved).__name__}"
        )
    attributes = dict(saved.attributes)
    scheduler = attributes.pop("lr_scheduler", None)
    if scheduler is not None and not isinstance(scheduler, LegacyObject):
        raise FileFormatError(
            f"load_states: content of {source} must be a learning rate scheduler, got "
            f"{type(scheduler).__name__}"
        )
    for key in ("param_dict", "sym_info", "allow_np_array", "aggregate_num"):
        attributes.pop(key, None)
    if attributes.get("lr", 0) is None:  # 1.x stores None if no rate was given
        del attributes["lr"]
    if isinstance(attributes.get("rescale_grad"), NDArray):  # set by gluon-nlp's BERTAdam
        attributes["rescale_grad"] = float(attributes["rescale_grad"].asscalar())
    if isinstance(attributes.get("last_lr"), (int, float)):  # LARS of 1.x has a single rate
        attributes["last_lr"] = dict.fromkeys(content, attributes["last_lr"])
    if scheduler is not None:
        scheduler = {"name": scheduler.class_name, "attributes": _plain(scheduler.attributes)}
    return {
        "states": content,
        "optimizer": {
            "name": saved.class_name,
            "attributes": _plain(attributes),
            "lr_scheduler": scheduler,
        },
    }


def _plain(value: Any) -> Any:
    """Return attributes with the schedulers of 1.x as containers."""
    if isinstance(value, LegacyObject):
        return {SCHEDULER: value.class_name, "attributes": _plain(value.attributes)}
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(entry) for entry in value)
    return value
