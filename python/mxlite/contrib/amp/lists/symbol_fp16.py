"""Operators by precision for float16, under the names of ``mxnet.contrib.amp.lists``."""

from __future__ import annotations

from .classes import conditional, loss_outputs, names_of

__all__ = [
    "CONDITIONAL_FP32_FUNCS",
    "FP16_FP32_FUNCS",
    "FP16_FUNCS",
    "FP32_FUNCS",
    "LOSS_OUTPUT_FUNCTIONS",
    "WIDEST_TYPE_CASTS",
]

FP16_FUNCS = list(names_of("low_precision"))
FP32_FUNCS = list(names_of("float32"))
FP16_FP32_FUNCS = list(names_of("neutral"))
WIDEST_TYPE_CASTS = list(names_of("widest"))
CONDITIONAL_FP32_FUNCS = conditional()
LOSS_OUTPUT_FUNCTIONS = loss_outputs()
