"""Converters of layers: convolution, pooling, normalization, dense, activations, losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from .graph import Shape
from .pointwise import gelu
from .table import Call, converter, rows
from .tensor import clipped

__all__: list[str] = []


def _full(values: Sequence[int], count: int, default: int) -> list[int]:
    """Return one value for each axis, or the default if none are given."""
    return list(values) if values else [default] * count


def _channels_first(c: Call, ndim: int) -> list[int] | None:
    """Return the permutation from the call's layout to channels first; None if they are equal."""
    layout = getattr(c.p, "layout", None)
    if layout is None or layout[1] == "C":
        return None
    return [0, ndim - 1, *range(1, ndim - 1)]


def _transposed(c: Call, value: str, perm: list[int] | None) -> str:
    return value if perm is None else c.op("Transpose", value, perm=perm)


def _restored(c: Call, value: str, perm: list[int] | None) -> str:
    back = None if perm is None else [int(i) for i in np.argsort(perm)]
    return _transposed(c, value, back)


@converter("Convolution")
def _convolution(c: Call) -> str:
    count, perm = len(c.p.kernel), _channels_first(c, c.ndim)
    inputs = [_transposed(c, value, perm) for value in c.x[:2]]
    pads = _full(c.p.pad, count, 0)
    out = c.op(
        "Conv",
        *inputs,
        *c.x[2:],
        kernel_shape=c.p.kernel,
        strides=_full(c.p.stride, count, 1),
        dilations=_full(c.p.dilate, count, 1),
        pads=pads * 2,
        group=c.p.num_group,
    )
    return _restored(c, out, perm)


@converter("Deconvolution")
def _deconvolution(c: Call) -> str:
    count, perm = len(c.p.kernel), _channels_first(c, c.ndim)
    stride, dilate = _full(c.p.stride, count, 1), _full(c.p.dilate, count, 1)
    pads, adjusted = _full(c.p.pad, count, 0), _full(c.p.adj, count, 0)
    if c.p.target_shape and any(c.p.target_shape):
        first = 1 if perm else 2
        for i, wanted in enumerate(c.p.target_shape):
            size = (c.extent(0, first + i) - 1) * stride[i] + (c.p.kernel[i] - 1) * dilate[i] + 1
            pads[i], adjusted[i] = (size - wanted + 1) // 2, (size - wanted) % 2
    out = c.op(
        "ConvTranspose",
        *[_transposed(c, value, perm) for value in c.x[:2]],
        *c.x[2:],
        kernel_shape=c.p.kernel,
        strides=stride,
        dilations=dilate,
        pads=pads * 2,
        output_padding=adjusted,
        group=c.p.num_group,
    )
    return _restored(c, out, perm)


def _pool_extra(c: Call, perm: list[int] | None) -> tuple[list[int], list[int], list[int]]:
    """Return the padding that the output needs at the end of each axis; input and output sizes."""
    count, first = len(c.p.kernel), 1 if perm else 2
    strides, pads = _full(c.p.stride, count, 1), _full(c.p.pad, count, 0)
    extra, sizes, out_sizes = [], [], []
    for i in range(count):
        free = not isinstance(c.shapes[0][first + i], int)
        if free and c.p.pooling_convention == "valid":
            extra.append(0)
            continue
        size, out = c.extent(0, first + i), c.out_shapes[0][first + i]
        assert isinstance(out, int)
        needed = (out - 1) * strides[i] + c.p.kernel[i] - size - 2 * pads[i]
        extra.append(max(0, needed))
        sizes.append(size)
        out_sizes.append(out)
    return extra, sizes, out_sizes


