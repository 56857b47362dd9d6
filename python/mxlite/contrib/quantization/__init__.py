"""Quantization of trained networks to int8 (``mx.contrib.quantization``).

Layers become operators on int8 by passes over symbols; weights are quantized once, each filter by
its own scale. With calibration, the ranges of activations are constants, and neighboring layers
exchange int8.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ... import ndarray as nd
from ...base import TypeError_, ValueError_
from ...context import Context, cpu
from ...gluon.block import HybridBlock, SymbolBlock
from ...gluon.block.exporting import exported_symbol
from ...io import DataBatch, DataDesc, DataIter
from ...module import Module
from ...ndarray import NDArray
from ...symbol import Symbol
from ...symbol import load as sym_load
from ...symbol import var as make_var
from .batches import as_data_iter, collect_statistics
from .collectors import (
    _get_optimal_threshold,
    _get_optimal_thresholds,
    _LayerHistogramCollector,
    _LayerOutputMinMaxCollector,
    _smooth_distribution,
    combine_histogram,
    thresholds_of,
)
from .graphs import (
    calibrated_symbol,
    check_choice,
    check_context,
    check_names,
    quantize_params,
    quantize_symbol,
)

__all__ = [
    "Context",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "Module",
    "NDArray",
    "Symbol",
    "_LayerHistogramCollector",
    "_LayerOutputMinMaxCollector",
    "_calibrate_quantized_sym",
    "_get_optimal_threshold",
    "_get_optimal_thresholds",
    "_quantize_params",
    "_quantize_symbol",
    "_smooth_distribution",
    "calib_graph",
    "combine_histogram",
    "cpu",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
    "sym_load",
]

Params = Mapping[str, NDArray]
Model = tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]

_WITH_DATA = ("naive", "entropy")
_CALIBRATIONS = ("none", *_WITH_DATA)


def _is_calibrated(calib_mode: str | None) -> bool:
    return calib_mode not in (None, "none")


def _split(qsym: Symbol, params: Mapping[str, NDArray]) -> Model:
    """Return the symbol with its arguments and its auxiliary states."""
    states = set(qsym.list_auxiliary_states())
    return (
        qsym,
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
        How ranges will be found; with 'none', they are computed in every run.
    quantized_dtype : {'int8', 'uint8', 'auto'}
        'auto' and 'uint8': uint8 for outputs whose range has no negative numbers.
    quantize_mode : {'full', 'smart'}
        Quantize all layers that have an int8 form; or convolutions and linear layers, and others
        only between quantized layers.
    quantize_granularity : {'tensor-wise', 'channel-wise'}
        Scales of linear layers: one, or one for each output. Convolutions have one for each filter.
    LayerOutputCollector : object, optional
        For 'customize': has ``collect(name, array)`` and ``min_max_dict``.
    logger : logging.Logger, optional

    Returns
    -------
    qsym : Symbol
    qarg_params, aux_params : dict of str to NDArray
    collector
        Its ``collect`` takes outputs of `sym`; None for calib_mode 'none'.

    Raises
    ------
    ValueError
        For unknown modes, types or granularities, another device, and parameters that are missing
        or not finite.
    """
    check_context(cpu() if ctx is None else ctx)
    check_choice("calib_mode", calib_mode or "none", (*_CALIBRATIONS, "customize"))
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
        calibrated=_is_calibrated(calib_mode),
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
    return (*_split(qsym, quantize_params(qsym, params)), collector)


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
        The collector that `quantize_graph` returned, after it has taken outputs.
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
        For an unknown mode, or if the collector is empty.
    """
    check_choice("calib_mode", calib_mode, (*_WITH_DATA, "customize"))
    ranges = thresholds_of(collector, calib_mode, quantized_dtype, logger)
    if not ranges:
        raise ValueError_(
            "calib_graph: collector must have seen outputs of the float network, got none"
        )
    calibrated = calibrated_symbol(qsym, ranges)
    if logger:
        logger.info("Quantizing parameters")
    return _split(calibrated, quantize_params(calibrated, {**arg_params, **aux_params}))


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
        Names of the inputs; labels are not needed.
    calib_mode : {'entropy', 'naive', 'none'}
    calib_data : DataIter
        Batches from which ranges are found.
    num_calib_examples : int, optional
        Stop after so many examples; default: the whole iterator.
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
        As `quantize_graph`; without calib_data, if calib_data has no batch, or if values are not
        finite.
    """
    ctx = cpu() if ctx is None else ctx
    sym = sym_load(sym) if isinstance(sym, str) else sym
    check_choice("calib_mode", calib_mode or "none", _CALIBRATIONS)
    if _is_calibrated(calib_mode) and not isinstance(calib_data, DataIter):
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
    _collect(sym, params, calib_data, data_names, collector, qsym, ctx, num_calib_examples, logger)
    return calib_graph(qsym, arg_params, aux_params, collector, calib_mode, quantized_dtype, logger)


