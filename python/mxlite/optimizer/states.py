"""Optimizer states as bytes: a checksummed format of our own, and the pickles of MXNet 1.x.

Layout, little-endian: magic ``MXLSTATE``, u32 version, u64 length and bytes of a JSON tree, u64
length and bytes of the arrays (the ``.params`` format), SHA-256 of everything before. The tree has
arrays as ``{"array": number}`` and containers by kind, so that keys keep their type.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from .. import lr_scheduler as _schedulers
from ..base import FileFormatError, NotSupportedError
from ..ndarray import NDArray
from ..ndarray.serialization import load_frombuffer, save_tobuffer
from .legacy_states import LegacyObject, read_legacy_states
from .optimizer import Optimizer

__all__ = [
    "bytes_of_tree",
    "copied",
    "dump_states",
    "load_states",
    "parsed_states",
    "states_from_tree",
    "states_tree",
    "tree_of_bytes",
]

_MAGIC = b"MXLSTATE"
_VERSION = 1
_NOT_SAVED = (
    "param_dict",
    "lr_scheduler",
    "_index_update_count",
    "sym_info",
    "allow_np_array",
    "aggregate_num",
    "_plans",
    "_blocks",
)
_SCHEDULER = "learning rate scheduler"  # key of a container that stands for one: its class


def dump_states(states: dict[Any, Any], optimizer: Optimizer | None) -> bytes:
    """Return states, and an optimizer's options and counts, as bytes.

    Parameters
    ----------
    states : dict
        State by index.
    optimizer : Optimizer or None

    Returns
    -------
    bytes
    """
    return bytes_of_tree(states_tree(states, optimizer))


def bytes_of_tree(tree: dict[str, Any]) -> bytes:
    """Return the result of `states_tree` as bytes.

    Parameters
    ----------
    tree : dict

    Returns
    -------
    bytes
    """
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
    """Read states in our format or pickled by MXNet 1.x.

    Parameters
    ----------
    data : bytes
    optimizer : Optimizer
        Its class decides whether saved options are loaded into it or into a new object.
    source : str
        Named in messages.

    Returns
    -------
    states : dict
    optimizer : Optimizer or None
        None if the bytes have no optimizer.

    Raises
    ------
    FileFormatError
        If the bytes are damaged or something else.
    """
    return states_from_tree(parsed_states(data, optimizer, source), optimizer, source)


def parsed_states(data: bytes, optimizer: Optimizer, source: str) -> dict[str, Any]:
    """Return the tree of states in our format or pickled by MXNet 1.x; see `load_states`.

    Parameters
    ----------
    data : bytes
    optimizer : Optimizer
        Is not changed; pickles may refer to its class.
    source : str
        Named in messages.

    Returns
    -------
    dict
        As `states_tree` returns, with new arrays, for `states_from_tree`.

    Raises
    ------
    FileFormatError
        If the bytes are damaged or something else.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        return _legacy_tree(data, optimizer, source)
    tree = tree_of_bytes(data, source)
    if not isinstance(tree, dict):
        raise FileFormatError(
            f"load_states: {source} holds a {type(tree).__name__}, expected a dict of states"
        )
    return tree


def tree_of_bytes(data: bytes, source: str) -> Any:
    """Return what `bytes_of_tree` was given; arrays are new.

    Parameters
    ----------
    data : bytes
    source : str
        Named in messages.

    Returns
    -------
    object
        A dict as `states_tree` returns unless the bytes were made by something else.

    Raises
    ------
    FileFormatError
        If the bytes are damaged or something else.
    """
    tree, arrays = _open(data, source)
    try:
        return _decode(tree, arrays)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"load_states: {source} has an unexpected structure: {error!r}"
        ) from None


def states_tree(states: dict[Any, Any], optimizer: Optimizer | None) -> dict[str, Any]:
    """Return states, and an optimizer's options and counts, as containers of plain values.

    Parameters
    ----------
    states : dict
        State by index.
    optimizer : Optimizer or None

    Returns
    -------
    dict
    """
    tree: dict[str, Any] = {"states": states, "optimizer": None}
    if optimizer is not None:
        optimizer._settle()
        scheduler = optimizer.lr_scheduler
        tree["optimizer"] = {
            "name": type(optimizer).__name__,
            "attributes": _attributes(optimizer, _NOT_SAVED),
            "lr_scheduler": None if scheduler is None else _scheduler_tree(scheduler),
        }
    return tree