@converter("Pooling")
def _pooling(c: Call) -> str:
    perm = _channels_first(c, c.ndim)
    x, kind, count = _transposed(c, c.x[0], perm), c.p.pool_type, c.ndim - 2
    if kind == "lp" and c.p.p_value != 2:
        raise c.refuse(f"p_value {c.p.p_value} has no equivalent, because ONNX takes magnitudes")
    if c.p.global_pool:
        ops = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}
        if kind == "sum":
            out = c.g.reduce("ReduceSum", x, list(range(2, c.ndim)), True)
        else:
            out = c.op(ops[kind], x, p=c.p.p_value if kind == "lp" else None)
        return _restored(c, out, perm)
    extra, sizes, out_sizes = _pool_extra(c, perm)
    pads, strides = _full(c.p.pad, count, 0)[:count], _full(c.p.stride, count, 1)
    shared = {
        "kernel_shape": c.p.kernel,
        "strides": strides,
        "pads": [*pads, *(p + e for p, e in zip(pads, extra))],
    }
    with_padding = kind == "sum" or c.p.count_include_pad in (None, True)
    if kind == "max":
        out = c.op("MaxPool", x, **shared)
    elif kind == "lp":
        out = c.op("LpPool", x, p=c.p.p_value, **shared)
    else:
        out = c.op("AveragePool", x, count_include_pad=int(with_padding), **shared)
    window = math.prod(c.p.kernel)
    if kind == "sum":
        out = c.op("Mul", out, c.const(window))
    elif kind == "avg" and with_padding and any(extra):
        # The divisor counts padding, but not the extra padding that the output size needs.
        counts = np.ones(())
        for i, (size, out_size) in enumerate(zip(sizes, out_sizes)):
            begin = np.arange(out_size) * strides[i] - pads[i]
            end = np.minimum(begin + c.p.kernel[i], size + pads[i])
            counts = counts[..., None] * (end - begin)
        out = c.op("Mul", out, c.const((window / counts)[None, None]))
    return _restored(c, out, perm)


@converter("_contrib_AdaptiveAvgPooling2D")
def _adaptive_pooling(c: Call) -> str:
    size = c.p.output_size
    target = [size] * 2 if isinstance(size, int) else (list(size) * 2)[:2] if size else [1, 1]
    if target == [1, 1]:
        return c.op("GlobalAveragePool", c.x[0])

    def weights(axis: int) -> np.ndarray:
        extent, out = c.extent(0, axis), target[axis - 2]
        matrix = np.zeros((out, extent))
        for i in range(out):
            begin, end = i * extent // out, -(-(i + 1) * extent // out)
            matrix[i, begin:end] = 1 / (end - begin)
        return matrix

    narrowed = c.op("MatMul", c.const(weights(2)), c.x[0])
    return c.op("MatMul", narrowed, c.const(weights(3).T))


def _channel_axis(c: Call, axis: int) -> list[int] | None:
    axis %= c.ndim
    if axis == 1 or c.ndim == 1:
        return None
    return [0, axis, *(i for i in range(1, c.ndim) if i != axis)]


