"""Runs operators that get a sparse array.

The core hands the whole call to `run`. A rule of the tables in ``rules``, ``products`` and
``updates`` computes it on the parts; without a rule, or where the rule does not know the storage
types, the arguments are made dense (and a warning is logged once, as in 1.x).
"""

from __future__ import annotations

import logging
import os
from typing import Any, Callable

from ... import _core
from ..._core import NDArray
from ...base import MXNetError
from . import storage
from .storage import dense, is_sparse, unrecorded

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # computed outside the tape; recorded as a whole
TAPED: dict[str, Rule] = {}  # record themselves
ALIASES: dict[str, Rule] = {}  # for operators that keep less sparse under their other names
QUIET = {"elemwise_div", "where"}  # dense results are what 1.x computes too

_logger = logging.getLogger("mxlite")
_logged: set[tuple[Any, ...]] = set()
_mutated: dict[str, tuple[list[str], list[int]]] = {}


def rule(*names: str, taped: bool = False) -> Callable[[Rule], Rule]:
    """Enter a function for operators; it gets their arguments and may return NotImplemented."""

    def enter(function: Rule) -> Rule:
        for name in names:
            (TAPED if taped else RULES)[_core.op(name).__name__] = function
        return function

    return enter


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], alias: str | None = None) -> Any:
    """Run an operator of which an argument or ``out=`` is sparse.

    Parameters
    ----------
    op : _core.Op
    args : tuple
    kwargs : dict
    alias : str, optional
        The name that it was called by; `ALIASES` may have a rule for it.
    """
    out = kwargs.pop("out", None)
    for label in ("name", "attr", "stype"):
        kwargs.pop(label, None)
    result = _run(op, args, kwargs, alias)
    if out is None:
        return result
    results = result if isinstance(result, (list, tuple)) else [result]
    targets = out if isinstance(out, (list, tuple)) else [out]
    for target, value in zip(targets, results):
        storage.assign(target, value)
    return out


def _run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], alias: str | None) -> Any:
    name = op.__name__
    taped = TAPED.get(name)
    if taped is not None:
        result = taped(*args, **kwargs)
        if result is not NotImplemented:
            return result
    arrays = _arrays(args, kwargs)
    if not any(is_sparse(a) for a in arrays):
        return op(*args, **kwargs)  # only out= is sparse
    function = ALIASES.get(alias or name, RULES.get(name))
    recording = _core.is_recording()
    if not (recording and any(_core.is_recorded(a) for a in arrays if is_sparse(a))):
        if function is not None and not (recording and any(map(_core.is_recorded, arrays))):
            with unrecorded():
                result = function(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return _fallback(op, args, kwargs)
    with unrecorded():
        result = NotImplemented if function is None else function(*args, **kwargs)
        if result is NotImplemented:
            result = _fallback(op, args, kwargs)
    return _recorded(op, args, kwargs, arrays, result)


def _arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[NDArray]:
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, NDArray):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(item for item in value if isinstance(item, NDArray))
    return found


def _mapped(value: Any, function: Callable[[NDArray], Any]) -> Any:
    if isinstance(value, NDArray):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, function) for item in value)
    return value


