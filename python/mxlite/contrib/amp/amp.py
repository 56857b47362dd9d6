"""Switching mixed precision on, and scaling the loss of a Gluon trainer."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ... import _core
from ...base import MXNetError, TypeError_, ValueError_
from ...gluon.parameter.bindings import PROCESS as _GRAPHS
from ...gluon.trainer import Trainer
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...optimizer import Optimizer
from . import lists
from .lists.classes import conditional, float32_parameters, loss_outputs, names_of
from .loss_scaler import LossScaler

if TYPE_CHECKING:  # set by convert.py at run time
    from .convert import convert_bucketing_module as convert_bucketing_module
    from .convert import convert_hybrid_block as convert_hybrid_block
    from .convert import convert_model as convert_model
    from .convert import convert_symbol as convert_symbol

__all__ = [
    "bfloat16",
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "lists",
    "scale_loss",
    "switch_off",
    "unscale",
]

bfloat16 = "bfloat16"
"""The name of the type: NumPy has none of its own."""

Conditions = Sequence[tuple[str, str, Sequence[str]]]


class AmpListError(ValueError_, AssertionError):
    """A list contains an operator that it may not contain (1.x: ``AssertionError``)."""


class AmpStateError(MXNetError, AssertionError):
    """A function of amp was called before `init` or `init_trainer` (1.x: ``AssertionError``)."""


class _State:
    """State that `init` and `init_trainer` have set in this process."""

    initialized = False
    rules: _core.PrecisionRules | None = None
    scaler: LossScaler | None = None  # scaler of the first trainer, used by loss outputs
    scaler_taken = False


def __getattr__(name: str) -> Any:
    # GluonNLP reads this attribute to determine whether operators are cast.
    if name == "_amp_initialized":
        return _State.initialized
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def target_name(dtype: Any) -> str:
    """Return ``"float16"`` or ``"bfloat16"``; raise for other dtypes."""
    try:
        name = dtype_name(dtype)
    except TypeError:
        name = str(dtype)
    if name not in ("float16", "bfloat16"):
        raise ValueError_(f"amp: target_dtype must be 'float16' or 'bfloat16', got {dtype!r}")
    return name


def make_rules(
    target_dtype: Any,
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> _core.PrecisionRules:
    """Return the precision rules of the given lists; None means the default list."""
    target = target_name(target_dtype)
    entries = conditional() if conditional_fp32_ops is None else list(conditional_fp32_ops)
    for entry in entries:
        if len(entry) != 3 or not isinstance(entry[0], str) or not isinstance(entry[1], str):
            raise ValueError_(
                "amp: entries of conditional_fp32_ops must be (operator, parameter, list of "
                f"values), got {entry!r}"
            )
    low = _checked("target_precision_ops", target_precision_ops, "low_precision")
    single = _checked("fp32_ops", fp32_ops, "float32")
    conditions = [(op, param, list(map(str, values))) for op, param, values in entries]
    try:
        return _core.PrecisionRules(target, low, single, conditions)
    except ValueError as error:
        raise AmpListError(str(error)) from None


def _checked(option: str, given: Sequence[str] | None, kind: str) -> Sequence[str]:
    if given is None:
        return names_of(kind)
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError_(f"amp: {option} must be a list of operator names, got {given!r}")
    return given


def init(
    target_dtype: Any = "float16",
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> None:
    """Run operators in mixed precision from now on: eager, hybridized and new symbols.

    Parameters
    ----------
    target_dtype : {'float16', 'bfloat16'}
    target_precision_ops : list of str, optional
        Operators that run in ``target_dtype``; replaces the default list.
    conditional_fp32_ops : list of (str, str, list of str), optional
        Operators that need float32 for some values of a parameter.
    fp32_ops : list of str, optional
        Operators that run in float32; replaces the default list.

    Raises
    ------
    ValueError
        For another type, an unknown operator, or an operator in two lists.

    Notes
    -----
    Matches ``mxnet.contrib.amp.init``: a second call does nothing. Existing symbols are not
    changed. Arrays on the CPU are cast as well.
    """
    rules = make_rules(target_dtype, target_precision_ops, conditional_fp32_ops, fp32_ops)
    if _State.initialized:
        if _State.rules is not None and rules.target != _State.rules.target:
            warnings.warn(
                f"amp.init: {rules.target} given, amp runs in {_State.rules.target} already; call "
                "amp.switch_off() first to change it",
                stacklevel=2,
            )
        return
    _core.set_amp(rules)
    _State.rules = rules
    _GRAPHS.expire(retrace=True)
    _State.initialized = True
    _State.scaler, _State.scaler_taken = LossScaler(), False
    logging.info("Using AMP")


def switch_off() -> None:
    """Undo `init`: operators run in the types of their inputs again (mxlite only)."""
    _core.set_amp(None)
    _core.set_amp_scale(1.0)
    _State.rules = None
    _GRAPHS.expire(retrace=True)
    _State.initialized = False
    _State.scaler, _State.scaler_taken = None, False


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Give a trainer a dynamic loss scale; steps with overflowing gradients are skipped.

    Raises AmpStateError before `init`, TypeError for anything but a trainer.
    """
    if not _State.initialized:
        raise AmpStateError("AMP not initialized, did you forget to call amp.init()?")
    trainer = _checked_trainer(optimizer_or_trainer)
    if _State.scaler is not None and not _State.scaler_taken:
        _State.scaler_taken = True
        scaler = _State.scaler
        _core.set_amp_scale(scaler.loss_scale)
    else:
        scaler = LossScaler()
    trainer._amp_loss_scaler = scaler
    trainer._amp_original_scale = trainer._scale