@converter("BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def _batch_norm(c: Call) -> str:
    perm = _channel_axis(c, getattr(c.p, "axis", 1))
    x, gamma, *rest = c.x
    if c.p.fix_gamma:
        gamma = c.const(np.ones(c.static(1)), c.dtypes[1])
    out = c.op("BatchNormalization", _transposed(c, x, perm), gamma, *rest, epsilon=c.p.eps)
    if c.node.call.name == "_contrib_BatchNormWithReLU":
        out = c.op("Relu", out)
    return _restored(c, out, perm)


def _moments(c: Call, x: str, axes: list[int], eps: float) -> tuple[str, str]:
    """Return the centered values, and one divided by their standard deviation."""
    centered = c.op("Sub", x, c.g.reduce("ReduceMean", x, axes, True))
    variance = c.g.reduce("ReduceMean", c.op("Mul", centered, centered), axes, True)
    deviation = c.op("Sqrt", c.op("Add", variance, c.const(eps)))
    return centered, c.op("Reciprocal", deviation)


@converter("LayerNorm")
def _layer_norm(c: Call) -> str:
    """Convert LayerNorm; the normalized axis is made the last one."""
    axis = c.p.axis % c.ndim
    perm = None
    if axis != c.ndim - 1:
        perm = [*(i for i in range(c.ndim) if i != axis), axis]
    x = _transposed(c, c.x[0], perm)
    if c.g.opset >= 17:
        out = c.op("LayerNormalization", x, *c.x[1:], axis=-1, epsilon=c.p.eps)
    else:
        centered, scale = _moments(c, x, [c.ndim - 1], c.p.eps)
        scaled = c.op("Mul", c.op("Mul", centered, scale), c.x[1])
        out = c.op("Add", scaled, c.x[2])
    return _restored(c, out, perm)


def _per_channel(c: Call, value: str) -> str:
    return c.g.reshape(value, (-1, *[1] * (c.ndim - 2)))


@converter("GroupNorm")
def _group_norm(c: Call) -> str:
    groups, (batch, channels) = c.p.num_groups, c.shapes[0][:2]
    if not isinstance(channels, int):
        raise c.refuse("the number of channels must be fixed, got a free dimension")
    if isinstance(batch, int):
        grouped = c.g.reshape(c.x[0], (batch, groups, -1))
    else:
        grouped = c.op("Reshape", c.x[0], c.g.const([0, groups, -1]))
    ones, zeros = (c.const(np.full(groups, value)) for value in (1, 0))
    if c.shapes[1][0] == groups:  # one factor for each group
        ones, zeros = c.x[1:]
    normal = c.op("InstanceNormalization", grouped, ones, zeros, epsilon=c.p.eps)
    back: str = c.op("Reshape", normal, c.op("Shape", c.x[0]))
    if c.shapes[1][0] == groups:
        return back
    scaled = c.op("Mul", back, _per_channel(c, c.x[1]))
    return c.op("Add", scaled, _per_channel(c, c.x[2]))


@converter("InstanceNorm")
def _instance_norm(c: Call) -> str:
    return c.op("InstanceNormalization", *c.x, epsilon=c.p.eps)


@converter("LRN")
def _lrn(c: Call) -> str:
    return c.op("LRN", c.x[0], size=c.p.nsize, alpha=c.p.alpha, beta=c.p.beta, bias=c.p.knorm)


@converter("L2Normalization")
def _l2_normalization(c: Call) -> str:
    axes = {
        "instance": list(range(1, c.ndim)),
        "channel": [1],
        "spatial": list(range(2, c.ndim)),
    }[c.p.mode]
    total = c.g.reduce("ReduceSum", c.op("Mul", c.x[0], c.x[0]), axes, True)
    return c.op("Div", c.x[0], c.op("Sqrt", c.op("Add", total, c.const(c.p.eps))))


@converter("FullyConnected")
def _fully_connected(c: Call) -> str:
    x = c.x[0]
    if c.p.flatten or c.ndim == 2:
        if c.ndim != 2:
            x = c.op("Flatten", x, axis=1)
        return c.op("Gemm", x, *c.x[1:], transB=1)
    out = c.op("MatMul", x, c.op("Transpose", c.x[1], perm=[1, 0]))
    return out if len(c.x) == 2 else c.op("Add", out, c.x[2])


_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}


@converter("Activation")
def _activation(c: Call) -> str:
    return c.op(_ACTIVATIONS[c.p.act_type], c.x[0])


@converter("LeakyReLU")
def _leaky_relu(c: Call) -> str:
    kind = c.p.act_type
    if kind in ("gelu", "gelu_tanh"):
        return gelu(c, c.x[0], c.dtype, kind == "gelu_tanh")
    if kind == "prelu":
        slope, size = c.x[1], c.shapes[1]
        if c.ndim > 2:  # one slope for each channel, or for each entry of the first two axes
            slope = c.g.reshape(slope, (*size, *[1] * (c.ndim - 2)))
        return c.op("PRelu", c.x[0], slope)
    if kind == "selu":
        return c.op("Selu", c.x[0])
    if kind == "rrelu":
        return c.op("LeakyRelu", c.x[0], alpha=(c.p.lower_bound + c.p.upper_bound) / 2)
    return c.op({"elu": "Elu", "leaky": "LeakyRelu"}[kind], c.x[0], alpha=c.p.slope)


def _softmax(op: str, negated: bool, c: Call) -> str:
    x, dtype, axis = c.cast(0, c.dtype), c.dtype, c.p.axis % c.ndim
    if negated:
        x = c.op("Neg", x)
    if c.p.temperature:
        x = c.op("Div", x, c.const(c.p.temperature))
    if not c.p.use_length:
        return c.op(op, x, axis=axis)
    outside = c.op("GreaterOrEqual", *_positions(c, axis))
    x = c.op("Where", outside, c.const(-np.inf, dtype), x)
    return c.op("Where", outside, c.const(0, dtype), c.op(op, x, axis=axis))


def _positions(c: Call, axis: int) -> tuple[str, str]:
    """Return positions along the axis, and the lengths, which both broadcast to the data."""
    positions = np.arange(c.extent(0, axis)).reshape([-1, *[1] * (c.ndim - 1 - axis)])
    return c.g.const(positions), c.g.unsqueeze(c.cast(1, "int64"), axis)


