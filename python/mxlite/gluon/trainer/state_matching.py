"""Finds the parameter of a trainer to which each saved optimizer state belongs.

Files number states by the position of the parameter in the trainer that saved them. A trainer sorts
a dictionary of parameters by name, and automatic names count the layers of a process: the layers
``dense9_`` and ``dense10_`` of one run have another order than ``dense10_`` and ``dense11_`` of the
next. Therefore files have a name and a shape for each position, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...base import FileFormatError, ShapeError
from ...ndarray import NDArray
from ...optimizer import Optimizer
from ..parameter import Parameter

__all__ = ["arranged", "by_number", "described"]

_Shape = Sequence[int]
_ADVICE = (
    "build the network and the trainer as when they were saved, and save and load the network in "
    "the same checkpoint: then its structure shows which parameter is which"
)


def described(params: Sequence[Parameter]) -> list[dict[str, Any]]:
    """Return names and whole shapes of a trainer's parameters for use in files."""
    return [
        {"name": p.name, "shape": None if p._shape is None else tuple(map(int, p._shape))}
        for p in params
    ]


def arranged(
    trees: Sequence[dict[str, Any]],
    saved: Any,
    params: Sequence[Parameter],
    optimizer: Optimizer,
    source: str,
    known: Mapping[int, int] | None = None,
) -> list[dict[str, Any]]:
    """Return saved options and states, renumbered by this trainer's parameters."""
    try:
        if saved is not None:
            positions = _positions(_checked(saved, source), params, source, dict(known or {}))
            trees = [renumbered(tree, positions) for tree in trees]
        for tree in trees:
            _check_keys(tree["states"], len(params), source)
            _check_shapes(tree, params, optimizer, source)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{source}: unexpected structure of states: {error!r}") from error
    return list(trees)


def _checked(saved: Any, source: str) -> list[tuple[str, _Shape | None]]:
    """Return the names and shapes in a file; raise if the file has another structure."""
    entries: list[Any] = saved if isinstance(saved, list) else [None]
    for entry in entries:
        named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
        shape = entry.get("shape") if named else ()
        if not named or not (shape is None or all(type(extent) is int for extent in shape)):
            raise FileFormatError(f"{source}: its list of parameters is not understood")
    return [(entry["name"], entry.get("shape")) for entry in entries]


def _positions(
    saved: list[tuple[str, _Shape | None]],
    params: Sequence[Parameter],
    source: str,
    known: dict[int, int],
) -> dict[int, int]:
    """Return the position here for each position in the file; raise if shapes differ."""
    taken = set(known.values())
    rest = [i for i in range(len(saved)) if i not in known]
    free = [j for j in range(len(params)) if j not in taken]
    if len(taken) != len(known) or len(rest) != len(free):
        missing = [saved[i][0] for i in rest] if len(taken) == len(known) else []
        raise FileFormatError(
            f"{source}: the trainer differs: {len(saved)} parameters were saved, this trainer has "
            f"{len(params)}; only in the file: {missing[:5]}, only here: "
            f"{[params[j].name for j in free][:5]}; {_ADVICE}"
        )
    pairs = _pairs([saved[i][0] for i in rest], [params[j].name for j in free])
    positions = {**known, **{rest[i]: free[j] for i, j in pairs}}
    for i, j in positions.items():
        name, shape = saved[i]
        own = params[j]
        if shape is not None and not _fits(own, shape):
            raise ShapeError(
                f"{source}: the optimizer's state for Parameter {own.name!r} must be that of a "
                f"parameter of shape {own._shape}, got that of Parameter {name!r} of shape "
                f"{tuple(shape)}; {_ADVICE}"
            )
    return positions