def states_from_tree(
    tree: dict[str, Any], optimizer: Optimizer, source: str
) -> tuple[dict[Any, Any], Optimizer | None]:
    """Read the result of `states_tree`; see `load_states`.

    Parameters
    ----------
    tree : dict
    optimizer : Optimizer
    source : str

    Returns
    -------
    states : dict
    optimizer : Optimizer or None
    """
    try:
        states, saved = tree["states"], tree["optimizer"]
        _check_states(states, source)
        if saved is None:
            return states, None
        name, attributes, scheduler = saved["name"], saved["attributes"], saved["lr_scheduler"]
        if scheduler is not None:
            scheduler = {_SCHEDULER: scheduler["name"], "attributes": scheduler["attributes"]}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise FileFormatError(
            f"load_states: {source} has an unexpected structure: {error!r}"
        ) from error
    return states, _restored(optimizer, name, attributes, scheduler, source)


def copied(tree: Any) -> Any:
    """Return containers with copies of their arrays.

    Parameters
    ----------
    tree : object
    """
    if isinstance(tree, NDArray):
        return tree.copy()
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(copied(value) for value in tree)
    return tree


def _checksum(data: bytes) -> bytes:
    import hashlib  # with OpenSSL, 4 MB that import mxlite can do without

    return hashlib.sha256(data).digest()


def _open(data: bytes, source: str) -> tuple[dict[str, Any], list[NDArray]]:
    if len(data) < 60 or _checksum(data[:-32]) != data[-32:]:
        raise FileFormatError(
            f"load_states: {source} of {len(data)} bytes is truncated or damaged: the checksum of "
            "its last 32 bytes does not fit"
        )
    version, length = struct.unpack_from("<IQ", data, 8)
    if version != _VERSION:
        raise FileFormatError(
            f"load_states: {source} has version {version}, this mxlite reads version {_VERSION}"
        )
    if length > len(data) - 60:
        raise FileFormatError(
            f"load_states: {source}, offset 12: a tree of {length} bytes in {len(data)} bytes"
        )
    try:
        tree = json.loads(data[20 : 20 + length].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"load_states: {source}, offset 20: {length} bytes of JSON expected: {error}"
        ) from None
    arrays = load_frombuffer(data[28 + length : -32])
    return tree, arrays


def _scheduler_tree(scheduler: Any) -> dict[str, Any]:
    return {"name": type(scheduler).__name__, "attributes": _without_objects(vars(scheduler))}


def _without_objects(value: Any) -> Any:
    """Return what a scheduler holds, with the schedulers among it as containers."""
    if isinstance(value, _schedulers.LRScheduler):
        return {_SCHEDULER: type(value).__name__, "attributes": _without_objects(vars(value))}
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


def _restored(
    optimizer: Optimizer,
    name: str,
    attributes: dict[str, Any],
    scheduler: dict[str, Any] | None,
    source: str,
) -> Optimizer:
    """Return an optimizer of class ``name`` with the saved options."""
    if type(name) is not str or not isinstance(attributes, dict):
        raise FileFormatError(f"load_states: {source} names no optimizer")
    if type(optimizer).__name__ != name:
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            raise FileFormatError(
                f"load_states: the states belong to the optimizer {name[:100]!r}, which is not "
                "registered"
            )
        fresh = klass()
        fresh.param_dict = optimizer.param_dict
        fresh.lr_scheduler = optimizer.lr_scheduler
        optimizer = fresh
    for key, value in attributes.items():
        _check_attribute(optimizer, key, value, source)
    restored_scheduler = _with_objects(scheduler, optimizer.lr_scheduler)
    for key, value in attributes.items():
        if key not in _NOT_SAVED:
            setattr(optimizer, key, value)
    counts = optimizer._all_index_update_counts
    optimizer._index_update_count = counts.setdefault(0, {})
    optimizer.lr_scheduler = restored_scheduler
    return optimizer


