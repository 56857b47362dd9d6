"""Fused layers on int8.

Units are powers of 2 and weights are even, so that all sums are exact and processors without VNNI,
which halve the weights, give the same integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from op_table import Case, fails, op, randint

from .conv import np_conv
from .quantization import FULL

_F: dict[str, Any] = {"grad": False, "dtypes": ("float32",)}
_DATA_UNIT, _SUM_UNIT, _OUT_UNIT = 2.0**-6, 2.0**-5, 2.0**-3


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return randint(info.min, info.max + 1, *shape, dtype=dtype)


def _range(dtype: str) -> dict[str, Any]:
    end = FULL[dtype] * _OUT_UNIT
    low = 0.0 if dtype == "uint8" else -end
    return {"min_calib_range": low, "max_calib_range": end, "out_type": "auto"}


def _case(name: str, dtype: str, data: Any, weight: Any, multiply: Any, out: str, **p: Any) -> Case:
    x, w = _numbers(dtype, *data), randint(-63, 64, *weight, dtype="int8") * np.int8(2)
    sums = multiply(x.astype(np.int64), w.astype(np.int64))
    column = (-1, *[1] * (sums.ndim - 2))
    scale = 2.0 ** randint(-13, -9, weight[0])
    bias = [] if p.get("no_bias") else [randint(-8, 9, weight[0]) / 8]
    expected = sums * (scale.reshape(column) * _DATA_UNIT)
    if bias:
        expected = expected + bias[0].reshape(column)
    added = []
    if p.get("with_sum"):
        ranged = out != "float32"
        added = [_numbers("uint8", *sums.shape) if ranged else randint(-4, 5, *sums.shape) / 4]
        expected = expected + added[0] * (_SUM_UNIT if ranged else 1)
        if ranged:
            p["sum_range"] = FULL["uint8"] * _SUM_UNIT
    if p.get("act_type") == "gelu":
        expected = expected * (1 + np.vectorize(math.erf)(expected / math.sqrt(2))) / 2
    elif p.get("with_act"):
        expected = np.clip(expected, 0, p.get("act_max", np.inf))
    result: Any = expected
    if out != "float32":
        info, p = np.iinfo(out), {**p, **_range(out)}
        whole = np.clip(np.rint(expected / _OUT_UNIT), info.min, info.max).astype(out)
        result = [whole, *(np.array([p[f"{end}_calib_range"]]) for end in ("min", "max"))]
    end = FULL[dtype] * _DATA_UNIT
    inputs = [x, w, *bias, scale, np.array([-end]), np.array([end]), *added]
    return op(name, *inputs, ref=result, out_dtype=out, **p, **_F)


def _conv(dtype: str, data: Any, weight: Any, out: str, **p: Any) -> Case:
    window = {k: p[k] for k in ("pad", "stride", "dilate") if k in p}

    def multiply(x: np.ndarray, w: np.ndarray) -> Any:
        return np_conv(x, w, None, groups=p.get("num_group", 1), **window)

    shape = {"kernel": weight[2:], "num_filter": weight[0]}
    return _case("_sg_mkldnn_conv", dtype, data, weight, multiply, out, **shape, **p)


def _dense(dtype: str, data: Any, weight: Any, out: str, **p: Any) -> Case:
    name, size = "_sg_mkldnn_fully_connected", {"num_hidden": weight[0]}
    return _case(name, dtype, data, weight, lambda x, w: x @ w.T, out, **size, **p)


CASES: list[Case] = []
for _dtype in ("int8", "uint8"):
    for _out in ("float32", "int8", "uint8"):
        CASES += [
            _conv(_dtype, (2, 8, 7, 6), (16, 8, 3, 3), _out, pad=(1, 1)),
            _conv(_dtype, (2, 4, 5, 5), (6, 2, 3, 3), _out, num_group=2, no_bias=True),
            _conv(_dtype, (1, 3, 9), (4, 3, 3), _out, stride=(2,), with_act=True),
            _conv(_dtype, (2, 8, 6, 6), (8, 8, 1, 1), _out, with_act=True, with_sum=True),
            _conv(_dtype, (1, 8, 5, 5), (8, 8, 3, 3), _out, with_act=True, act_max=2.0),
            _dense(_dtype, (5, 16), (8, 16), _out),
            _dense(_dtype, (1, 33), (7, 33), _out, no_bias=True, with_act=True),
            _dense(_dtype, (4, 16), (8, 16), _out, with_sum=True),
            _dense(_dtype, (4, 16), (8, 16), _out, with_act=True, act_type="gelu"),
        ]

_ONE = np.array([1.0])
_INPUTS = [np.ones((1, 4), "int8"), np.ones((2, 4), "int8"), np.ones(2), np.ones(2), -_ONE, _ONE]
CASES += [
    fails("_sg_mkldnn_fully_connected", *_INPUTS[:3], np.ones(3), *_INPUTS[4:], num_hidden=2,
          match="weight_scale must have shape"),
    fails("_sg_mkldnn_fully_connected", np.ones((1, 4)), *_INPUTS[1:], num_hidden=2,
          error=TypeError, match="data must be of dtype int8 or uint8"),
    fails("_sg_mkldnn_fully_connected", *_INPUTS, np.ones((1, 2), "int8"), num_hidden=2,
          with_sum=True, min_calib_range=0.0, max_calib_range=1.0, match="sum_range must be"),
    fails("_sg_mkldnn_fully_connected", *_INPUTS, num_hidden=2, with_act=True,
          act_type="gelu", act_max=6.0, match="act_max must be None for act_type gelu, got 6"),
]  # fmt: skip
