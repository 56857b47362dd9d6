"""Runs operators that get a sparse array.

The core hands the call to `run`, which has it bound to the operator's schema: counts, parameters,
shapes and dtypes are checked as for dense arrays, and rules get every input by position and every
parameter by name. Schemas say which operators work on the stored values alone, and which updates on
single rows; others have rules in ``rules``, ``products`` and ``functions``, which compute on the
parts. Without a rule, or where it does not know the storage types, the arguments are made dense
(and a warning is logged once, as in 1.x).
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any, Callable

from ... import _core
from ..._core import NDArray
from ...base import MXNetError
from . import storage
from .storage import dense, is_sparse, parts, traits, unrecorded, with_values
from .updates import update_rows

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # computed outside the tape; recorded as a whole
TAPED: dict[str, Rule] = {}  # record themselves
OWN_SHAPES: set[str] = set()  # operators whose rules take shapes that the dense call refuses
# Storage of the results of an alias -> what makes the alias's rule.
ALIAS_RULES: dict[str, Callable[[str], Rule]] = {}

_logger = logging.getLogger("mxlite")
_logged: set[tuple[Any, ...]] = set()


def rule(name: str, taped: bool = False, own_shapes: bool = False) -> Callable[[Rule], Rule]:
    """Enter a function for an operator; it may return NotImplemented.

    The function gets all inputs by position and the values of all parameters by name. It records
    itself if ``taped``, and takes shapes that the dense call refuses if ``own_shapes``.
    """

    def enter(function: Rule) -> Rule:
        schema_name = _core.op(name).schema_name
        (TAPED if taped else RULES)[schema_name] = function
        if own_shapes:
            OWN_SHAPES.add(schema_name)
        return function

    return enter


@functools.cache
def _alias_rule(alias: str, name: str) -> Rule | None:
    """Return the rule of an operator's alias whose results 1.x stores in another way."""
    make = ALIAS_RULES.get(traits(name)["aliases"].get(alias))
    return None if make is None else make(alias)


@functools.cache
def _rule_on_values(name: str) -> Rule:
    """Return the rule of an operator whose result is stored where its only input is."""
    op = _core.op(name)
    return lambda data, **params: with_values(data, op(parts(data)[0], **params))


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator of which an argument or ``out=`` is sparse.

    The core sorts the arguments by the schema and refuses what it would refuse for dense arrays.

    Parameters
    ----------
    op : _core.Op
        The name by which it is called may have a rule of its own.
    args : tuple
    kwargs : dict

    Raises
    ------
    TypeError
        If the count of arrays or a parameter's name or type is wrong.
    ValueError
        If shapes, dtypes or values of parameters are wrong.
    """
    name = op.schema_name
    alias_rule = _alias_rule(op.__name__, name)
    shapes = name not in OWN_SHAPES and alias_rule is None
    arrays, params, targets, keeps_storage = _core.bind_arguments(op, args, kwargs, shapes)
    if traits(name)["row_update"] is not None:
        result = update_rows(name, arrays, params, targets[0] if targets else None)
        if result is not NotImplemented:
            return result
    function = alias_rule or RULES.get(name)
    if function is None and keeps_storage:
        function = _rule_on_values(name)
    result = _run(op, arrays, params, function)
    if not targets:
        return result
    for target, value in zip(targets, result if isinstance(result, list) else [result]):
        storage.assign(target, value, f"{name}: out")
    return targets if isinstance(result, list) else targets[0]


def _run(op: Any, arrays: list[NDArray], params: dict[str, Any], function: Rule | None) -> Any:
    name = op.schema_name
    if not any(is_sparse(a) for a in arrays) and not traits(name)["chooses_storage"]:
        return op(*arrays, **params)  # only out= is sparse
    taped = TAPED.get(name)
    if taped is not None:
        result = taped(*arrays, **params)
        if result is not NotImplemented:
            return result
    recording = _core.is_recording()
    if not (recording and any(_core.is_recorded(a) for a in arrays if is_sparse(a))):
        if function is not None and not (recording and any(map(_core.is_recorded, arrays))):
            with unrecorded():
                result = function(*arrays, **params)
            if result is not NotImplemented:
                return result
        return _fallback(op, arrays, params)
    with unrecorded():
        result = NotImplemented if function is None else function(*arrays, **params)
        if result is NotImplemented:
            result = _fallback(op, arrays, params)
    return _recorded(op, arrays, params, result)


def _fallback(op: Any, arrays: list[NDArray], params: dict[str, Any]) -> Any:
    """Run the operator on dense arrays; states that it writes are written back."""
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
    """Warn, once per operator and storage types, that sparse arrays are made dense.

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


def _snapshot(array: NDArray) -> NDArray:
    """Return the array as it is now; later changes of the parts do not reach it."""
    if not is_sparse(array):
        return array.detach()
    return storage.of_parts(storage.parts(array), array.shape)


def _versions(array: NDArray) -> tuple[int, ...]:
    parts = storage.parts(array) if is_sparse(array) else (array,)
    return tuple(part._version for part in parts if part is not None)


def _recorded(op: Any, arrays: list[NDArray], params: dict[str, Any], result: Any) -> Any:
    """Put a call on the tape; its gradient is that of the operator on dense arrays."""
    outputs = [a.detach() for a in (result if isinstance(result, list) else [result])]
    saved = {id(a): _snapshot(a) for a in arrays}
    versions = {key: _versions(a) for key, a in saved.items()}
    # States, as the moving averages of BatchNorm: backward neither needs nor changes them.
    states = {id(arrays[i]) for i in _mutated(op.schema_name, len(arrays))}
    needed = {id(a): _core.is_recorded(a) for a in arrays}
    order = [id(a) for a in arrays]
    training = _core.is_training()

    def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
        for key, array in saved.items():
            if key not in states and _versions(array) != versions[key]:
                raise MXNetError(
                    f"backward: an input of {op.schema_name}, an array of shape {array.shape}, was "
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
        # An array given twice has its whole gradient at the first place.
        return [by_key.pop(key, None) for key in order]

    _core.record_function(backward, op.schema_name, arrays, outputs, True)
    return outputs if isinstance(result, list) else outputs[0]
