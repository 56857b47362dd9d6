"""Options of optimizers and learning rate schedules, checked before they are restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import lr_scheduler as _schedulers
from .._files.likeness import check_like, is_number
from .._typed_init import check_argument
from ..base import FileFormatError
from .optimizer import Optimizer

__all__ = ["NOT_SAVED", "SCHEDULER", "prepare_options"]

NOT_SAVED = (
    "param_dict",
    "lr_scheduler",
    "_index_update_count",
    "sym_info",
    "allow_np_array",
    "aggregate_num",
    "_plans",
    "_shards",
)
_Changes = list[tuple[Any, dict[str, Any]]]
SCHEDULER = "learning rate scheduler"  # key of a saved scheduler; the value is its class


def prepare_options(
    optimizer: Optimizer,
    name: str,
    attributes: dict[str, Any],
    scheduler: dict[str, Any] | None,
    source: str,
) -> Callable[[], Optimizer]:
    """Check saved options and counts of an optimizer."""
    if type(name) is not str or not isinstance(attributes, dict):
        raise FileFormatError(
            f"load_states: {source} must name an optimizer, got {str(name)[:100]!r}"
        )
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
    changes: _Changes = []
    restored_scheduler = _with_objects(scheduler, optimizer.lr_scheduler, source, changes)

    def apply() -> Optimizer:
        for key, value in attributes.items():
            if key not in NOT_SAVED:
                setattr(optimizer, key, value)
        counts = optimizer._all_index_update_counts
        optimizer._index_update_count = counts.setdefault(0, {})
        for target, values in changes:
            target.__dict__.update(values)
        optimizer.lr_scheduler = restored_scheduler
        return optimizer

    return apply


def _check_attribute(optimizer: Optimizer, key: Any, value: Any, source: str) -> None:
    """Raise for unknown options, and for values whose type differs from the current value's."""
    own = getattr(type(optimizer), key, None) if type(key) is str else None
    if type(key) is not str or not key.isidentifier() or key.startswith("__"):
        raise FileFormatError(
            f"load_states: {source}: names of options must be identifiers without a leading '__', "
            f"got {str(key)[:100]!r}"
        )
    if callable(own) or isinstance(own, property):
        raise FileFormatError(
            f"load_states: {source}: {key!r} is a method of {type(optimizer).__name__}, not an "
            "option"
        )
    current = vars(optimizer).get(key)
    what = f"load_states: {source}: option {key!r} of {type(optimizer).__name__}"
    try:
        if not check_argument(type(optimizer), key, value):
            check_like(value, {} if isinstance(current, dict) else current, what, whole=False)
    except TypeError as error:
        raise FileFormatError(f"load_states: {source}: {error}") from None
    groups = [value] if key in ("lr_mult", "wd_mult") else []
    if key == "_all_index_update_counts":
        groups = list(value.values())
    for group in groups:
        if not isinstance(group, dict) or not all(map(is_number, group.values())):
            raise FileFormatError(f"{what} must be a dict of numbers by parameter")


def _with_objects(saved: Any, current: Any, source: str, changes: _Changes) -> Any:
    """Return a saved value in which the entries of schedulers are replaced by scheduler objects.

    The scheduler at the same place in ``current`` is reused if it has the saved class. The new
    attributes of each scheduler are appended to ``changes``.
    """
    if isinstance(saved, dict) and SCHEDULER in saved:
        name, attributes = saved[SCHEDULER], saved.get("attributes")
        scheduler = _scheduler_of_class(name, current, source)
        what = f"load_states: {source}: scheduler {name}"
        if not isinstance(attributes, dict):
            raise FileFormatError(
                f"{what}: attributes must be a dict, got a {type(attributes).__name__}"
            )
        values = {}
        for key, value in attributes.items():
            if not isinstance(key, str) or callable(getattr(type(scheduler), key, None)):
                raise FileFormatError(
                    f"{what}: names of attributes must be str and not those of methods, got "
                    f"{str(key)[:100]!r}"
                )
            own = vars(scheduler).get(key)
            values[key] = _with_objects(value, own, source, changes)
            if not isinstance(own, dict):
                check_like(values[key], own, f"{what}: {key!r}", whole=False)
        changes.append((scheduler, values))
        return scheduler
    if isinstance(saved, dict):
        known = current if isinstance(current, dict) else {}
        return {k: _with_objects(v, known.get(k), source, changes) for k, v in saved.items()}
    if isinstance(saved, (list, tuple)):
        same = isinstance(current, (list, tuple)) and len(current) == len(saved)
        places = current if same else [None] * len(saved)
        return type(saved)(_with_objects(*pair, source, changes) for pair in zip(saved, places))
    return saved


def _scheduler_of_class(name: Any, current: Any, source: str) -> Any:
    """Return the current scheduler if it has that class, or else a new scheduler of mxlite."""
    if type(current).__name__ == name:
        return current
    if not isinstance(name, str) or name not in _schedulers.__all__:
        raise FileFormatError(
            f"load_states: {source}: the states need a learning rate scheduler of class "
            f"{str(name)[:100]!r}; set optimizer.lr_scheduler to such a scheduler before loading"
        )
    return getattr(_schedulers, name)([1] if name == "MultiFactorScheduler" else 1)
