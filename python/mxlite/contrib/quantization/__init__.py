"""Quantization of trained networks to int8 (``mx.contrib.quantization``).

Passes over symbols replace layers by operators on int8. Weights are quantized once, each filter
with a scale of its own. After calibration, the ranges of activations are constants, and neighboring
layers pass int8 values to each other.
"""

from __future__ import annotations

from ...context import Context, cpu
from ...io import DataBatch, DataDesc, DataIter
from ...module import Module
from ...ndarray import NDArray
from ...symbol import Symbol
from ...symbol import load as sym_load
from .blocks import quantize_net, quantize_net_v2
from .collectors import (
    _get_optimal_threshold,
    _get_optimal_thresholds,
    _LayerHistogramCollector,
    _LayerOutputMinMaxCollector,
    _smooth_distribution,
    combine_histogram,
)
from .files_1x import load_quantized
from .symbols import (
    _calibrate_quantized_sym,
    _quantize_params,
    _quantize_symbol,
    calib_graph,
    quantize_graph,
    quantize_model,
    quantize_model_mkldnn,
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
    "load_quantized",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
    "sym_load",
]
