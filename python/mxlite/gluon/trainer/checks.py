"""Checks of the arguments and of saved states of a trainer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..._files.likeness import check_class, check_like
from ...base import FileFormatError, MXNetError, TypeError_, ValueError_
from ...ndarray import NDArray
from ...optimizer import Optimizer
from ...optimizer.states import prepare_states
from ..parameter import Parameter

__all__ = [
    "BatchSizeWarning",
    "StaleGradientWarning",
    "TrainerModeError",
    "check_state",
    "checked_batch_size",
    "checked_options",
    "given_options",
    "is_fresh",
    "sparse_parts",
    "warn_of_options",
]

_PLAIN = (bool, int, float, str)


class StaleGradientWarning(MXNetError, UserWarning):
    """A gradient was not computed since the last step (1.x raises a ``UserWarning``)."""


class BatchSizeWarning(MXNetError, UserWarning):
    """A batch size that a distributed plug-in cannot use (1.x raises a ``UserWarning``)."""


class TrainerModeError(MXNetError, AssertionError):
    """A method does not support this ``update_on_kvstore`` (1.x: ``AssertionError``)."""


def is_fresh(param: Parameter, ignore_stale_grad: bool) -> bool:
    """Return whether a parameter has new gradients, on any context if stale ones are ignored."""
    arrays = param._arrays()
    stale = [array.ctx for array in arrays if not array._fresh_grad]
    if not stale:
        return True
    if ignore_stale_grad:
        return len(stale) < len(arrays)
    raise StaleGradientWarning(
        f"Gradient of Parameter `{param.name}` on context {stale[0]} has not been updated by "
        "backward since last `step`. This could mean a bug in your model that made it only use "
        "a subset of the Parameters (Blocks) for this iteration. If you are intentionally only "
        "using a subset, call step with ignore_stale_grad=True to suppress this warning and "
        "skip updating of Parameters with stale gradient"
    )


def sparse_parts(param: Parameter) -> list[str]:
    """Return which of a parameter's arrays are row-sparse: its weight or its gradient."""
    if param.stype != "default":
        return ["weight"]
    return ["gradient"] if param.grad_req != "null" and param.grad_stype != "default" else []


def checked_batch_size(batch_size: Any) -> Any:
    """Return the batch size; raise if it is not a number above 0."""
    if isinstance(batch_size, NDArray):
        return batch_size
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__truediv__"):
        raise TypeError_(f"Trainer: batch_size must be a number above 0, got {batch_size!r}")
    if not batch_size > 0:
        raise ValueError_(f"Trainer: batch_size must be a number above 0, got {batch_size!r}")
    return batch_size


def checked_options(options: Any) -> dict[str, Any]:
    """Return the optimizer options that a trainer was given."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError_(
            "Trainer: optimizer_params must be a dict such as {'learning_rate': 0.1}, got "
            f"{options!r}"
        )
    return dict(options or {})


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an optimizer that are plain values, for checkpoints."""
    found = {k: v for k, v in options.items() if v is None or isinstance(v, _PLAIN)}
    scheduler = options.get("lr_scheduler")
    if scheduler is not None:
        numbers = {
            k: v for k, v in sorted(vars(scheduler).items()) if isinstance(v, (*_PLAIN, list))
        }
        inside = ", ".join(f"{key}={value!r}" for key, value in numbers.items())
        found["lr_scheduler"] = f"{type(scheduler).__name__}({inside})"
    return found


def warn_of_options(given: dict[str, Any], state: dict[str, Any]) -> None:
    """Warn about options of this program that a restored state overrides."""
    saved = state.get("given")
    if saved is None:
        return
    optimizer = state["contexts"][0]["optimizer"] or {"attributes": {}}
    restored = {"learning_rate": optimizer["attributes"].get("lr"), **optimizer["attributes"]}
    restored = {"lr_scheduler": None, **restored, **saved}
    for key in {**given, "lr_scheduler": None}:
        if key in restored and given.get(key) != restored[key]:
            warnings.warn(
                f"Trainer: the program gives {key} {given.get(key)!r}, the checkpoint was saved "
                f"with {restored[key]!r}. The checkpoint's options are restored; to use the "
                "program's, set them in trainer.optimizer after the load",
                stacklevel=4,
            )


def check_state(state: Any, source: str, optimizer: Optimizer, loss_scaler: Any) -> None:
    """Raise if a saved state, indexed like the trainer's parameters, does not match the trainer."""
    own: dict[str, Any] = {"contexts": [], "loss_scaler": None}
    for key, value in own.items():
        check_like(state.get(key), value, f"{source}: {key!r}")
    trees = state["contexts"]
    for i, tree in enumerate(trees or [None]):
        saved = tree.get("optimizer", i) if isinstance(tree, dict) else i
        if not isinstance(saved, type(None) if i else dict):
            raise FileFormatError(f"{source}: its states of context {i} are not understood")
        if saved is not None:
            check_class(source, "optimizer", saved.get("name"), optimizer)
        prepare_states(tree, optimizer, source)
    if state.get("given") is not None:  # files of older versions do not have this entry
        check_like(state["given"], {}, f"{source}: 'given'")
    if loss_scaler is not None and state["loss_scaler"] is not None:
        scaler = dict(vars(loss_scaler))
        check_like(state["loss_scaler"], scaler, f"{source}: 'loss_scaler'", whole=False)
