"""Constants and dtypes."""

from __future__ import annotations

import builtins
import math

import numpy as onp
from numpy import (
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip

from .. import _core

__all__ = [
    "NAN", "NINF", "NZERO", "NaN", "PINF", "PZERO", "bfloat16", "bool", "bool_", "e",
    "euler_gamma", "finfo", "float16", "float32", "float64", "iinfo", "inf", "int8", "int16",
    "int32", "int64", "nan", "newaxis", "pi", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

nan = NaN = NAN = math.nan
inf = PINF = math.inf
NINF = -math.inf
PZERO, NZERO = 0.0, -0.0
pi, e, euler_gamma = math.pi, math.e, 0.5772156649015329
newaxis = None
bool = builtins.bool
bool_ = onp.bool_
bfloat16 = _core.dtype_type("bfloat16")
