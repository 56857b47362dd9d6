"""Converters of layers: convolution, pooling, normalization, products, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .pointwise import binary, scalar
from .table import Node, Value, constant, converter, rows

__all__ = ["convolution_params"]


def _padding(n: Node, spatial: list[int], kernel: list[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and behind each spatial axis."""
    count = len(kernel)
    strides = n.get("strides") or [1] * count
    dilations = n.get("dilations") or [1] * count
    mode = n.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return [0] * count, [0] * count
    if mode == "NOTSET":
        pads = n.get("pads") or [0] * (2 * count)
        return list(pads[:count]), list(pads[count:])
    before, behind = [], []
    for size, k, stride, dilation in zip(spatial, kernel, strides, dilations):
        out = -(-size // stride)
        total = max(0, (out - 1) * stride + (k - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        behind.append(large if mode == "SAME_UPPER" else small)
    return before, behind


def _spatial(n: Node, value: Value) -> list[int]:
    if value.sizes[0][2:] != value.sizes[1][2:] and n.get("auto_pad", "NOTSET") != "NOTSET":
        raise n.refuse("spatial dimensions must be fixed for auto_pad; give input_shapes")
    return list(value.shape[2:])


def _padded(
    n: Node, x: Value, before: list[int], behind: list[int], fill: float
) -> tuple[Value, list[int]]:
    """Return data and symmetric padding; unequal padding becomes part of the data."""
    if before == behind:
        return x, before
    return _pad(n, x, before, behind, fill), [0] * len(before)


def _pad(n: Node, x: Value, before: list[int], behind: list[int], fill: float) -> Value:
    widths = [0, 0, 0, 0]
    for pair in zip(before, behind):
        widths += pair
    if x.ndim == 3:  # adds an axis, because mxlite pads only images and volumes
        grown = n.reshape(x, tuple((*s[:2], 1, *s[2:]) for s in x.sizes))  # type: ignore[arg-type]
        widths[4:4] = [0, 0]
        out = n.mx("Pad", grown, mode="constant", pad_width=tuple(widths), constant_value=fill)
        return n.reshape(out, tuple((*s[:2], *s[3:]) for s in out.sizes))  # type: ignore[arg-type]
    return n.mx("Pad", x, mode="constant", pad_width=tuple(widths), constant_value=fill)


def convolution_params(n: Node, pad: Sequence[int], weight: Value) -> dict[str, Any]:
    """Return the parameters of mxlite's Convolution for a Conv with symmetric padding."""
    return {
        "kernel": tuple(n.get("kernel_shape") or weight.shape[2:]),
        "stride": tuple(n.get("strides") or ()),
        "dilate": tuple(n.get("dilations") or ()),
        "pad": tuple(pad),
        "num_filter": weight.shape[0],
        "num_group": n.get("group", 1),
    }


@converter("Conv")
def _conv(n: Node) -> Value:
    x, weight = n.x[:2]
    kernel = list(n.get("kernel_shape") or weight.shape[2:])
    before, behind = _padding(n, _spatial(n, x), kernel)
    x, pad = _padded(n, x, before, behind, 0.0)
    params = convolution_params(n, pad, weight)
    return n.mx("Convolution", x, *n.x[1:], no_bias=not n.has(2), **params)


@converter("ConvTranspose")
def _conv_transpose(n: Node) -> Value:
    x, weight = n.x[:2]
    kernel = list(n.get("kernel_shape") or weight.shape[2:])
    count, group = len(kernel), n.get("group", 1)
    strides = list(n.get("strides") or [1] * count)
    dilations = list(n.get("dilations") or [1] * count)
    extra = list(n.get("output_padding") or [0] * count)
    pads = list(n.get("pads") or [0] * (2 * count))
    spatial, shape, mode = list(x.shape[2:]), n.get("output_shape"), n.get("auto_pad", "NOTSET")
    if shape or mode.startswith("SAME"):
        shape = list(shape or [size * stride for size, stride in zip(spatial, strides)])
        for i in range(count):
            full = strides[i] * (spatial[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = max(0, full - shape[-count + i])
            extra[i] += max(0, shape[-count + i] - full)
            first = total // 2 if mode == "SAME_UPPER" else total - total // 2
            pads[i], pads[count + i] = first, total - first
    before, behind = pads[:count], pads[count:]
    cut = [(b - min(b, e), e - min(b, e)) for b, e in zip(before, behind)]
    adjusted = [min(e, stride - 1) for e, stride in zip(extra, strides)]
    out = n.mx(
        "Deconvolution", x, *n.x[1:],
        kernel=tuple(kernel),
        stride=tuple(strides),
        dilate=tuple(dilations),
        pad=tuple(min(b, e) for b, e in zip(before, behind)),
        adj=tuple(adjusted),
        num_filter=weight.shape[1] * group,
        num_group=group,
        no_bias=not n.has(2),
    )  # fmt: skip
    if adjusted != extra:
        raise n.refuse(f"output_padding must be below the strides {strides}, got {extra}")
    for axis, (first, last) in enumerate(cut, 2):
        if first or last:
            out = n.mx("slice_axis", out, axis=axis, begin=first, end=-last or None)
    return out


def _pool(kind: str, n: Node) -> Value | list[Value]:
    x = n.x[0]
    if n.count > 1:
        raise n.refuse("the second output, Indices, has no equivalent")
    kernel = list(n.get("kernel_shape"))
    strides = list(n.get("strides") or [1] * len(kernel))
    before, behind = _padding(n, _spatial(n, x), kernel)
    with_padding = bool(n.get("count_include_pad", 0))
    convention = "valid"
    composed = any(d != 1 for d in n.get("dilations") or ()) or (kind == "lp" and n.get("p", 2) > 3)
    if n.get("ceil_mode", 0):
        for size, k, stride, b, e in zip(x.shape[2:], kernel, strides, before, behind):
            rest = (size + b + e - k) % stride
            composed = composed or bool(rest and kind == "avg" and with_padding)
            if rest:
                convention = "full"
    dtype = x.dtype
    if dtype.startswith(("int", "uint")):
        x = n.cast(x, "float32")
    if kind == "lp":
        x = n.mx("abs", x)
    if composed:
        return n.cast(_composed_pool(kind, n, x, before, behind), dtype)
    options: dict[str, Any] = {
        "kernel": tuple(kernel),
        "stride": tuple(strides),
        "pool_type": kind,
        "p_value": n.get("p", 2) if kind == "lp" else None,
        "pooling_convention": convention,
    }
    if convention == "full":  # the last windows must begin inside the data or its padding
        if x.sizes[0][2:] != x.sizes[1][2:]:
            raise n.refuse("spatial dimensions must be fixed for ceil_mode; give input_shapes")
        for i, (size, k, stride) in enumerate(zip(x.shape[2:], kernel, strides)):
            padded = size + before[i] + behind[i]
            out = -(-(padded - k) // stride) + 1
            if (out - 1) * stride >= size + before[i]:
                out -= 1
            behind[i] = max(behind[i], (out - 1) * stride + k - size - before[i])
        options["pooling_convention"] = "valid"
    if before == behind:
        out_value = n.mx("Pooling", x, pad=tuple(before), count_include_pad=with_padding, **options)
    elif kind == "avg" and not with_padding:
        total = n.mx("Pooling", _pad(n, x, before, behind, 0.0), **{**options, "pool_type": "sum"})
        ones = n.mx("ones_like", x)
        counts = n.mx("Pooling", _pad(n, ones, before, behind, 0.0),
                      **{**options, "pool_type": "sum"})  # fmt: skip
        out_value = binary(n, "Div", total, counts)
    else:
        fill = -np.finfo(np.float32).max if kind == "max" else 0.0
        out_value = n.mx("Pooling", _pad(n, x, before, behind, float(fill)), **options)
    return n.cast(out_value, dtype)


def _composed_pool(kind: str, n: Node, x: Value, before: list[int], behind: list[int]) -> Value:
    """Return pooling as an operation on slices of the data, one for each element of a window."""
    if x.sizes[0][2:] != x.sizes[1][2:]:
        raise n.refuse("spatial dimensions must be fixed for this pooling; give input_shapes")
    kernel = list(n.get("kernel_shape"))
    strides, dilations = (n.get(key) or [1] * len(kernel) for key in ("strides", "dilations"))
    outs, longer, counts = [], [], []
    for size, k, stride, dilation, b, e in zip(
        x.shape[2:], kernel, strides, dilations, before, behind
    ):
        reach = (k - 1) * dilation + 1
        out = (size + b + e - reach) // stride + 1
        if n.get("ceil_mode", 0):
            out = -(-(size + b + e - reach) // stride) + 1
            out -= (out - 1) * stride >= size + b  # the last window must begin inside
        outs.append(out)
        longer.append(max(0, (out - 1) * stride + reach - size - b))
        places = np.arange(out)[:, None] * stride + np.arange(k) * dilation
        first, last = (0, size + b + e) if n.get("count_include_pad", 0) else (b, b + size)
        counts.append(((places >= first) & (places < last)).sum(1))
    fill = -float(np.finfo(np.float32).max) if kind == "max" else 0.0
    power = float(n.get("p", 2))
    if kind == "lp":
        x = scalar(n, "power", x, power)
    if any((*before, *longer)):
        x = _pad(n, x, before, longer, fill)
    parts = []
    for offsets in product(*(range(0, k * d, d) for k, d in zip(kernel, dilations))):
        ends = [o + (out - 1) * s + 1 for o, out, s in zip(offsets, outs, strides)]
        parts.append(n.mx("slice", x, begin=(None, None, *offsets), end=(None, None, *ends),
                          step=(1, 1, *strides)))  # fmt: skip
    total = reduce(partial(binary, n, "Max" if kind == "max" else "Add"), parts)
    if kind == "lp":
        return scalar(n, "power", total, 1 / power)
    if kind == "avg":
        number = reduce(np.multiply.outer, counts).astype(x.dtype)
        return binary(n, "Div", total, constant(number[None, None]))
    return total


def _global_pool(kind: str, n: Node) -> Value:
    return n.mx("Pooling", n.x[0], kernel=(1,) * (n.x[0].ndim - 2), global_pool=True,
                pool_type=kind, p_value=n.get("p", 2) if kind == "lp" else None)  # fmt: skip


for _name, _kind in (("Max", "max"), ("Average", "avg"), ("Lp", "lp")):
    rows(
        [
            (f"{_name}Pool", partial(_pool, _kind)),
            (f"Global{_name}Pool", partial(_global_pool, _kind)),
        ]
    )


@converter("BatchNormalization")
def _batch_norm(n: Node) -> Value:
    if n.get("training_mode", 0) or n.count > 1:
        raise n.refuse("training_mode must be 0, got 1")
    x = n.x[0]
    return n.mx(
        "BatchNorm", *n.x, sizes=x.sizes, eps=n.get("epsilon", 1e-5),
        momentum=n.get("momentum", 0.9), fix_gamma=False,
    )  # fmt: skip


@converter("InstanceNormalization")
def _instance_norm(n: Node) -> Value:
    return n.mx("InstanceNorm", *n.x, eps=n.get("epsilon", 1e-5))


def _normalized(n: Node, x: Value, axes: list[int], eps: float) -> tuple[Value, Value, Value]:
    """Return normalized values, means, and one divided by standard deviations."""
    mean = n.mx("mean", x, axis=tuple(axes), keepdims=True)
    centered = binary(n, "Sub", x, mean)
    variance = n.mx("mean", n.mx("square", centered), axis=tuple(axes), keepdims=True)
    scale = n.mx("rsqrt", n.mx("_plus_scalar", variance, scalar=eps))
    return binary(n, "Mul", centered, scale), mean, scale


@converter("LayerNormalization")
def _layer_norm(n: Node) -> Value | list[Value]:
    x, scale = n.x[:2]
    axis, eps = n.get("axis", -1) % n.x[0].ndim, n.get("epsilon", 1e-5)
    if axis == x.ndim - 1 and n.count == 1 and scale.shape == x.shape[-1:]:
        bias = n.x[2] if n.has(2) else n.const(np.zeros(scale.shape), scale.dtype)
        return n.mx("LayerNorm", x, scale, bias, sizes=x.sizes, axis=-1, eps=eps)
    normal, mean, inverse = _normalized(n, x, list(range(axis, x.ndim)), eps)
    out = binary(n, "Mul", normal, scale)
    if n.has(2):
        out = binary(n, "Add", out, n.x[2])
    return [out, mean, inverse][: n.count]


@converter("GroupNormalization")
def _group_norm(n: Node) -> Value:
    x, scale, bias = n.x
    groups = n.get("num_groups")
    if n.opset < 21:  # one factor for each group
        channels = x.shape[1]
        scale, bias = (n.mx("repeat", v, repeats=channels // groups, axis=0) for v in (scale, bias))
    sizes = tuple((s[0], groups, prod(s[1:]) // groups) for s in x.sizes)
    grouped = n.reshape(x, sizes)  # type: ignore[arg-type]
    normal = _normalized(n, grouped, [2], n.get("epsilon", 1e-5))[0]
    back = n.mx("reshape_like", normal, x, sizes=x.sizes)
    shape = (1, -1, *[1] * (x.ndim - 2))
    first = binary(n, "Mul", back, n.mx("Reshape", scale, shape=shape))
    return binary(n, "Add", first, n.mx("Reshape", bias, shape=shape))


@converter("MeanVarianceNormalization")
def _mean_variance(n: Node) -> Value:
    return _normalized(n, n.x[0], n.get("axes", [0, 2, 3]), 1e-18)[0]


@converter("LRN")
def _lrn(n: Node) -> Value:
    return n.mx("LRN", n.x[0], nsize=n.get("size"), alpha=n.get("alpha", 1e-4),
                beta=n.get("beta", 0.75), knorm=n.get("bias", 1.0))  # fmt: skip


@converter("LpNormalization")
def _lp_normalization(n: Node) -> Value:
    size = n.mx("norm", n.x[0], ord=n.get("p", 2), axis=n.get("axis", -1), keepdims=True)
    return binary(n, "Div", n.x[0], scalar(n, "maximum", size, float(np.finfo(n.x[0].dtype).tiny)))


def _softmax(op: str, n: Node) -> Value:
    x = n.x[0]
    if n.opset >= 13:
        return n.mx(op, x, sizes=x.sizes, axis=n.get("axis", -1))
    axis = n.get("axis", 1) % max(1, x.ndim)
    if axis == x.ndim - 1:
        return n.mx(op, x, sizes=x.sizes, axis=axis)
    sizes = tuple((prod(s[:axis]), prod(s[axis:])) for s in x.sizes)
    flat = n.mx(op, n.reshape(x, sizes), axis=-1)  # type: ignore[arg-type]
    return n.mx("reshape_like", flat, x, sizes=x.sizes)


rows([("Softmax", partial(_softmax, "softmax")), ("LogSoftmax", partial(_softmax, "log_softmax"))])


@converter("Hardmax")
def _hardmax(n: Node) -> Value:
    x = n.x[0]
    axis = n.get("axis", -1 if n.opset >= 13 else 1) % x.ndim
    if n.opset < 13 and axis != x.ndim - 1:
        raise n.refuse("axis must be the last one before opset 13")
    return n.cast(n.mx("topk", x, axis=axis, k=1, ret_typ="mask"), x.dtype)


@converter("MatMul")
def _matmul(n: Node) -> Value:
    a, b = n.x
    if a.ndim == 1 and b.ndim == 1:
        return n.mx("dot", a, b, sizes=((), ()))
    if b.ndim == 2 and a.ndim > 1 and b.trainable:
        # Uses the operator of a dense layer, whose weight has the shape (units, inputs).
        turned = n.mx("transpose", b, axes=(1, 0))
        return n.mx("FullyConnected", a, turned, num_hidden=b.shape[1], no_bias=True,
                    flatten=False)  # fmt: skip
    return n.mx("_matmul", a, b)


@converter("Gemm")
def _gemm(n: Node) -> Value:
    a, b = n.x[:2]
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    if n.get("transA", 0):
        a = n.mx("transpose", a, axes=(1, 0))
    plain = alpha == 1 and beta == 1 and (not n.has(2) or n.x[2].ndim == 1)
    rows_of_weight = b if n.get("transB", 0) else n.mx("transpose", b, axes=(1, 0))
    units = rows_of_weight.shape[0]
    if plain and (not n.has(2) or n.x[2].shape == (units,)):
        return n.mx("FullyConnected", a, rows_of_weight, *n.x[2:], num_hidden=units,
                    no_bias=not n.has(2))  # fmt: skip
    out = n.mx("FullyConnected", a, rows_of_weight, num_hidden=units, no_bias=True)
    if alpha != 1:
        out = n.mx("_mul_scalar", out, scalar=alpha)
    if not n.has(2):
        return out
    return binary(n, "Add", out, n.mx("_mul_scalar", n.x[2], scalar=beta))


@converter("Det")
def _det(n: Node) -> Value:
    return n.mx("linalg_det", n.x[0], sizes=tuple(s[:-2] for s in n.x[0].sizes))  # type: ignore[arg-type]


@converter("MaxRoiPool")
def _max_roi_pool(n: Node) -> Value:
    return n.mx("ROIPooling", *n.x, pooled_size=tuple(n.get("pooled_shape")),
                spatial_scale=n.get("spatial_scale", 1.0))  # fmt: skip


@converter("RoiAlign")
def _roi_align(n: Node) -> Value:
    x, rois, batch = n.x
    if n.get("mode", "avg") != "avg":
        raise n.refuse(f"mode must be 'avg', got {n.get('mode')!r}")
    column = n.mx("expand_dims", n.cast(batch, rois.dtype), axis=1)
    fallback = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    return n.mx(
        "_contrib_ROIAlign", x, n.mx("Concat", column, rois, dim=1),
        pooled_size=(n.get("output_height", 1), n.get("output_width", 1)),
        spatial_scale=n.get("spatial_scale", 1.0),
        sample_ratio=n.get("sampling_ratio", 0) or -1,
        aligned=n.get("coordinate_transformation_mode", fallback) == "half_pixel",
    )  # fmt: skip