def _pairs(saved: list[str], own: list[str]) -> list[tuple[int, int]]:
    """Pair two lists of equal length: by name, or by order if the names are not the same."""
    if saved != own and len(set(saved)) == len(saved) and set(saved) == set(own):
        return [(i, own.index(name)) for i, name in enumerate(saved)]
    if saved != own and saved == sorted(saved) and own == sorted(own):
        # Both lists are sorted alphabetically. Sorting by number restores the order of creation.
        return list(zip(by_number(saved), by_number(own)))
    return [(i, i) for i in range(len(saved))]


def by_number(names: Sequence[str]) -> list[int]:
    """Return the positions of names in an order in which ``dense9_`` precedes ``dense10_``."""

    def key(position: int) -> list[Any]:
        parts = re.split("([0-9]+)", names[position])  # every second part is a number
        return [int(part) if i % 2 else part for i, part in enumerate(parts)]

    return sorted(range(len(names)), key=key)


def _fits(param: Parameter, shape: _Shape) -> bool:
    """Return whether a parameter has this shape, or may still get it in its first forward."""
    own = param._shape
    if own is None:
        return True
    return len(own) == len(shape) and all(n <= 0 or m <= 0 or n == m for n, m in zip(own, shape))


def renumbered(
    tree: dict[str, Any], positions: Mapping[int, int], drop: bool = False
) -> dict[str, Any]:
    """Return a copy of a state tree in which all positions are replaced, or dropped if unknown."""

    def moved(values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {
            positions.get(k, k) if type(k) is int else k: v
            for k, v in values.items()
            if not drop or type(k) is not int or k in positions
        }

    saved = tree["optimizer"]
    if saved is not None:
        attributes = {key: moved(value) for key, value in saved["attributes"].items()}
        counts = saved["attributes"].get("_all_index_update_counts")  # by device, then by position
        if isinstance(counts, dict):
            attributes["_all_index_update_counts"] = {k: moved(v) for k, v in counts.items()}
        saved = {**saved, "attributes": attributes}
    return {**tree, "states": moved(tree["states"]), "optimizer": saved}


def _check_keys(states: dict[Any, Any], count: int, source: str) -> None:
    for key in states:
        if type(key) is not int or not 0 <= key < count:
            raise FileFormatError(
                f"{source}: states must be those of this trainer's {count} parameters, got a "
                f"state of parameter {str(key)[:100]}; build the network and the trainer as when "
                "they were saved"
            )


def _check_shapes(
    tree: dict[str, Any], params: Sequence[Parameter], optimizer: Optimizer, source: str
) -> None:
    """Raise if an array of a state is incompatible with its parameter."""
    klass: type[Optimizer] | None = type(optimizer)
    if tree["optimizer"] is not None and tree["optimizer"]["name"] != type(optimizer).__name__:
        klass = Optimizer.opt_registry.get(str(tree["optimizer"]["name"]).lower())
    if klass is None or not _is_own(klass):
        return  # states of other optimizers may have any shape
    for key, state in tree["states"].items():
        param = params[key]
        for array in _arrays(state):
            shape = tuple(array.shape)
            by_row = klass._row_states and len(shape) == 2 and shape[1] == 1
            if not _fits(param, shape) and not (by_row and _fits_rows(param, shape[0])):
                raise ShapeError(
                    f"{source}: the optimizer's state of parameter {key} must fit Parameter "
                    f"{param.name!r} of shape {param._shape}, got shape {shape}; {_ADVICE}"
                )


def _fits_rows(param: Parameter, rows: int) -> bool:
    own = param._shape
    return not own or own[0] <= 0 or own[0] == rows


def _is_own(klass: type[Optimizer]) -> bool:
    """Return whether mxlite defines the states of an optimizer class.

    Such a state has the weight's shape, or one value per row.
    """
    package = Optimizer.__module__.rpartition(".")[0]
    makers = (klass.create_state, klass.create_state_multi_precision)
    return all(maker.__module__.rpartition(".")[0] == package for maker in makers)


def _arrays(state: Any) -> list[NDArray]:
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in _arrays(part)]
    return [state] if isinstance(state, NDArray) else []
