"""Rows of convolution, deconvolution and pooling."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from op_table import fails, ints, no_grad, op, rand


def _full(values: Any, n: int, missing: int) -> tuple[int, ...]:
    return tuple(values) if len(values) else (missing,) * n


def np_unfold(
    x: np.ndarray, kernel: Any, stride: Any = (), dilate: Any = (), pad: Any = ()
) -> np.ndarray:
    """Return the windows of (N, C, ...) as (N, C, *kernel, *outputs)."""
    n = len(kernel)
    stride, dilate, pad = _full(stride, n, 1), _full(dilate, n, 1), _full(pad, n, 0)
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in pad])
    out = [(x.shape[i + 2] - dilate[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    result = np.zeros((*x.shape[:2], *kernel, *out), x.dtype)
    for at in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(k * dilate[i], k * dilate[i] + stride[i] * (out[i] - 1) + 1, stride[i])
            for i, k in enumerate(at)
        )
        result[(slice(None), slice(None), *at)] = x[(slice(None), slice(None), *cut)]
    return result


def np_conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    groups: int = 1,
    last: bool = False,
    **window: Any,
) -> np.ndarray:
    """Return the convolution of x (N, C, ...) with w (F, C / groups, ...)."""
    if last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    n = x.ndim - 2
    cols = np_unfold(x, w.shape[2:], **window)
    out = cols.shape[2 + n :]
    flat = w.reshape(groups, w.shape[0] // groups, -1)
    cols = cols.reshape(x.shape[0], groups, flat.shape[2], int(np.prod(out)))
    y = np.einsum("gfk,ngkp->ngfp", flat, cols).reshape(x.shape[0], w.shape[0], *out)
    if b is not None:
        y = y + b.reshape(-1, *(1,) * n)
    return np.moveaxis(y, 1, -1) if last else y


def np_deconv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Any = (),
    dilate: Any = (),
    pad: Any = (),
    adj: Any = (),
    groups: int = 1,
) -> np.ndarray:
    """Return the transposed convolution of x (N, C, ...) with w (C, F / groups, ...)."""
    n, kernel = x.ndim - 2, w.shape[2:]
    stride, dilate, pad = _full(stride, n, 1), _full(dilate, n, 1), _full(pad, n, 0)
    adj = _full(adj, n, 0)
    size = [(x.shape[i + 2] - 1) * stride[i] + dilate[i] * (kernel[i] - 1) + 1 for i in range(n)]
    per = w.shape[1]
    y = np.zeros((x.shape[0], per * groups, *[s + a for s, a in zip(size, adj)]))
    channels = x.shape[1] // groups
    for at in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(k * dilate[i], k * dilate[i] + stride[i] * (x.shape[i + 2] - 1) + 1, stride[i])
            for i, k in enumerate(at)
        )
        for g in range(groups):
            part = slice(g * channels, (g + 1) * channels)
            value = np.einsum("nc...,cf->nf...", x[:, part], w[(part, slice(None), *at)])
            y[(slice(None), slice(g * per, (g + 1) * per), *cut)] += value
    crop = tuple(slice(p, s + a - p) for p, s, a in zip(pad, size, adj))
    y = y[(slice(None), slice(None), *crop)]
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def np_pool(
    x: np.ndarray,
    kernel: Any,
    kind: str,
    *,
    stride: Any = (),
    pad: Any = (),
    convention: str = "valid",
    include: bool = True,
    last: bool = False,
    p: int = 2,
) -> np.ndarray:
    """Return pooling written as a loop over windows."""
    if last:
        x = np.moveaxis(x, -1, 1)
    n = len(kernel)
    stride, pad = _full(stride, n, 1), _full(pad, n, 0)
    size = x.shape[2:]
    rest = [size[i] + 2 * pad[i] - kernel[i] for i in range(n)]
    if convention == "same":
        out = [-(-(size[i] + 2 * pad[i]) // stride[i]) for i in range(n)]
    elif convention == "full":
        out = [-(-rest[i] // stride[i]) + 1 for i in range(n)]
    else:
        out = [rest[i] // stride[i] + 1 for i in range(n)]
    y = np.zeros((*x.shape[:2], *out))
    for at in itertools.product(*map(range, out)):
        start = [a * s - q for a, s, q in zip(at, stride, pad)]
        end = [min(b + k, d + q) for b, k, d, q in zip(start, kernel, size, pad)]
        cut = tuple(slice(max(b, 0), min(e, d)) for b, e, d in zip(start, end, size))
        window = x[(slice(None), slice(None), *cut)]
        window = window.reshape(*x.shape[:2], int(np.prod(window.shape[2:])))
        count = np.prod([e - b for b, e in zip(start, end)]) if include else window.shape[-1]
        if kind == "max":
            value = window.max(-1)
        elif kind == "lp":
            value = np.cbrt((window**3).sum(-1)) if p == 3 else (window**p).sum(-1) ** (1 / p)
        else:
            value = window.sum(-1) / (count if kind == "avg" else 1)
        y[(slice(None), slice(None), *at)] = value
    return np.moveaxis(y, 1, -1) if last else y


def _conv(x: np.ndarray, w: np.ndarray, *bias: np.ndarray, **params: Any) -> Any:
    last = str(params.get("layout", "")).endswith("C")
    filters = w.shape[0]
    kernel = w.shape[1:-1] if last else w.shape[2:]
    window = {k: params[k] for k in ("stride", "dilate", "pad") if k in params}
    return op(
        "Convolution",
        x,
        w,
        *bias,
        kernel=kernel,
        num_filter=filters,
        no_bias=not bias,
        ref=lambda x, w, *b: np_conv(
            x, w, *b, groups=params.get("num_group", 1), last=last, **window
        ),
        **params,
    )


def _deconv(x: np.ndarray, w: np.ndarray, *bias: np.ndarray, **params: Any) -> Any:
    groups = params.get("num_group", 1)
    window = {k: params[k] for k in ("stride", "dilate", "pad", "adj") if k in params}
    return op(
        "Deconvolution",
        x,
        w,
        *bias,
        kernel=w.shape[2:],
        num_filter=w.shape[1] * groups,
        no_bias=not bias,
        ref=lambda x, w, *b: np_deconv(x, w, *b, groups=groups, **window),
        **params,
    )


def _pool(x: np.ndarray, kernel: Any, kind: str, **params: Any) -> Any:
    window = {k: params[k] for k in ("stride", "pad") if k in params}
    return op(
        "Pooling",
        x,
        kernel=kernel,
        pool_type=kind,
        ref=lambda x: np_pool(
            x,
            kernel,
            kind,
            convention=params.get("pooling_convention", "valid"),
            include=params.get("count_include_pad", True),
            last=str(params.get("layout", "")).endswith("C"),
            p=params.get("p_value", 2),
            **window,
        ),
        **params,
    )


_TWO = {"kernel": (2,), "num_filter": 1, "no_bias": True}
_THREE = {"kernel": (3, 3), "num_filter": 3, "stride": (2, 2)}
_DIFFERENCE = np.array([[[-1, -1, -1]]])
_DATA, _WEIGHT, _SQUARE = (2, 3, 7, 6), (4, 3, 3, 3), {"kernel": (2, 2)}
_NAN = rand(1, 1, 4, 4)
_NAN[0, 0, 1, 1] = np.nan

_HUNDREDS = ints([[[100] * 4]], "int8")
_C, _FOUR = "Convolution", {"num_filter": 4, "no_bias": True}
CASES = [
    # Convolution
    _conv(rand(2, 3, 9), rand(4, 3, 3), rand(4)),
    _conv(rand(2, 3, 7, 6), rand(4, 3, 3, 2), rand(4)),
    _conv(rand(2, 3, 7, 6), rand(4, 3, 3, 3), stride=(2, 1), pad=(1, 2)),
    _conv(rand(2, 4, 7, 6), rand(6, 2, 3, 2), rand(6), num_group=2, dilate=(2, 3)),
    _conv(rand(2, 4, 5, 5), rand(4, 1, 3, 3), num_group=4, pad=(1, 1)),
    _conv(rand(1, 2, 4, 5, 6), rand(3, 2, 2, 3, 2), rand(3), stride=(1, 2, 2), pad=(0, 1, 1)),
    _conv(rand(2, 3, 5, 5), rand(5, 3, 1, 1), rand(5)),
    _conv(rand(2, 7, 6, 3), rand(4, 3, 2, 3), rand(4), layout="NHWC", pad=(1, 0), stride=(2, 2)),
    _conv(rand(2, 5, 6, 4), rand(6, 3, 3, 2), layout="NHWC", num_group=2),
    _conv(rand(2, 9, 3), rand(4, 3, 3), rand(4), layout="NWC"),
    _conv(rand(1, 4, 5, 4, 2), rand(3, 2, 2, 2, 2), layout="NDHWC"),
    _conv(rand(2, 3, 5, 5), rand(4, 3, 3, 3), layout="NCHW", workspace=256, cudnn_off=True),
    _conv(rand(0, 3, 5, 5), rand(4, 3, 3, 3), rand(4), grad=False),
    op("Convolution", ints([[[1, 2, 3, 4]]]), ints([[[1, -1]]]), ref=_DIFFERENCE, **_TWO),
    *(
        fails(_C, data, weight, **_FOUR, match=match, **{"kernel": (3, 3), **params})
        for match, data, weight, params in [
            (
                r"data must have shape \(N, C, W\) for kernel \(3,\), got",
                _DATA,
                (4, 3, 3),
                {"kernel": (3,)},
            ),
            (
                r"weight must have shape \(4, 3, 3, 3\) for data .*, got \(4, 2, 3, 3\)",
                _DATA,
                (4, 2, 3, 3),
                {},
            ),
            (
                "extent must be at most that of the padded data, 2, got 3",
                (2, 3, 2, 6),
                _WEIGHT,
                {},
            ),
            ("must be a multiple of num_group 2, got 3", _DATA, _WEIGHT, {"num_group": 2}),
            ("data must have 3 dimensions for layout NCW", _DATA, _WEIGHT, {"layout": "NCW"}),
            (
                r"stride must be from 1 to 2147483647, got \(0, 1\)",
                _DATA,
                _WEIGHT,
                {"stride": (0, 1)},
            ),
        ]
    ),
    # Deconvolution
    _deconv(rand(2, 3, 5), rand(3, 4, 3)),
    _deconv(rand(2, 3, 4, 5), rand(3, 2, 3, 2), rand(2), stride=(2, 3), pad=(1, 0), adj=(1, 2)),
    _deconv(rand(2, 4, 3, 4), rand(4, 3, 2, 3), num_group=2, dilate=(2, 1), pad=(0, 1)),
    _deconv(rand(1, 2, 2, 3, 2), rand(2, 2, 2, 2, 3), stride=(2, 1, 2)),
    op(
        "Deconvolution",
        (1, 2, 4, 4),
        (2, 3, 4, 4),
        kernel=(4, 4),
        num_filter=3,
        stride=(2, 2),
        target_shape=(8, 8),
        ref=lambda x, w: np_deconv(x, w, stride=(2, 2), pad=(1, 1)),
    ),
    op(
        "Deconvolution",
        (1, 3, 4, 2),
        (2, 2, 3, 3),
        kernel=(2, 3),
        num_filter=3,
        layout="NHWC",
        ref=lambda x, w: np.moveaxis(np_deconv(*(np.moveaxis(a, -1, 1) for a in (x, w))), 1, -1),
    ),
    fails(
        "Deconvolution", (1, 2, 4, 4), (2, 3, 3, 3), adj=(2, 0), match=r"adj .* \(2, 0\)", **_THREE
    ),
    # Pooling
    _pool(rand(2, 3, 7, 6), (3, 2), "max"),
    _pool(rand(2, 3, 7, 6), (3, 3), "max", stride=(2, 2), pad=(1, 1)),
    _pool(rand(2, 3, 8, 8), (3, 3), "max", stride=(2, 2), pooling_convention="full"),
    _pool(rand(2, 3, 8, 7), (3, 3), "avg", stride=(2, 3), pad=(1, 1), pooling_convention="full"),
    _pool(rand(2, 3, 8, 7), (3, 3), "avg", stride=(2, 2), pad=(1, 1), count_include_pad=False),
    _pool(rand(2, 3, 8), (3,), "max", stride=(2,), pad=(1,), pooling_convention="same"),
    _pool(rand(2, 3, 9), (4,), "avg", stride=(2,)),
    _pool(rand(2, 3, 5, 6), (2, 3), "sum", stride=(2, 2)),
    _pool(np.abs(rand(2, 3, 5, 6)) + 0.2, (2, 3), "lp", p_value=2),
    _pool(np.abs(rand(2, 3, 5, 6)) + 0.2, (2, 3), "lp", p_value=3, stride=(2, 2)),
    _pool(rand(1, 2, 4, 5, 6), (2, 2, 3), "max", stride=(2, 1, 2)),
    _pool(rand(1, 2, 4, 5, 6), (2, 2, 3), "avg", pad=(1, 1, 1)),
    _pool(rand(2, 5, 6, 3), (2, 2), "max", stride=(2, 2), layout="NHWC"),
    _pool(rand(2, 5, 6, 3), (3, 2), "avg", pad=(1, 1), layout="NHWC"),
    *(  # more channels than the native kernel handles together
        _pool(rand(1, 3, 4, 70), (2, 2), kind, pad=(1, 0), layout="NHWC")
        for kind in ("max", "avg", "sum")
    ),
    _pool(rand(2, 5, 6, 3), (3, 2), "avg", pad=(1, 1), layout="NHWC", count_include_pad=False),
    _pool(rand(0, 3, 4, 4), (2, 2), "max", grad=False),
    op("Pooling", (2, 3, 4, 5), global_pool=True, ref=lambda x: x.max((2, 3), keepdims=True)),
    op(
        "Pooling",
        (2, 3, 4, 5),
        global_pool=True,
        pool_type="avg",
        **_SQUARE,
        pad=(1, 1),
        ref=lambda x: x.mean((2, 3), keepdims=True),
    ),
    # A window with NaN gives NaN.
    no_grad("Pooling", _NAN, **_SQUARE, ref=lambda x: np_pool(x, (2, 2), "max")),
    op("Pooling", ints([[[5, -3, 7, 1]]]), kernel=(2,), stride=(2,), ref=np.array([[[5, 7]]])),
    op("Pooling", ints([[[5, -3, 7]]]), kernel=(2,), pad=(1, 9), ref=np.array([[[5, 5, 7, 7]]])),
    op("Pooling", _HUNDREDS, kernel=(4,), pool_type="avg", ref=np.array([[[100]]])),
    fails(
        "Pooling", (2, 3, 4, 5), **_SQUARE, pad=(2, 0), match=r"pad must be below .*, got \(2, 0\)"
    ),
    fails(
        "Pooling",
        (2, 3, 4, 5),
        **_SQUARE,
        pool_type="lp",
        match="p_value must be 1, 2 or 3 .*, got",
    ),
    fails("Pooling", (2, 3), kernel=(2,), match="got 2 in shape"),
]
