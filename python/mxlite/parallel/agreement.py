"""Checks that trainers have the same options on all ranks that update the same parameters."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base import ValueError_
from ..comm.groups import Group, exchange_texts, ranks_text
from ..lr_scheduler import LRScheduler
from ..optimizer import Optimizer

if TYPE_CHECKING:
    from ..gluon.parameter import Parameter

__all__ = ["check_agreement"]

_MOST_SHOWN = 8  # most differences that an error lists
_PACKAGE = __name__.split(".")[0] + "."
_SCALARS = (bool, int, float, str, type(None))


def check_agreement(
    who: str,
    group: Group,
    optimizer: Optimizer,
    params: Sequence[Parameter],
    options: Mapping[str, Any],
) -> None:
    """Raise if the trainers of the ranks have different update rules.

    Ranks that sum their gradients and update their own copies of the parameters would otherwise
    train different copies.
    """
    if group.size == 1:
        return
    mine = {**_rule(optimizer), **_parameters(params)}
    mine.update((name, _text(value)) for name, value in options.items())
    theirs = [json.loads(text) for text in exchange_texts(group, json.dumps(mine), f"{who}.step")]
    if all(one == theirs[0] for one in theirs):
        return
    names = list(dict.fromkeys(name for one in theirs for name in one))
    different = []
    for name in names:
        ranks_by_value: dict[str, list[int]] = {}
        for rank, one in zip(group.ranks, theirs):
            ranks_by_value.setdefault(one.get(name, "not set"), []).append(rank)
        if len(ranks_by_value) > 1:
            values = " and ".join(
                f"{value} on {ranks_text(ranks)}" for value, ranks in ranks_by_value.items()
            )
            different.append(f"{name} is {values}")
    more = len(different) - _MOST_SHOWN
    shown = "; ".join(different[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    raise ValueError_(
        f"{who}: the ranks disagree about how to update the parameters: {shown}; give all ranks "
        "the same optimizer, options and sharded parameters, and load the same states"
    )


def _rule(optimizer: Optimizer) -> dict[str, str]:
    """Return the class of an optimizer and its plain-valued arguments, as texts."""
    rule = {
        "optimizer": type(optimizer).__name__,
        "learning_rate": _text(optimizer.lr),
        "lr_scheduler": _scheduler_text(optimizer.lr_scheduler),
        "num_update": _text(optimizer.num_update),
    }
    for name, value in _arguments(optimizer).items():
        if name not in ("lr_scheduler", "param_dict", "rescale_grad"):
            rule[name] = _text(value)
    return rule


def _arguments(instance: Any) -> dict[str, Any]:
    """Return the plain values of arguments of mxlite's own classes that an instance keeps.

    Arguments of user classes are skipped, because they may differ between ranks.
    """
    own = [base for base in type(instance).__mro__ if base.__module__.startswith(_PACKAGE)]
    inits = [vars(base)["__init__"] for base in own if "__init__" in vars(base)]
    names = {name for init in inits for name in inspect.signature(init).parameters}
    kept = vars(instance)
    return {name: kept[name] for name in sorted(names & kept.keys()) if _is_plain(kept[name])}


def _parameters(params: Sequence[Parameter]) -> dict[str, str]:
    """Return the properties of parameters that must agree; names may differ by their numbers."""
    sharded = []
    found: dict[str, str] = {}
    for position, param in enumerate(params):
        for what in ("lr_mult", "wd_mult"):
            if getattr(param, what) != 1:
                found[f"{what} of parameter {position}"] = _text(getattr(param, what))
        if param.shard is not None:
            assert param._shard is not None
            axis, shards = param._shard.given[0], param._shard.group().size
            sharded.append(f"{position} (axis {axis}, {shards} shards)")
    found["positions of sharded parameters"] = ", ".join(sharded) or "none"
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(entry) for entry in value)
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(entry) for key, entry in value.items())
    return isinstance(value, _SCALARS) or _is_scalar_array(value)


def _is_scalar_array(value: Any) -> bool:
    return hasattr(value, "item") and getattr(value, "shape", None) == ()  # scalars of NumPy


def _text(value: Any) -> str:
    """Return a text that is the same for 1 and 1.0."""
    if isinstance(value, dict):
        entries = sorted((_text(key), _text(entry)) for key, entry in value.items())
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(entry) for entry in value) + "]"
    if _is_scalar_array(value):
        value = value.item()
    is_whole = isinstance(value, float) and value.is_integer()
    return repr(int(value)) if is_whole else repr(value)


def _scheduler_text(scheduler: Any) -> str:
    if not isinstance(scheduler, LRScheduler):
        return "None" if scheduler is None else type(scheduler).__name__
    # base_lr is left out, because a scheduler may change it at each call, and reading the
    # trainer's learning rate is such a call.
    options = {k: v for k, v in _arguments(scheduler).items() if k != "base_lr"}
    return f"{type(scheduler).__name__}({', '.join(f'{k}={_text(v)}' for k, v in options.items())})"