def _collect(
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
    attrs = qsym.attr_dict().values()
    layers = [a["__calibration_name__"] for a in attrs if "__calibration_name__" in a]
    seen = collect_statistics(
        sym, params, data, data_names, collector, list(dict.fromkeys(layers)), ctx, num_examples,
        logger,
    )  # fmt: skip
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
    """Quantize and calibrate a symbol; the same as `quantize_model`, which fuses layers, too."""
    return quantize_model(
        sym, arg_params, aux_params, data_names, label_names, ctx, excluded_sym_names,
        excluded_op_names, calib_mode, calib_data, num_calib_examples, quantized_dtype,
        quantize_mode, quantize_granularity, logger,
    )  # fmt: skip


def _run_once(network: HybridBlock, data_shapes: Sequence[Any]) -> int:
    """Run the network on zeros of these shapes and return how many of them it takes."""
    arrays = []
    for given in data_shapes:
        shape = given.shape if isinstance(given, DataDesc) else given
        is_named = isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], str)
        dtype = getattr(given, "dtype", "float32")
        arrays.append(nd.zeros(shape[1] if is_named else shape, dtype=dtype))
    while True:
        try:
            network(*arrays)
            return len(arrays)
        except TypeError:  # labels are no inputs
            if len(arrays) < 2:
                raise
            arrays.pop()


def quantize_net_v2(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    LayerOutputCollector: Any = None,
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained network.

    Parameters
    ----------
    network : HybridBlock
    exclude_layers : list of str, optional
        Names of nodes that stay in float32.
    exclude_layers_match : list of str, optional
        Nodes whose names contain one of these strings stay in float32, too.
    exclude_operators : list of str, optional
        Operators that stay in float32.
    calib_data : DataIter or iterable, optional
        Batches from which ranges are found: arrays, or lists of arrays and a label.
    data_shapes : list of DataDesc, optional
        Shapes of the inputs; needed without calib_data.
    calib_mode : {'none', 'naive', 'entropy', 'customize'}
    num_calib_examples : int, optional
        Stop after so many examples.
    quantized_dtype, quantize_mode, quantize_granularity, ctx
        As in `quantize_graph`.
    LayerOutputCollector, logger
        As in `quantize_graph`. A custom collector is given the outputs whose ranges are needed.

    Returns
    -------
    SymbolBlock

    Raises
    ------
    TypeError
        If it is not a HybridBlock, or calib_data cannot be iterated.
    ValueError
        As `quantize_graph`; if data is needed and missing or has no batch, or if values are not
        finite.

    Examples
    --------
    >>> qnet = mx.contrib.quantization.quantize_net(
    ...     net, calib_data=loader, calib_mode="entropy", num_calib_examples=500)
    >>> qnet.export("net-int8")
    """
    if not isinstance(network, HybridBlock):
        raise TypeError_(
            f"quantize_net: network must be a HybridBlock, got {type(network).__name__}"
        )
    ctx = check_context(cpu() if ctx is None else ctx)
    check_choice("calib_mode", calib_mode or "none", (*_CALIBRATIONS, "customize"))
    if _is_calibrated(calib_mode) and calib_data is None:
        raise ValueError_(
            f"quantize_net: calib_data must be provided when calib_mode={calib_mode}, got None"
        )
    data = None if calib_data is None else as_data_iter(calib_data)
    shapes = list(data_shapes or (data.provide_data if data else ()))
    if not shapes:
        raise ValueError_("quantize_net: data_shapes required, or calib_data")
    if logger:
        logger.info("Export HybridBlock")
    network.hybridize()
    num_inputs = _run_once(network, shapes)
    symbol, params = exported_symbol(network)
    known = set(symbol.list_inputs())
    params.update((n, p._reduce()) for n, p in network.collect_params().items() if n in known)
    names = [name for name in symbol.list_inputs() if name not in params]
    by_position = ["data"] if num_inputs == 1 else [f"data{i}" for i in range(num_inputs)]
    if set(by_position) == set(names):
        names = by_position

    excluded = check_names("exclude_layers", exclude_layers)
    for part in check_names("exclude_layers_match", exclude_layers_match):
        excluded += [node.name for node in symbol.get_internals() if part in node.name]
    if logger:
        logger.info(f"These layers have been excluded {excluded}")
    states = set(symbol.list_auxiliary_states())
    args = {name: array for name, array in params.items() if name not in states}
    aux = {name: array for name, array in params.items() if name in states}
    qsym, qargs, qaux, collector = quantize_graph(
        symbol, args, aux, ctx, excluded, exclude_operators, calib_mode, quantized_dtype,
        quantize_mode, quantize_granularity, LayerOutputCollector, logger,
    )  # fmt: skip
    if calib_mode is not None and data is not None and collector is not None:
        _collect(symbol, params, data, names, collector, qsym, ctx, num_calib_examples, logger)
        qsym, qargs, qaux = calib_graph(
            qsym, args, aux, collector, calib_mode, quantized_dtype, logger
        )
    block = SymbolBlock(qsym, [make_var(name) for name in names])
    block.collect_params().load_dict(
        {**qargs, **qaux}, ctx=ctx, cast_dtype=True, dtype_source="saved"
    )
    return block


def quantize_net(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained network; the arguments are those of `quantize_net_v2`.

    Linear layers have one scale. As in 1.x, a warning names `quantize_net_v2`.
    """
    warnings.warn(
        "WARNING: This will be deprecated after MXNet 2.0, please use quantize_net_v2.",
        stacklevel=2,
    )
    return quantize_net_v2(
        network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers,
        exclude_layers_match, exclude_operators, calib_data, data_shapes, calib_mode,
        num_calib_examples, ctx, None, logger,
    )  # fmt: skip


# ---- names that 1.x's tests use -------------------------------------------------------------


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
    """Return the symbol with these ranges."""
    ranges = {name: (float(low), float(high)) for name, (low, high) in (th_dict or {}).items()}
    return calibrated_symbol(qsym, ranges) if ranges else qsym


def _quantize_params(qsym: Symbol, params: Params, th_dict: Any = None) -> dict[str, NDArray]:
    """Return the arrays of a quantized symbol's parameters."""
    return quantize_params(qsym, params)
