"""Quantized convolutions and linear layers in sizes that GPU libraries take, and others."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_table import Case, ints, op, randint

from .conv import np_conv
from .quantization import FULL, TOP

# Ends of the ranges of data, weights and biases.
_ENDS = [[-1, 2], [-0.5, 0.3], [-0.1, 0.2]]
_SUMS: dict[str, Any] = {"grad": False, "dtypes": ("float32",), "out_dtype": "int32"}


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return randint(info.min, info.max + 1, *shape, dtype=dtype)


def _inputs(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return the arrays, and the ends of the range of each."""
    return [*arrays, *(np.array([float(e)]) for _, ends in zip(arrays, _ENDS) for e in ends)]


def _sums(values: np.ndarray, data_top: float) -> list[np.ndarray]:
    end = 2 / data_top * 0.5 / 127 * 2**31
    return [values.astype(np.int32), np.array([-end]), np.array([end])]


def _conv(
    dtype: str, data: tuple[int, ...], weight: tuple[int, ...], *, bias: bool = False, **p: Any
) -> Case:
    window = {k: p[k] for k in ("pad", "stride", "dilate") if k in p}

    def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, *_: np.ndarray) -> Any:
        arrays = [a.astype(np.int64) for a in ((x, w, b) if bias else (x, w))]
        return _sums(np_conv(*arrays, groups=p.get("num_group", 1), **window), 127)

    arrays = [_numbers(dtype, *data), _numbers("int8", *weight)]
    if bias:
        arrays.append(_numbers("int8", weight[0]))
    shape = {"kernel": weight[2:], "num_filter": weight[0], "no_bias": not bias}
    return op("_contrib_quantized_conv", *_inputs(*arrays), ref=reference, **shape, **p, **_SUMS)


def _dense(x: np.ndarray, w: np.ndarray, *bias: np.ndarray, **p: Any) -> Case:
    dtype = str(x.dtype)
    units = np.float32(FULL[dtype] / 2 * (127.5 / 0.5) / (127.5 / 0.2))

    def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, *_: np.ndarray) -> Any:
        sums = x.astype(np.int64) @ w.T.astype(np.int64)
        return _sums(sums + (np.trunc(b * units).astype(np.int64) if bias else 0), TOP[dtype])

    return op(
        "_contrib_quantized_fully_connected",
        *_inputs(x, w, *bias),
        num_hidden=len(w),
        no_bias=not bias,
        ref=reference,
        **p,
        **_SUMS,
    )


CASES: list[Case] = []
for _dtype in ("int8", "uint8"):
    CASES += [
        _conv(_dtype, (2, 16, 9, 7), (8, 16, 3, 3), bias=True, pad=(1, 1)),
        _conv(_dtype, (1, 48, 5, 6), (36, 48, 1, 1)),
        _conv(
            _dtype, (2, 5, 6, 8), (10, 5, 3, 2), stride=(2, 1), pad=(1, 2), dilate=(1, 2), bias=True
        ),
        _conv(_dtype, (1, 4, 5, 5), (6, 2, 3, 3), num_group=2),
        _conv(_dtype, (2, 3, 9), (4, 3, 3), pad=(1,), bias=True),
        _conv(_dtype, (1, 3, 4, 5, 6), (4, 3, 2, 2, 2), pad=(1, 0, 1), bias=True),
        _conv(_dtype, (1, 3, 2, 2), (4, 3, 3, 3), pad=(3, 3), stride=(2, 2)),
        _dense(_numbers(_dtype, 5, 16), _numbers("int8", 8, 16), _numbers("int8", 8)),
        _dense(_numbers(_dtype, 5, 7), _numbers("int8", 3, 7), _numbers("int8", 3)),
        _dense(_numbers(_dtype, 2, 32), _numbers("int8", 20, 32)),
        _dense(_numbers(_dtype, 2, 3, 8), _numbers("int8", 6, 8), flatten=False),
    ]

# The largest number of products whose sum cannot exceed int32, and one more, which wraps around.
for _count in (2**17 - 1, 2**17):
    _rows = ints([[-128], [127], [-64], [3]], "int8")
    CASES.append(_dense(np.full((1, _count), -128, "int8"), np.repeat(_rows, _count, axis=1)))
