"""Optimizers in the form sent to a parameter server: a name and numbers, but no code."""

from __future__ import annotations

import json
import math
from typing import Any, Callable

from .. import lr_scheduler as schedulers
from .. import ndarray as nd
from .. import optimizer as opt
from ..base import InputError, NotSupportedError

_SCHEDULERS = (
    schedulers.FactorScheduler,
    schedulers.MultiFactorScheduler,
    schedulers.PolyScheduler,
    schedulers.CosineScheduler,
)


def refused_by_servers(kind: type[opt.Optimizer]) -> str | None:
    """Return why servers cannot update by optimizers of a class; None if they can."""
    if _is_for_servers(kind):
        return None
    known = {name for name, one in opt.Optimizer.opt_registry.items() if _is_for_servers(one)}
    names = ", ".join(sorted(known - {"test"}))
    return f"servers have no optimizer {kind.__name__!r}, they have {names}"


def _is_for_servers(kind: type[opt.Optimizer]) -> bool:
    """Return whether the class itself, not only a base class, is marked as supported by servers."""
    return bool(vars(kind).get("_on_servers"))


class RemoteOptimizer:
    """An optimizer whose updates run on servers; options changed here are sent to them."""

    def __init__(self, optimizer: opt.Optimizer, name_of: Callable[[Any], str] = str) -> None:
        if not isinstance(optimizer, opt.Optimizer):
            raise InputError(
                "set_optimizer: optimizer must be an mx.optimizer.Optimizer, got "
                f"{type(optimizer).__name__}"
            )
        refusal = refused_by_servers(type(optimizer))
        if refusal is not None:
            raise NotSupportedError(
                f"set_optimizer: {refusal}; update on the workers instead: update_on_kvstore=False "
                "in gluon.Trainer, MXNET_UPDATE_ON_KVSTORE=0 for Module"
            )
        self.name = type(optimizer).__name__.lower()
        self._optimizer: Any = optimizer
        self._state = optimizer.create_state(0, nd.zeros(1))
        self._name_of = name_of
        self._scheduler = _schedule(optimizer.lr_scheduler)
        self._sent = self.text()

    def text(self) -> str:
        """Return the current options as JSON."""
        optimizer = self._optimizer
        values: dict[str, Any] = self._optimizer._for_servers(self._state)
        params = values["params"].items()
        values["params"] = {
            name: value if isinstance(value, bool) else _number(name, value)
            for name, value in params
        }
        if self._scheduler is None:
            values["learning_rate"] = _number("learning_rate", optimizer.learning_rate)
        else:
            values["lr_scheduler"] = self._scheduler
        values["wd"] = _number("wd", optimizer.wd)
        values["rescale_grad"] = _number("rescale_grad", optimizer.rescale_grad)
        values["multi_precision"] = bool(optimizer.multi_precision)
        for kind in ("lr_mult", "wd_mult"):
            values[kind] = self._factors(kind)
        return json.dumps(values, sort_keys=True)

    def _factors(self, kind: str) -> dict[str, float]:
        """Return the factors that differ from 1, by the keys' names on servers."""
        optimizer = self._optimizer
        given = getattr(optimizer, kind)
        keys = {*optimizer.param_dict, *given, *optimizer.idx2name}
        factors = {self._name_of(key): optimizer._factor(key, kind, given) for key in keys}
        return {key: _number(kind, value) for key, value in factors.items() if value != 1}

    def count(self, key: Any) -> None:
        """Count a push of a key as an update."""
        self._optimizer._update_count(key)

    def news(self) -> str | None:
        """Return the options as JSON if they have changed since the last call, else None."""
        now = self.text()
        if now == self._sent:
            return None
        self._sent = now
        return now


def _schedule(scheduler: Any) -> dict[str, Any] | None:
    """Return the attributes of a scheduler, or None if servers do not support its class."""
    if type(scheduler) not in _SCHEDULERS:
        return None
    known = {
        name: value
        for name, value in vars(scheduler).items()
        if isinstance(value, (int, float, str, list, tuple))
    }
    for name, value in known.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, float):
                _number(f"lr_scheduler: {name}", one)
    return {"name": type(scheduler).__name__, **known}


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"set_optimizer: {name} must be a finite number, got {value!r}")
    return number
