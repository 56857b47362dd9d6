"""Errors for blocks that are called with the wrong number of inputs."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Iterable
from typing import Any

from ...base import TypeError_
from ..call_types import BlockLike
from .error_layers import add_layer

__all__ = ["arity_error"]

_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


def arity_error(error: TypeError, block: BlockLike, args: tuple[Any, ...]) -> TypeError_ | None:
    """Return an error that names the wrong argument; None if the user's code raised `error`."""
    found = _wrong_call(error, block, args)
    if found is not None:
        add_layer(found, block, args)
        found.__suppress_context__ = True
    return found


def _wrong_call(error: TypeError, block: BlockLike, args: tuple[Any, ...]) -> TypeError_ | None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not last.filename.startswith(_FOLDER):  # user code made the failing call
        return None
    forward = type(block).forward
    hybrid = getattr(type(block), "hybrid_forward", None)
    params: Iterable[str] = getattr(block, "_reg_params", ()) if hybrid is not None else ()
    if hybrid is not None:
        signature = inspect.signature(hybrid)
        taken = signature.parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in taken):
            missing = [name for name in params if name not in signature.parameters]
            if missing:
                return TypeError_(
                    f"{_who(block)}: hybrid_forward has no argument for the parameter "
                    f"{missing[0]!r}; it gets each parameter of the block by its name"
                )
        if not _fits(signature, (block, None, *args), params):
            return _wrong_count(block, signature, 2, args, params)
    if not _fits(inspect.signature(forward), (block, *args), ()):
        return _wrong_count(block, inspect.signature(forward), 1, args, ())
    return None


def _who(block: BlockLike) -> str:
    return f"{type(block).__name__} {block.name!r}"


def _fits(signature: inspect.Signature, args: tuple[Any, ...], params: Iterable[str]) -> bool:
    try:
        signature.bind(*args, **dict.fromkeys(params))
    except TypeError:
        return False
    return True


def _wrong_count(
    block: BlockLike,
    signature: inspect.Signature,
    skipped: int,
    args: tuple[Any, ...],
    params: Iterable[str],
) -> TypeError_:
    named = list(params)
    inputs = [p for p in list(signature.parameters.values())[skipped:] if p.name not in named]
    inputs = [p for p in inputs if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least, most = sum(p.default is p.empty for p in inputs), len(inputs)
    if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
        count = f"at least {least}"
    else:
        count = str(least) if least == most else f"{least} to {most}"
    names = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in inputs)
    return TypeError_(
        f"{_who(block)}: the number of inputs must be {count} ({names}), got {len(args)}"
    )