rows(
    (name, partial(_softmax, op, negated))
    for name, op, negated in (
        ("softmax", "Softmax", False),
        ("log_softmax", "LogSoftmax", False),
        ("softmin", "Softmax", True),
    )
)


def _flat_softmax(c: Call, x: str) -> str:
    if c.ndim == 2:
        return c.op("Softmax", x, axis=1)
    return c.g.reshape(c.op("Softmax", c.op("Flatten", x, axis=1), axis=1), c.out_shapes[0])


@converter("SoftmaxOutput")
def _softmax_output(c: Call) -> str:
    if c.p.multi_output:
        return c.op("Softmax", c.x[0], axis=1)
    return c.op("Softmax", c.x[0], axis=-1) if c.p.preserve_shape else _flat_softmax(c, c.x[0])


@converter("SoftmaxActivation")
def _softmax_activation(c: Call) -> str:
    if c.p.mode == "channel":
        return c.op("Softmax", c.x[0], axis=1)
    return _flat_softmax(c, c.x[0])


@converter("UpSampling")
def _up_sampling(c: Call) -> str | list[str]:
    scale = c.p.scale
    if c.p.sample_type == "bilinear":
        return c.op(
            "ConvTranspose",
            *c.x,
            strides=[scale] * 2,
            pads=[math.ceil((scale - 1) / 2)] * 4,
            group=c.p.num_filter,
        )
    parts = []
    for value, shape in zip(c.x, c.shapes):
        own = scale if len(c.x) == 1 else _factor(c, shape)
        sizes = c.g.const([1, 1, own, own], "float32")
        mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        parts.append(c.op("Resize", value, "", sizes, mode="nearest", **mode))
    if len(parts) == 1:
        return parts
    return c.op("Sum", *parts) if c.p.multi_input_mode == "sum" else c.op("Concat", *parts, axis=1)


def _factor(c: Call, shape: Shape) -> int:
    extent, out = shape[2], c.out_shapes[0][2]
    if not isinstance(extent, int) or not isinstance(out, int):
        raise c.refuse("the sizes of several inputs must be fixed, got free dimensions")
    return out // extent


@converter("_contrib_BilinearResize2D")
def _bilinear_resize(c: Call) -> str:
    aligned = c.p.align_corners
    sizes = c.g.dims(c.out_shapes[0])
    mode = "align_corners" if aligned else "half_pixel"
    return c.op("Resize", c.x[0], "", "", sizes, mode="linear", coordinate_transformation_mode=mode)


@converter("Embedding")
def _embedding(c: Call) -> str:
    indices = clipped(c, c.cast(0, "int64"), c.p.input_dim)
    return c.g.cast(c.op("Gather", c.x[1], indices), c.dtypes[1], c.dtype)


@converter("SequenceMask")
def _sequence_mask(c: Call) -> str:
    if not c.p.use_sequence_length:
        return c.x[0]
    outside = c.op("GreaterOrEqual", *_time_positions(c))
    return c.op("Where", outside, c.const(c.p.value), c.x[0])


def _time_positions(c: Call) -> tuple[str, str]:
    """Return positions along time, which is axis 0 or 1, and the lengths."""
    steps = np.arange(c.extent(0, c.p.axis))
    positions = steps[:, None] if c.p.axis == 0 else steps[None, :]
    trailing = list(range(2, c.ndim))
    lengths = c.g.unsqueeze(c.cast(1, "int64"), c.p.axis, *trailing)
    return c.g.const(positions.reshape(positions.shape + (1,) * len(trailing))), lengths


@converter("SequenceReverse")
def _sequence_reverse(c: Call) -> str:
    if not c.p.use_sequence_length:
        last = -c.extent(0, 0) - 1
        return c.g.slice(c.x[0], [0], [-1], [last], [-1])
    return c.op("ReverseSequence", c.x[0], c.cast(1, "int64"), time_axis=0, batch_axis=1)


@converter("SequenceLast")
def _sequence_last(c: Call) -> str:
    if not c.p.use_sequence_length:
        return c.op("Gather", c.x[0], c.g.const(-1), axis=c.p.axis)
    batch_first = c.x[0]
    if c.p.axis == 0:
        batch_first = c.op("Transpose", c.x[0], perm=[1, 0, *range(2, c.ndim)])
    last = c.op("Sub", c.cast(1, "int64"), c.g.const(1))
    return c.op("GatherND", batch_first, c.g.unsqueeze(last, -1), batch_dims=1)
