"""Quantized operators: NumPy formulas with the constants of MXNet 1.9.1 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_table import Case, fails, ints, op, rand, randint

FULL = {"int8": 127.5, "uint8": 255.5}  # numbers at the end of a range, for activations
TOP = {"int8": 127.0, "uint8": 255.0}  # the same where ranges of products are computed
_F: dict[str, Any] = {"grad": False, "dtypes": ("float32",)}

Arrays = list[np.ndarray]


def _one(value: float) -> np.ndarray:
    return np.array([float(value)])


def _end(low: Any, high: Any) -> float:
    return float(max(abs(float(np.ravel(low)[0])), abs(float(np.ravel(high)[0]))))


def _to(values: np.ndarray, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.rint(values.astype(np.float32)), info.min, info.max).astype(dtype)


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    low = 0 if dtype == "uint8" else -127
    return randint(low, np.iinfo(dtype).max + 1, *shape, dtype=dtype)


def _quantized(x: np.ndarray, low: Any, high: Any, dtype: str, top: float) -> Arrays:
    end = _end(low, high)
    ends = [_one(-end), _one(end)] if dtype == "int8" else [np.ravel(low), np.ravel(high)]
    return [_to(x * (top / end), dtype), *ends]


_CALIBRATED = {"min_calib_range": -0.5, "max_calib_range": 1.25}
QUANTIZE = "_contrib_quantize_v2"
CASES: list[Case] = []
for _dtype in ("int8", "uint8"):
    CASES += [
        *(
            op(f"_contrib_{name}", values, *ends, ref=ref, **options, out_dtype=_dtype, **_F)
            for name, values, ends, options, ref in [
                (
                    "quantize",
                    rand(3, 50) * 2,
                    [_one(-1.0), _one(1.5)],
                    {"out_type": _dtype},
                    lambda x, a, b, d=_dtype: _quantized(x, a, b, d, TOP[d]),
                ),
                (
                    "quantize_v2",
                    rand(40) * 2,
                    [],
                    {"out_type": _dtype},
                    lambda x, d=_dtype: _quantized(x, x.min(), x.max(), d, FULL[d]),
                ),
                (
                    "quantize_v2",
                    rand(40) * 2,
                    [],
                    {"out_type": _dtype, **_CALIBRATED},
                    lambda x, d=_dtype: _quantized(x, -0.5, 1.25, d, FULL[d]),
                ),
                (
                    "quantize_v2",
                    _numbers(_dtype, 5),
                    [],
                    _CALIBRATED,
                    lambda x: [x, _one(-0.5), _one(1.25)],
                ),
            ]
        ),
        op(
            "_contrib_dequantize",
            _numbers(_dtype, 2, 30),
            _one(-3.0),
            _one(2.0),
            ref=lambda x, *_, d=_dtype: x * (3 / FULL[d]),
            **_F,
        ),
        op(
            "_contrib_requantize",
            randint(-2000000, 2000000, 50),
            _one(-50.0),
            _one(40.0),
            out_type=_dtype,
            min_calib_range=-0.03,
            max_calib_range=0.02,
            out_dtype=_dtype,
            ref=lambda x, a, b, d=_dtype: [
                _to(x * (50 / (2**31 - 1)) * (TOP[d] / 0.03), d),
                _one(-0.03 if d == "int8" else 0.0),
                _one(0.03),
            ],
            **_F,
        ),
    ]


def _asymmetric(x: np.ndarray) -> Arrays:
    scale = 255 / (x.max() - x.min())
    shift = 255 - x.max() * scale
    return [_to(np.floor(x * scale + shift + 0.5), "uint8"), _one(scale), _one(shift)]


CASES += [
    op(
        QUANTIZE,
        (9,),
        out_type="auto",
        min_calib_range=0,
        max_calib_range=1,
        out_dtype="uint8",
        ref=lambda x: _quantized(x, 0, 1, "uint8", 255.5),
        **_F,
    ),
    op(QUANTIZE, np.zeros(3), out_dtype="int8", ref=[np.zeros(3), _one(0), _one(0)], **_F),
    op("_contrib_quantize_asym", rand(60) * 3, out_dtype="uint8", ref=_asymmetric, **_F),
    op(
        "_contrib_requantize",
        ints([-100000, 5, 0, 77777, 2000000]),
        _one(-100.0),
        _one(50.0),
        out_dtype="int8",
        ref=[ints([-6, 0, 0, 5, 127], "int8"), _one(-0.09313226), _one(0.09313226)],
        **_F,
    ),
    fails(QUANTIZE, ints([1], "int8"), match="quantized already"),
    fails(QUANTIZE, (2,), min_calib_range=1, match="both or not at all, got one"),
    fails("_contrib_dequantize", (2,), _one(0), _one(1), error=TypeError, match="got float32"),
]

# A histogram; threshold and divergence as MXNet 1.9.1 gives them.
_BINS = np.rint(1000 * np.exp(-(np.linspace(-6, 6, 801) ** 2)) + 3 * (np.arange(801) % 7))
CASES.append(
    op(
        "_contrib_calibrate_entropy",
        _BINS,
        np.linspace(-6, 6, 802),
        num_quantized_bins=255,
        ref=[_one(5.9850187), _one(0.002945422)],
        **_F,
    )
)


# ---- layers: a range of data (-1, 2), of weights (-0.5, 0.3), of biases (-0.1, 0.2) ------------

_DATA, _WEIGHT, _BIAS = [_one(-1), _one(2)], [_one(-0.5), _one(0.3)], [_one(-0.1), _one(0.2)]
_ENDS = [*_DATA, *_WEIGHT, *_BIAS]
_HALVED = {"kernel": (2, 2), "stride": (2, 2)}


def _product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x.astype(np.int64) @ w.T.astype(np.int64)


def _sums(values: np.ndarray, data_top: float) -> Arrays:
    end = 2 / data_top * 0.5 / 127 * 2**31
    return [values.astype(np.int32), _one(-end), _one(end)]


def _convolved(x: np.ndarray, w: np.ndarray, pad: int = 0, stride: int = 1) -> np.ndarray:
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows[:, :, ::stride, ::stride], w.astype(np.int64))


def _averaged(x: np.ndarray, dtype: str) -> np.ndarray:
    n, c, h, w = x.shape
    blocks = x.astype(np.float64).reshape(n, c, h // 2, 2, w // 2, 2)
    return _to(blocks.mean(axis=(3, 5)), dtype)


for _dtype in ("int8", "uint8"):
    _conv = {"kernel": (3, 2), "num_filter": 4, "out_dtype": "int32", **_F}
    _fc = {"num_hidden": 4, "out_dtype": "int32", **_F}
    _units = FULL[_dtype] / 2 * (127.5 / 0.5) / (127.5 / 0.2)
    CASES += [
        op(
            "_contrib_quantized_conv",
            *[_numbers(_dtype, 2, 3, 6, 5), _numbers("int8", 4, 3, 3, 2), *_DATA, *_WEIGHT],
            no_bias=True,
            pad=(1, 1),
            stride=(2, 2),
            ref=lambda x, w, *_: _sums(_convolved(x, w, 1, 2), 127),
            **_conv,
        ),
        op(
            "_contrib_quantized_conv",
            *[_numbers(_dtype, 1, 3, 6, 5), _numbers("int8", 4, 3, 3, 2), _numbers("int8", 4)],
            *_ENDS,
            ref=lambda x, w, b, *_: _sums(_convolved(x, w) + b.reshape(1, -1, 1, 1), 127),
            **_conv,
        ),
        op(
            "_contrib_quantized_fully_connected",
            *[_numbers(_dtype, 3, 2, 5), _numbers("int8", 4, 10), *_DATA, *_WEIGHT],
            no_bias=True,
            ref=lambda x, w, *_, d=_dtype: _sums(_product(x.reshape(3, 10), w), TOP[d]),
            **_fc,
        ),
        op(
            "_contrib_quantized_fully_connected",
            *[_numbers(_dtype, 3, 5), _numbers("int8", 4, 5), _numbers("int8", 4), *_ENDS],
            ref=lambda x, w, b, *_, d=_dtype, u=_units: _sums(
                _product(x, w) + np.trunc(b * np.float32(u)), TOP[d]
            ),
            **_fc,
        ),
        *(
            op(
                f"_contrib_quantized_{name}",
                *inputs,
                *_DATA,
                **options,
                out_dtype=_dtype,
                ref=lambda *a, f=f: [f(*a), _one(-1), _one(2)],
                **_F,
            )
            for name, inputs, options, f in [
                (
                    "pooling",
                    [_numbers(_dtype, 2, 3, 4, 6)],
                    _HALVED,
                    lambda x, *_: x.reshape(2, 3, 2, 2, 3, 2).max(axis=(3, 5)),
                ),
                (
                    "pooling",
                    [_numbers(_dtype, 2, 4, 6, 3)],
                    {**_HALVED, "layout": "NHWC"},
                    lambda x, *_: x.reshape(2, 2, 2, 3, 2, 3).max(axis=(2, 4)),
                ),
                (
                    "pooling",
                    [_numbers(_dtype, 2, 3, 4, 6)],
                    {**_HALVED, "pool_type": "avg"},
                    lambda x, *_, d=_dtype: _averaged(x, d),
                ),
                (
                    "act",
                    [_numbers(_dtype, 3, 4)],
                    {"act_type": "relu"},
                    lambda x, *_: np.maximum(x, 0),
                ),
                ("flatten", [_numbers(_dtype, 3, 2, 2)], {}, lambda x, *_: x.reshape(3, 4)),
                (
                    "embedding",
                    [np.array([1.0, 0, 2]), _numbers(_dtype, 3, 4)],
                    {"input_dim": 3, "output_dim": 4},
                    lambda i, w, *_: w[i.astype(int)],
                ),
            ]
        ),
        op(
            "_contrib_quantized_batch_norm",
            _numbers(_dtype, 2, 3, 4),
            *map(np.array, ([0.5, 1, 2], [0.1, 0, -0.1], [0.2, 0.1, 0.3], [1, 0.25, 0.5])),
            *_DATA,
            fix_gamma=False,
            min_calib_range=-2,
            max_calib_range=3,
            out_dtype="int8",
            ref=lambda x, *a, d=_dtype: [
                _batch_norm(np.rint(x * (127.5 / FULL[d])), *a[:4]),
                _one(-2),
                _one(3),
            ],
            **_F,
        ),
        fails(
            "_contrib_quantized_batch_norm",
            _numbers(_dtype, 2, 3),
            *[np.ones(3)] * 4,
            *_DATA,
            match="min_calib_range and max_calib_range must give",
        ),
    ]


def _batch_norm(
    x: np.ndarray, g: np.ndarray, b: np.ndarray, m: np.ndarray, v: np.ndarray
) -> np.ndarray:
    g, b, m, v = (a.reshape(1, 3, 1) for a in (g, b, m, v))
    return _to((g * (x * (2 / 127.5) - m) / np.sqrt(v + 1e-3) + b) * 127.5 / 3, "int8")


# ---- two operands: ranges (-1, 2) and (-3, 1) --------------------------------------------------

_LEFT, _RIGHT = [_one(-1), _one(2)], [_one(-3), _one(1)]
_WIDE = {"min_calib_range": -2.5, "max_calib_range": 4}


def _scaled(a: np.ndarray, b: np.ndarray, levels: tuple[float, float]) -> np.ndarray:
    return a.astype(np.float64) * b * levels[0] * levels[1]


def _added(a: np.ndarray, b: np.ndarray, *_: np.ndarray) -> Arrays:
    mixed = a.dtype != b.dtype
    dtype = "uint8" if a.dtype == b.dtype == np.uint8 else "int8"
    terms = []
    for x, end in ((a, 2), (b, 3)):
        term = x * np.float32(FULL[dtype] / 4 / (FULL[str(x.dtype)] / end))
        terms.append(_to(term, "int8") if mixed and x.dtype == np.uint8 else term)
    return [_to(terms[0] + terms[1], dtype), _one(-2.5), _one(4)]


def _joined(a: np.ndarray, b: np.ndarray, *_: np.ndarray) -> Arrays:
    dtype = "uint8" if a.dtype == b.dtype == np.uint8 else "int8"
    parts = [x * (end / FULL[str(x.dtype)] * FULL[dtype] / 3) for x, end in ((a, 2), (b, 3))]
    return [_to(np.concatenate(parts, 1), dtype), _one(-3), _one(2)]


for _a in ("int8", "uint8"):
    for _b in ("int8", "uint8"):
        _pair = [_numbers(_a, 4, 9), _numbers(_b, 4, 9)]
        _levels = 2 / FULL[_a], 3 / FULL[_b]
        _small = "uint8" if _a == _b == "uint8" else "int8"
        CASES += [
            *(
                op(f"_contrib_quantized_{name}", *_pair, *_LEFT, *_RIGHT, ref=ref, **options, **_F)
                for name, options, ref in [
                    ("elemwise_add", {**_WIDE, "out_dtype": _small}, _added),
                    (
                        "elemwise_mul",
                        {"out_dtype": "int32"},
                        lambda a, b, *_, p=2 / TOP[_a] * 3 / TOP[_b] * 2**31: [
                            a.astype(np.int32) * b,
                            _one(-p),
                            _one(p),
                        ],
                    ),
                    (
                        "elemwise_mul",
                        {**_WIDE, "out_dtype": "int8"},
                        lambda a, b, *_, x=_levels: [
                            _to(_scaled(a, b, x) * 127.5 / 4, "int8"),
                            _one(-2.5),
                            _one(4),
                        ],
                    ),
                    (
                        "elemwise_mul",
                        {"enable_float_output": True},
                        lambda a, b, *_, x=_levels: _scaled(a, b, x),
                    ),
                    ("concat", {"dim": 1, "out_dtype": _small}, _joined),
                ]
            )
        ]

CASES += [
    *(
        fails(f"_contrib_quantized_{name}", *inputs, error=error, match=match, **params)
        for name, inputs, error, match, params in [
            (
                "elemwise_add",
                [ints([1], "int8"), ints([1, 2], "int8"), *_LEFT, *_RIGHT],
                ValueError,
                r"operands must have equal shapes, got \(1,\) and \(2,\)",
                {},
            ),
            (
                "concat",
                [ints([[1]], "int8"), ints([[2]], "int8")],
                ValueError,
                "a multiple of 3",
                {},
            ),
            (
                "act",
                [ints([1], "int8"), *_DATA],
                NotImplementedError,
                "act_type must be 'relu'",
                {"act_type": "tanh"},
            ),
            (
                "pooling",
                [_numbers("int8", 1, 1, 2, 2), *_DATA],
                NotImplementedError,
                "pool_type must be 'max' or 'avg'",
                {"pool_type": "sum", "kernel": (2, 2)},
            ),
        ]
    )
]