def _checked_trainer(value: Any) -> Trainer:
    if isinstance(value, Optimizer):
        raise TypeError_("AMP is currently only compatible with Gluon Trainer")
    if not isinstance(value, Trainer):
        raise TypeError_(
            "optimizer_or_trainer should be a Gluon Trainer or an optimizer, instead is "
            f"{type(value)}"
        )
    return value


@contextlib.contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """Yield the loss times the trainer's scale; the trainer divides the gradients by it.

    Parameters
    ----------
    loss : NDArray or list of NDArray
    optimizer_or_trainer : gluon.Trainer
        Trainer that was passed to `init_trainer`. With bfloat16, whose range needs no scale, it
        may be another trainer, and the loss is not scaled.

    Yields
    ------
    NDArray or list of NDArray

    Raises
    ------
    AmpStateError
        In float16, if called before `init_trainer`.

    Examples
    --------
    >>> with autograd.record():
    ...     loss = loss_fn(net(data), label)
    ...     with amp.scale_loss(loss, trainer) as scaled:
    ...         autograd.backward(scaled)
    >>> trainer.step(batch_size)
    """
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    if scaler is None:
        if _State.rules is not None and _State.rules.target == "bfloat16":
            yield loss
            return
        raise AmpStateError(
            "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
        )
    scale = scaler.loss_scale
    optimizer_or_trainer._scale = optimizer_or_trainer._amp_original_scale / scale
    if scaler is _State.scaler:
        _core.set_amp_scale(scale)
    if isinstance(loss, (list, tuple)):
        yield [part * scale for part in loss]
    else:
        yield loss * scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients of a trainer by the loss scale, in order to clip or read them.

    Raises TypeError for anything but a trainer.
    """
    trainer = _checked_trainer(optimizer_or_trainer)
    for param in trainer._params:
        if param.grad_req == "null" or param._data is None:
            continue
        for grad in param.list_grad():
            _scale_in_place(grad, trainer._scale)
    trainer._scale = 1.0


def _scale_in_place(grad: NDArray, factor: float) -> None:
    if grad.stype == "default":
        grad *= factor
    else:
        (grad * factor).copyto(grad)


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """Return the operators that run in the lower precision."""
    target_name(target_dtype)
    return list(names_of("low_precision"))


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that run in float32."""
    target_name(target_dtype)
    return list(names_of("float32"))


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that run in the type of their inputs."""
    target_name(target_dtype)
    return list(names_of("neutral"))


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """Return (operator, parameter, values for which it runs in float32)."""
    target_name(target_dtype)
    return conditional()


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Return the operators whose inputs are cast to the widest type among them."""
    target_name(target_dtype)
    return list(names_of("widest"))


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """Return the loss operators, which ignore the gradient of their output."""
    target_name(target_dtype)
    return loss_outputs()


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """Return the operators that accept float32 parameters with data of the lower precision."""
    return float32_parameters() if target_name(target_dtype) == "bfloat16" else None
