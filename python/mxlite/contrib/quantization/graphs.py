"""Quantization of symbols by the passes of ``cpp/symbol/passes``, and of their parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ... import _core
from ...base import TypeError_, ValueError_
from ...context import Context, cpu
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...symbol import Group, Symbol
from .collectors import Ranges

Params = Mapping[str, NDArray]

DTYPES = ("int8", "uint8", "auto")
_MODES = ("full", "smart")
_GRANULARITIES = ("tensor-wise", "channel-wise")
_CALIBRATION_NAME = "__calibration_name__"


class _QuantizedSymbol(Symbol):
    """A quantized symbol that keeps the graph which computes its weights from the float ones."""

    __slots__ = ("unfolded",)

    unfolded: Symbol


def check_choice(name: str, given: Any, choices: Collection[str]) -> None:
    """Raise a ValueError unless the argument is one of the choices."""
    if given not in choices:
        raise ValueError_(f"quantization: {name} must be one of {list(choices)}, got {given!r}")


def check_names(name: str, given: Any) -> list[str]:
    """Return names as a list, which is empty for None."""
    if given is not None and not isinstance(given, (list, tuple, set)):
        raise ValueError_(f"quantization: {name} must be a list of str, got {type(given).__name__}")
    return list(given or ())


def check_context(ctx: Any) -> Context:
    """Raise unless ctx is one CPU context."""
    if not isinstance(ctx, Context):
        raise ValueError_(f"quantization: ctx must be a single context, got {ctx!r}")
    if ctx.device_type == "gpu":
        raise ValueError_(
            "quantization: ctx must be a CPU context, because fused int8 layers have no CUDA "
            f"kernels, got {ctx}"
        )
    return ctx


def quantize_symbol(
    sym: Symbol,
    params: Collection[str],
    *,
    excluded_names: Collection[str],
    excluded_ops: Collection[str],
    calibrated: bool,
    dtype: str,
    mode: str,
    granularity: str,
) -> tuple[Symbol, list[str]]:
    """Return the symbol with int8 layers, and the names of the outputs whose ranges it needs."""
    if not isinstance(sym, Symbol):
        raise TypeError_(f"quantization: sym must be a Symbol, got {type(sym).__name__}")
    check_choice("quantized_dtype", dtype, DTYPES)
    check_choice("quantize_mode", mode, _MODES)
    check_choice("quantize_granularity", granularity, _GRANULARITIES)
    how = _core.Quantization(
        dtype="int8"
        if dtype == "int8"
        else "auto",  # uint8 cannot hold negative values, so it means auto
        smart=mode == "smart",
        channel_wise=granularity == "channel-wise",
        calibrated=calibrated,
        without=set(excluded_ops),
        parameters=set(params),
    )
    unfolded = Symbol(
        _core.run_symbol_pass(
            "quantize-layers", sym._outputs, kept=set(excluded_names), quantization=how
        )
    )
    return _folded(unfolded), calibration_names(unfolded)


def calibration_names(qsym: Symbol) -> list[str]:
    """Return the names of the float network's outputs whose ranges a quantized symbol needs."""
    attrs = qsym.attr_dict().values()
    return list(dict.fromkeys(a[_CALIBRATION_NAME] for a in attrs if _CALIBRATION_NAME in a))


def _folded(unfolded: Symbol) -> Symbol:
    folded = _QuantizedSymbol(_core.run_symbol_pass("fold-parameters", unfolded._outputs))
    folded.unfolded = unfolded
    return folded


def calibrated_symbol(qsym: Symbol, ranges: Ranges) -> Symbol:
    """Return the symbol with constant ranges in place of the nodes that compute ranges."""
    how = _core.Quantization(ranges=ranges)

    def run(symbol: Symbol) -> list[Any]:
        return _core.run_symbol_pass("calibrate", symbol._outputs, quantization=how)

    if isinstance(qsym, _QuantizedSymbol):
        return _folded(Symbol(run(qsym.unfolded)))
    return Symbol(run(qsym))


def quantize_params(qsym: Symbol, params: Params) -> dict[str, NDArray]:
    """Return the arrays of the quantized symbol's parameters.

    Raises
    ------
    ValueError
        If a parameter is missing or not finite.
    """
    wanted = [name for name in qsym.list_inputs() if name not in params]
    made: dict[str, NDArray] = {}
    if isinstance(qsym, _QuantizedSymbol):
        internals = qsym.unfolded.get_internals()
        known = set(internals.list_outputs())
        wanted = [name for name in wanted if f"{name}_output" in known]
        if wanted:
            made = _evaluated(Group([internals[f"{name}_output"] for name in wanted]), params)
            made = dict(zip(wanted, made.values()))
    arrays = {**params, **made}
    return {name: arrays[name] for name in qsym.list_inputs() if name in arrays}


def bound(
    heads: Symbol, ctx: Context, params: Params, shapes: Mapping[str, tuple[int, ...]]
) -> Any:
    """Return an executor for inference that has copies of the parameters."""
    executor = heads.simple_bind(ctx, grad_req="null", **shapes)
    executor.copy_params_from(
        {n: a for n, a in params.items() if n in executor.arg_dict},
        {n: a for n, a in params.items() if n in executor.aux_dict},
    )
    return executor


def _evaluated(heads: Symbol, params: Params) -> dict[str, NDArray]:
    missing = [name for name in heads.list_inputs() if name not in params]
    if missing:
        raise ValueError_(
            f"quantization: parameters must have values for {', '.join(missing[:5])}, got none"
        )
    given = {name: params[name].as_in_context(cpu()) for name in heads.list_inputs()}
    for name, array in given.items():
        if array.dtype != np.float32:
            raise TypeError_(
                f"quantization: {name} must be of dtype float32, got {dtype_name(array.dtype)}; "
                "cast the network to float32 first"
            )
    executor = bound(heads, cpu(), given, {name: array.shape for name, array in given.items()})
    values = dict(zip(heads.list_outputs(), executor.forward(is_train=False)))
    for name, array in values.items():
        if array.dtype == np.float32 and not np.isfinite(array.asnumpy()).all():
            raise ValueError_(
                f"quantization: {name.removesuffix('_output')} must be finite, got a value that is "
                "not; check the parameters from which it is computed"
            )
    return {name: array.copy() for name, array in values.items()}
