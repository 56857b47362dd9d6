"""Quantization of symbols with their parameters."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ...base import ValueError_
from ...context import Context, cpu
from ...io import DataIter
from ...ndarray import NDArray
from ...symbol import Symbol
from ...symbol import load as sym_load
from .batches import collect_statistics
from .collectors import _LayerHistogramCollector, _LayerOutputMinMaxCollector, thresholds_of
from .graphs import (
    calibrated_symbol,
    calibration_names,
    check_choice,
    check_context,
    check_names,
    quantize_params,
    quantize_symbol,
)

Params = Mapping[str, NDArray]
Model = tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]

_WITH_DATA = ("naive", "entropy")
CALIBRATIONS = ("none", *_WITH_DATA)


def is_calibrated(calib_mode: str | None) -> bool:
    """Return whether the mode determines ranges from data."""
    return calib_mode not in (None, "none")


def split(sym: Symbol, params: Params) -> Model:
    """Return the symbol with its arguments and its auxiliary states."""
    states = set(sym.list_auxiliary_states())
    return (
        sym,
        {name: array for name, array in params.items() if name not in states},
        {name: array for name, array in params.items() if name in states},
    )


def _make_collector(
    calib_mode: str, quantized_dtype: str, layers: list[str], custom: Any, logger: Any
) -> Any:
    if calib_mode == "entropy":
        if logger:
            logger.info("Create a layer output collector for entropy calibration.")
        return _LayerHistogramCollector(include_layer=layers, logger=logger)
    if calib_mode == "naive":
        if logger:
            logger.info("Create a layer output minmax collector for naive calibration")
        return _LayerOutputMinMaxCollector(quantized_dtype, include_layer=layers, logger=logger)
    if custom is None:
        raise ValueError_(
            "quantization: LayerOutputCollector must be an object with collect and min_max_dict "
            "for calib_mode='customize', got None"
        )
    if logger:
        logger.info("Create a customize layer output minmax collector for calibration")
    return custom


def quantize_graph(
    sym: Symbol,
    arg_params: Params,
    aux_params: Params,
    ctx: Context | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,
    logger: Any = None,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray], Any]:
    """Quantize a symbol, which `calib_graph` can calibrate afterwards.

    Parameters
    ----------
    sym : Symbol
        A trained float32 network.
    arg_params, aux_params : dict of str to NDArray
    ctx : Context
        A CPU context, the default.
    excluded_sym_names, excluded_op_names : list of str, optional
        Names of nodes and of operators that stay in float32.
    calib_mode : {'entropy', 'naive', 'customize', 'none'}
        How calibration determines ranges; with 'none', each run computes them.
    quantized_dtype : {'int8', 'uint8', 'auto'}
        Type of quantized outputs. 'auto' and 'uint8' use uint8 where the range has no negative
        numbers, else int8.
    quantize_mode : {'full', 'smart'}
        'full' quantizes all layers that have an int8 form. 'smart' quantizes convolutions and
        linear layers, and other layers only between quantized ones.
    quantize_granularity : {'tensor-wise', 'channel-wise'}
        Linear layers have one scale, or one for each output. Convolutions have one for each filter.
    LayerOutputCollector : object, optional
        Required for 'customize'; has a method ``collect(name, array)`` and ``min_max_dict``.
    logger : logging.Logger, optional

    Returns
    -------
    qsym : Symbol
    qarg_params, aux_params : dict of str to NDArray
    collector
        Pass outputs of `sym` to its ``collect(name, array)``. None for calib_mode 'none'.

    Raises
    ------
    ValueError
        If a mode, type or granularity is unknown, ctx is not a CPU context, or a parameter is
        missing or not finite.
    """
    check_context(cpu() if ctx is None else ctx)
    check_choice("calib_mode", calib_mode or "none", (*CALIBRATIONS, "customize"))
    names = check_names("excluded_sym_names", excluded_sym_names)
    ops = check_names("excluded_op_names", excluded_op_names)
    if logger:
        logger.info("Quantizing graph")
    params = {**arg_params, **aux_params}
    qsym, layers = quantize_symbol(
        sym,
        params,
        excluded_names=names,
        excluded_ops=ops,
        calibrated=is_calibrated(calib_mode),
        dtype=quantized_dtype,
        mode=quantize_mode,
        granularity=quantize_granularity,
    )
    collector = None
    if calib_mode is not None and calib_mode != "none":
        collector = _make_collector(
            calib_mode, quantized_dtype, layers, LayerOutputCollector, logger
        )
        if logger:
            logger.info(
                "Collector created, please use set_monitor_callback to collect calibration "
                "information."
            )
    if logger:
        logger.info("Quantizing parameters")
    return (*split(qsym, quantize_params(qsym, params)), collector)


def calib_graph(
    qsym: Symbol,
    arg_params: Params,
    aux_params: Params,
    collector: Any,
    calib_mode: str = "entropy",
    quantized_dtype: str = "int8",
    logger: Any = logging,
) -> Model:
    """Set the ranges of a quantized symbol from a filled collector.

    Parameters
    ----------
    qsym : Symbol
        The symbol that `quantize_graph` returned.
    arg_params, aux_params : dict of str to NDArray
        Parameters of the float network, or those that `quantize_graph` returned.
    collector
        The collector that `quantize_graph` returned, after it has collected outputs.
    calib_mode : {'entropy', 'naive', 'customize'}
    quantized_dtype : {'int8', 'uint8', 'auto'}
    logger : logging.Logger, optional

    Returns
    -------
    qsym : Symbol
    qarg_params, aux_params : dict of str to NDArray

    Raises
    ------
    ValueError
        For an unknown mode, or if the collector is empty and a layer needs a range.
    """
    check_choice("calib_mode", calib_mode, (*_WITH_DATA, "customize"))
    ranges = thresholds_of(collector, calib_mode, quantized_dtype, logger)
    if not ranges and calibration_names(qsym):
        raise ValueError_(
            "calib_graph: collector must have collected outputs of the float network, got none"
        )
    calibrated = calibrated_symbol(qsym, ranges)
    if logger:
        logger.info("Quantizing parameters")
    return split(calibrated, quantize_params(calibrated, {**arg_params, **aux_params}))


def quantize_model(
    sym: Symbol | str,
    arg_params: Params,
    aux_params: Params,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),
    ctx: Context | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: DataIter | None = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Any = None,
) -> Model:
    """Quantize and calibrate a symbol.

    Parameters
    ----------
    sym : Symbol or str
        A trained float32 network, or the path of its file.
    arg_params, aux_params : dict of str to NDArray
    data_names, label_names : sequence of str
        Names of the inputs. Labels are not used.
    calib_mode : {'entropy', 'naive', 'none'}
    calib_data : DataIter
        Batches that determine the ranges.
    num_calib_examples : int, optional
        Number of examples after which calibration stops; default: all.
    ctx, excluded_sym_names, excluded_op_names, quantized_dtype, quantize_mode
        As in `quantize_graph`.
    quantize_granularity, logger
        As in `quantize_graph`.

    Returns
    -------
    qsym : Symbol
    qarg_params, aux_params : dict of str to NDArray

    Raises
    ------
    ValueError
        As `quantize_graph`; also if calib_data is missing or has no batch, or if values are not
        finite.
    """
    ctx = cpu() if ctx is None else ctx
    sym = sym_load(sym) if isinstance(sym, str) else sym
    check_choice("calib_mode", calib_mode or "none", CALIBRATIONS)
    if is_calibrated(calib_mode) and not hasattr(calib_data, "provide_data"):
        raise ValueError_(
            f"quantize_model: calib_data must be a DataIter for calib_mode={calib_mode!r}, got "
            f"{type(calib_data).__name__}"
        )
    qsym, qargs, qaux, collector = quantize_graph(
        sym, arg_params, aux_params, ctx, excluded_sym_names, excluded_op_names, calib_mode,
        quantized_dtype, quantize_mode, quantize_granularity, logger=logger,
    )  # fmt: skip
    if calib_mode is None or calib_data is None or collector is None:
        return qsym, qargs, qaux
    params = {**arg_params, **aux_params}
    collect(sym, params, calib_data, data_names, collector, qsym, ctx, num_calib_examples, logger)
    return calib_graph(qsym, arg_params, aux_params, collector, calib_mode, quantized_dtype, logger)


def collect(
    sym: Symbol,
    params: Params,
    data: DataIter,
    data_names: Sequence[str],
    collector: Any,
    qsym: Symbol,
    ctx: Context,
    num_examples: int | None,
    logger: Any,
) -> None:
    """Give the collector the outputs of the float network that the quantized one needs."""
    layers = calibration_names(qsym)
    if not layers:
        return
    seen = collect_statistics(
        sym, params, data, data_names, collector, layers, ctx, num_examples, logger
    )
    if logger:
        logger.info(f"Collected layer output values from FP32 model using {seen} examples")


def quantize_model_mkldnn(
    sym: Symbol | str,
    arg_params: Params,
    aux_params: Params,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),
    ctx: Context | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: DataIter | None = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Any = None,
) -> Model:
    """Quantize and calibrate a symbol: another name of `quantize_model`."""
    return quantize_model(
        sym, arg_params, aux_params, data_names, label_names, ctx, excluded_sym_names,
        excluded_op_names, calib_mode, calib_data, num_calib_examples, quantized_dtype,
        quantize_mode, quantize_granularity, logger,
    )  # fmt: skip


# The names below exist because tests of 1.x call them.


def _quantize_symbol(
    sym: Symbol,
    ctx: Context,
    excluded_symbols: Sequence[str] | None = None,
    excluded_operators: Sequence[str] | None = None,
    offline_params: Sequence[str] | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
) -> tuple[Symbol, list[str]]:
    """Return a quantized symbol and the outputs that need ranges."""
    check_context(ctx)
    return quantize_symbol(
        sym,
        offline_params or (),
        excluded_names=check_names("excluded_symbols", excluded_symbols),
        excluded_ops=check_names("excluded_operators", excluded_operators),
        calibrated=True,
        dtype=quantized_dtype,
        mode=quantize_mode,
        granularity=quantize_granularity,
    )


def _calibrate_quantized_sym(qsym: Symbol, th_dict: Mapping[str, Any] | None) -> Symbol:
    """Return the symbol with the ranges of ``th_dict``, by name of the output."""
    ranges = {name: (float(low), float(high)) for name, (low, high) in (th_dict or {}).items()}
    return calibrated_symbol(qsym, ranges) if ranges else qsym


def _quantize_params(qsym: Symbol, params: Params, th_dict: Any = None) -> dict[str, NDArray]:
    """Return the arrays of a quantized symbol's parameters."""
    return quantize_params(qsym, params)
