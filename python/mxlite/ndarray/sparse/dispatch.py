"""Runs operators on sparse arrays.

The core passes the call to `run`, which binds it to the operator's schema: counts, parameters,
shapes and dtypes are checked as for dense arrays. Then an update may run on single rows, or a rule
of the core (``cpp/sparse``) may compute a sparse result. If neither supports the storage types, the
arguments are converted to dense arrays, and a warning is logged once, as in 1.x.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from typing import Any

from ... import _core
from ..._core import NDArray
from . import storage
from .storage import dense, is_sparse, traits, unrecorded
from .updates import update_rows

_logger = logging.getLogger("mxlite")
_logged: set[tuple[Any, ...]] = set()


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator with a sparse argument or a sparse ``out=``.

    The core orders the arguments by the schema, and checks them as it does for dense arrays.
    """
    name = op.schema_name
    shapes = not _core.sparse_rule_checks_shapes(op)
    arrays, params, targets, _ = _core.bind_arguments(op, args, kwargs, shapes)
    if traits(name)["row_update"] is not None:
        result = update_rows(name, arrays, params, targets[0] if targets else None)
        if result is not NotImplemented:
            return result
    result = _run(op, arrays, params)
    if not targets:
        return result
    for target, value in zip(targets, result if isinstance(result, list) else [result]):
        storage.assign(target, value, f"{name}: out")
    return targets if isinstance(result, list) else targets[0]


def _run(op: Any, arrays: list[NDArray], params: dict[str, Any]) -> Any:
    name = op.schema_name
    if not any(is_sparse(a) for a in arrays) and not traits(name)["chooses_storage"]:
        return op(*arrays, **params)  # only out= is sparse
    result = _core.run_sparse_rule(op, arrays, params, True)
    if result is not NotImplemented:
        return result
    recording = _core.is_recording()
    record_whole = recording and any(_core.is_recorded(a) for a in arrays if is_sparse(a))
    if recording and not record_whole and any(map(_core.is_recorded, arrays)):
        return _fallback(op, arrays, params)  # records the operator on dense arrays
    result = _core.run_sparse_rule(op, arrays, params, False)
    if result is NotImplemented:
        with unrecorded() if record_whole else contextlib.nullcontext():
            result = _fallback(op, arrays, params)
    return _recorded(op, arrays, params, result) if record_whole else result


def _fallback(op: Any, arrays: list[NDArray], params: dict[str, Any]) -> Any:
    """Run the operator on dense copies, and copy states that it writes back."""
    log_fallback(op.schema_name, arrays)
    copies = [dense(array) for array in arrays]
    result = op(*copies, **params)
    for index in _mutated(op.schema_name, len(arrays)):
        if is_sparse(arrays[index]):
            storage.assign(arrays[index], copies[index])
    return result


@functools.cache
def _mutated(name: str, count: int) -> list[int]:
    """Return the positions of the inputs that the operator writes."""
    return [i for i in _core.describe_op(name)["mutated"] if i < count]


def log_fallback(name: str, arrays: list[NDArray]) -> None:
    """Warn, once per operator and storage types, that sparse arrays are converted to dense ones.

    ``MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0`` silences it.
    """
    stypes = tuple(storage.stype_of(a) for a in arrays)
    key = (name, *stypes)
    if traits(name)["dense_result"] or key in _logged:
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


def _versions(array: NDArray) -> list[int]:
    parts = storage.parts(array) if is_sparse(array) else (array,)
    return [part._version for part in parts if part is not None]


def _recorded(op: Any, arrays: list[NDArray], params: dict[str, Any], result: Any) -> Any:
    """Put a call on the tape with the gradient of the operator on dense arrays."""
    outputs = [a.detach() for a in (result if isinstance(result, list) else [result])]
    # As in 1.x, backward reads their values at the time when it runs.
    saved = {id(a): a for a in arrays}
    versions = {key: _versions(a) for key, a in saved.items()}
    # States such as the moving averages of BatchNorm; backward neither reads nor changes them.
    states = {id(arrays[i]) for i in _mutated(op.schema_name, len(arrays))}
    needed = {id(a): _core.is_recorded(a) for a in arrays}
    order = [id(a) for a in arrays]
    training = _core.is_training()

    def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
        for key, array in saved.items():
            now = [] if key in states else _versions(array)
            changed = [new for new, old in zip(now, versions[key]) if new != old]
            if changed:
                _core.report_overwritten(f"an input of {op.schema_name}", array.shape, changed[0])
        variables = {
            key: dense(array).copy() if key in states else dense(array).detach()
            for key, array in saved.items()
        }
        chosen = [key for key in variables if needed[key]]
        for key in chosen:
            _core.mark_variable(variables[key], None, 1)
        old = _core.set_recording(True), _core.set_training(training)
        try:
            again = op(*(variables[key] for key in order), **params)
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
        # If an array is given twice, its first position gets the whole gradient.
        return [by_key.pop(key, None) for key in order]

    _core.record_function(backward, op.schema_name, arrays, outputs, True)
    return outputs if isinstance(result, list) else outputs[0]