def _fallback(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the operator on dense arrays; states that it writes are written back."""
    log_fallback(op.__name__, args, kwargs)
    dense_args = [_mapped(value, dense) for value in args]
    dense_kwargs = {key: _mapped(value, dense) for key, value in kwargs.items()}
    result = op(*dense_args, **dense_kwargs)
    names, mutated = _mutated_inputs(op.__name__)
    for index in mutated:
        if index < len(args):
            before, after = args[index], dense_args[index]
        else:
            before, after = kwargs.get(names[index]), dense_kwargs.get(names[index])
        if is_sparse(before):
            storage.assign(before, after)
    return result


def _mutated_inputs(name: str) -> tuple[list[str], list[int]]:
    if not _mutated:
        for op in _core.list_ops():
            _mutated[op["name"]] = (op["inputs"], op["mutated"])
    return _mutated[name]


def _mutated_arrays(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[NDArray]:
    names, mutated = _mutated_inputs(name)
    found = [args[i] if i < len(args) else kwargs.get(names[i]) for i in mutated]
    return [array for array in found if isinstance(array, NDArray)]


def log_fallback(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Warn, once per operator and storage types, that sparse arrays are made dense.

    ``MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0`` silences it.
    """
    stypes = tuple(storage.stype_of(a) for a in _arrays(args, kwargs))
    key = (name, *stypes)
    if name in QUIET or key in _logged:
        return
    if os.environ.get("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "1") == "0":
        return
    _logged.add(key)
    _logger.warning(
        "Storage type fallback detected: operator %s got arrays of the storage types [%s] and runs "
        "on dense copies of them; results are the same. Set MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 "
        "to silence this.",
        name,
        ", ".join(stypes),
    )


def _snapshot(array: NDArray) -> NDArray:
    """Return the array as it is now; later changes of the parts do not reach it."""
    if not is_sparse(array):
        return array.detach()
    return storage.of_parts(storage.parts(array), array.shape)


def _versions(array: NDArray) -> tuple[int, ...]:
    parts = storage.parts(array) if is_sparse(array) else (array,)
    return tuple(part._version for part in parts if part is not None)


def _recorded(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[NDArray], result: Any
) -> Any:
    """Put a call on the tape; its gradient is that of the operator on dense arrays."""
    outputs = [a.detach() for a in (result if isinstance(result, list) else [result])]
    saved = {id(a): _snapshot(a) for a in arrays}
    versions = {key: _versions(a) for key, a in saved.items()}
    # States, as the moving averages of BatchNorm: backward neither needs nor changes them.
    states = {id(a) for a in _mutated_arrays(op.__name__, args, kwargs)}
    needed = {id(a): _core.is_recorded(a) for a in arrays}
    order = [id(a) for a in arrays]
    training = _core.is_training()
    keyed = (
        _mapped(args, lambda a: _Slot(id(a))),
        {key: _mapped(value, lambda a: _Slot(id(a))) for key, value in kwargs.items()},
    )

    def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
        for key, array in saved.items():
            if key not in states and _versions(array) != versions[key]:
                raise MXNetError(
                    f"backward: an input of {op.__name__}, an array of shape {array.shape}, was "
                    "changed in place after it was recorded; its old value is needed"
                )
        variables = {
            key: dense(array).copy() if key in states else dense(array).detach()
            for key, array in saved.items()
        }
        chosen = [key for key in variables if needed[key]]
        for key in chosen:
            _core.mark_variable(variables[key], None, 1)
        old = _core.set_recording(True), _core.set_training(training)
        try:
            again = op(
                *_filled(keyed[0], variables),
                **{key: _filled(value, variables) for key, value in keyed[1].items()},
            )
        finally:
            _core.set_recording(old[0])
            _core.set_training(old[1])
        heads = again if isinstance(again, list) else [again]
        used = [(h, g) for h, g in zip(heads, grads) if g is not None]
        found = _core.gradients(
            [h for h, _ in used],
            [dense(g) for _, g in used],
            [variables[key] for key in chosen],
            False,
            False,
            training,
        )
        by_key = dict(zip(chosen, found))
        # An array given twice has its whole gradient at the first place.
        return [by_key.pop(key, None) for key in order]

    _core.record_function(backward, op.__name__, arrays, outputs, True)
    return outputs if isinstance(result, list) else outputs[0]


class _Slot:
    """Stands for an array of a recorded call."""

    def __init__(self, key: int) -> None:
        self.key = key


def _filled(value: Any, arrays: dict[int, NDArray]) -> Any:
    if isinstance(value, _Slot):
        return arrays[value.key]
    if isinstance(value, (list, tuple)):
        return [_filled(item, arrays) for item in value]
    return value
