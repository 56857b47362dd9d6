"""Helpers that all modules use."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..base import MXNetError, TypeError_, ValueError_
from ..context import Context, cpu
from ..initializer import Uniform
from .checkpoint_files import BatchEndParam

DEFAULT_INITIALIZER = Uniform(0.01)
_SUFFIXES = ("_weight", "_bias", "_gamma", "_beta")


class ModuleStateError(MXNetError, AssertionError):
    """A method was called before bind, init_params or init_optimizer (1.x: AssertionError)."""


def as_list(value: Any) -> list[Any]:
    """Return the entries of a list, other values as a list of one, None as an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_input_names(symbol: Any, names: Sequence[str], kind: str, throw: bool) -> None:
    """Raise or warn if a symbol has no arguments of the given names."""
    known = symbol.list_arguments()
    for name in names:
        if name in known:
            continue
        candidates = [entry for entry in known if not entry.endswith(_SUFFIXES)]
        text = (
            f"You created Module with Module(..., {kind}_names={list(names)}) but input with name "
            f"'{name}' is not found in symbol.list_arguments(). Did you mean one of:\n\t"
        ) + "\n\t".join(candidates)
        if throw:
            raise ValueError_(text)
        warnings.warn(text, stacklevel=3)


def call_all(callbacks: Any, epoch: int, nbatch: int, eval_metric: Any, variables: Any) -> None:
    """Call the callbacks of a batch with a `BatchEndParam`."""
    if callbacks is None:
        return
    param = BatchEndParam(epoch, nbatch, eval_metric, variables)
    for callback in as_list(callbacks):
        callback(param)


def as_contexts(context: Any) -> list[Context]:
    """Return a Module's contexts as a list; None means the CPU."""
    contexts = as_list(cpu() if context is None else context)
    for entry in contexts:
        if not isinstance(entry, Context):
            raise TypeError_(f"Module: context must be mx.cpu(), mx.gpu(0), ..., got {entry!r}")
    return contexts