def _check_attribute(optimizer: Optimizer, key: Any, value: Any, source: str) -> None:
    """Refuse unknown options, and values of another kind than the optimizer's own."""
    own = getattr(type(optimizer), key, None) if type(key) is str else None
    if type(key) is not str or not key.isidentifier() or key.startswith("__"):
        raise FileFormatError(f"load_states: {source}: {str(key)[:100]!r} names no option")
    if callable(own) or isinstance(own, property):
        raise FileFormatError(
            f"load_states: {source}: {key!r} is a method of {type(optimizer).__name__}, not an "
            "option"
        )
    current = vars(optimizer).get(key)
    number = isinstance(current, (int, float)) and not isinstance(value, (int, float, type(None)))
    counts = key == "_all_index_update_counts" and not (
        isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values())
    )
    if number or counts or (isinstance(current, dict) and not isinstance(value, dict)):
        raise FileFormatError(
            f"load_states: {source}: option {key!r} of {type(optimizer).__name__} is a "
            f"{type(value).__name__}, {type(current).__name__} expected"
        )


def _check_states(states: Any, source: str) -> None:
    """Refuse states that are not arrays, numbers or containers of them."""
    if not isinstance(states, dict):
        raise FileFormatError(
            f"load_states: {source} holds a {type(states).__name__}, expected a dict of states"
        )
    waiting = [(key, value) for key, value in states.items()]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, (tuple, list)):
            waiting.extend((key, entry) for entry in value)
        elif not (value is None or isinstance(value, (NDArray, int, float))):
            raise FileFormatError(
                f"load_states: {source}: the state of parameter {str(key)[:100]!r} holds a "
                f"{type(value).__name__}, an array expected"
            )


def _with_objects(saved: Any, current: Any) -> Any:
    """Return a saved value with its schedulers as objects: those at the same place if they fit."""
    if isinstance(saved, dict) and _SCHEDULER in saved:
        scheduler = _scheduler_of_class(saved[_SCHEDULER], current)
        attributes = saved.get("attributes")
        if not isinstance(attributes, dict):
            raise FileFormatError(
                f"load_states: the scheduler {str(saved[_SCHEDULER])[:100]} has a "
                f"{type(attributes).__name__} of attributes, dict expected"
            )
        for key, value in attributes.items():
            vars(scheduler)[key] = _with_objects(value, vars(scheduler).get(key))
        return scheduler
    if isinstance(saved, dict):
        known = current if isinstance(current, dict) else {}
        return {key: _with_objects(value, known.get(key)) for key, value in saved.items()}
    if isinstance(saved, (list, tuple)):
        same = isinstance(current, (list, tuple)) and len(current) == len(saved)
        places = current if same else [None] * len(saved)
        return type(saved)(_with_objects(*pair) for pair in zip(saved, places))
    return saved


def _scheduler_of_class(name: str, current: Any) -> Any:
    """Return the current scheduler if it is of that class, else a new one of ours."""
    if type(current).__name__ == name:
        return current
    klass = getattr(_schedulers, name, None) if name in _schedulers.__all__ else None
    if klass is None:
        raise FileFormatError(
            f"load_states: the states have a learning rate scheduler {name!r}; give the "
            "optimizer one of that class before loading"
        )
    return klass.__new__(klass)


def _legacy_tree(data: bytes, optimizer: Optimizer, source: str) -> dict[str, Any]:
    """Read the pickle of MXNet 1.x: the states, or a pair of states and optimizer."""
    classes = {type(optimizer), *Optimizer.opt_registry.values()}  # also those of other packages
    content = read_legacy_states(data, source, {(c.__module__, c.__qualname__) for c in classes})
    saved = None
    if isinstance(content, tuple) and len(content) == 2:
        content, saved = content
    _check_states(content, source)
    if saved is None:
        return {"states": content, "optimizer": None}
    if not isinstance(saved, LegacyObject):
        raise FileFormatError(
            f"load_states: {source} holds a {type(saved).__name__}, expected an optimizer"
        )
    attributes = dict(saved.attributes)
    scheduler = attributes.pop("lr_scheduler", None)
    if scheduler is not None and not isinstance(scheduler, LegacyObject):
        raise FileFormatError(
            f"load_states: {source} holds a {type(scheduler).__name__}, expected a learning rate "
            "scheduler"
        )
    for key in ("param_dict", "sym_info", "allow_np_array", "aggregate_num"):
        attributes.pop(key, None)
    if isinstance(attributes.get("rescale_grad"), NDArray):  # gluon-nlp's BERTAdam leaves one
        attributes["rescale_grad"] = float(attributes["rescale_grad"].asscalar())
    if isinstance(attributes.get("last_lr"), (int, float)):  # LARS of 1.x keeps one for all
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
        return {_SCHEDULER: value.class_name, "attributes": _plain(value.attributes)}
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(entry) for entry in value)
    return value
