"""Operators by precision for bfloat16, under the names of ``mxnet.contrib.amp.lists``."""

from __future__ import annotations

from .classes import conditional, float32_parameters, loss_outputs, names_of

__all__ = [
    "BF16_FP32_FUNCS",
    "BF16_FUNCS",
    "BF16_USE_FP32_PARAMS",
    "CONDITIONAL_FP32_FUNCS",
    "FP32_FUNCS",
    "LOSS_OUTPUT_FUNCTIONS",
    "WIDEST_TYPE_CASTS",
]

BF16_FUNCS = list(names_of("low_precision"))
FP32_FUNCS = list(names_of("float32"))
BF16_FP32_FUNCS = list(names_of("neutral"))
WIDEST_TYPE_CASTS = list(names_of("widest"))
CONDITIONAL_FP32_FUNCS = conditional()
LOSS_OUTPUT_FUNCTIONS = loss_outputs()
BF16_USE_FP32_PARAMS = float32_parameters()
