"""Converters of quantized layers to float layers between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np

from ..tables import FULL_SCALE
from ..zero_points import change_zero_points
from .graph import Graph
from .pointwise import gelu
from .table import CONVERTERS, Call, converter, rows

__all__ = ["store_as_uint8"]


def _quantized(c: Call, value: str, unit: float) -> list[str]:
    """Return a float value in the dtype of the call's first output, and the ends of its range."""
    out = c.op("QuantizeLinear", value, c.const(unit, "float32"), c.const(0))
    c.g.units[out] = unit
    end = unit * FULL_SCALE[c.dtype]
    low = 0.0 if c.dtype == "uint8" else -end
    return [out, c.const([low], "float32"), c.const([end], "float32")]


def _calibrated(c: Call) -> list[float]:
    low, high = c.p.min_calib_range, c.p.max_calib_range
    if low is None:
        raise c.refuse(
            "it has no equivalent without a range; quantize with calib_mode naive or entropy"
        )
    return [low, high]


def _unit(c: Call) -> float:
    """Return the float that the quantized value 1 of the call's output represents."""
    return max(map(abs, _calibrated(c))) / FULL_SCALE[c.dtype]


def _unit_of(c: Call, index: int) -> float:
    """Return the scale of a quantized input: float value = scale * quantized value."""
    unit = c.g.units.get(c.x[index])
    if unit is None:
        raise c.refuse(f"input {index} has no equivalent, because its range is not constant")
    return unit


def _float(c: Call, index: int) -> str:
    """Return an int8 input as float32."""
    unit = c.const(_unit_of(c, index), "float32")
    return c.op("DequantizeLinear", c.x[index], unit, c.const(0, c.dtypes[index]))


def _as(c: Call, op: str, inputs: list[str], dtypes: list[str], out_dtype: str) -> str:
    """Convert the call as if it were the operator ``op`` on these inputs."""
    call = copy(c)
    call.x, call.shapes = inputs, c.shapes[: len(inputs)]
    call.dtypes, call.out_dtypes = dtypes, [out_dtype]
    out = CONVERTERS[op](call)
    return out if isinstance(out, str) else out[0]


def _on_floats(c: Call, op: str, inputs: list[str]) -> str:
    """Convert the call as if it were the operator ``op`` on these float values."""
    return _as(c, op, inputs, ["float32"] * len(inputs), "float32")


@converter("_contrib_quantize_v2")
def _quantize(c: Call) -> list[str]:
    return _quantized(c, c.x[0], _unit(c))


@converter("_contrib_dequantize")
def _dequantize(c: Call) -> str:
    return _float(c, 0)


def _fused(c: Call, op: str) -> str | list[str]:
    """Convert data, weight[, bias], weight_scale, min_data, max_data[, sum]."""
    at = 2 if c.p.no_bias else 3  # position of weight_scale
    scales, bias = c.value_of(at), None if c.p.no_bias else c.value_of(2)
    assert scales is not None
    if op == "FullyConnected" and not c.p.flatten and c.ndim > 2:
        out = _along_last_axis(c, scales, bias)
    else:
        out = _on_floats(c, op, _operands(c, scales, bias))
    is_quantized = c.p.min_calib_range is not None
    if c.p.with_sum:
        if is_quantized and op == "Convolution" and c.p.act_type != "gelu":
            out = _narrowed(c, out, at + 3)
        out = c.op("Add", out, _float(c, at + 3) if is_quantized else c.x[at + 3])
    if c.p.with_act:
        out = _activated(c, out, _unit(c) if is_quantized else None)
    return _quantized(c, out, _unit(c)) if is_quantized else out


def _operands(c: Call, scales: np.ndarray, bias: np.ndarray | None) -> list[str]:
    """Return data, weight[, bias] as floats."""
    weight = c.op("DequantizeLinear", c.x[1], c.const(scales, "float32"), axis=0)
    inputs = [_float(c, 0), weight]
    if bias is not None:  # runtimes expect int32, scaled like the sums of products
        units = (_unit_of(c, 0) * scales).astype(np.float32)
        whole = np.clip(np.rint(bias / units), -(2.0**31), 2.0**31 - 128)
        given = [c.const(whole.astype(np.int32), "int32"), c.const(units, "float32")]
        inputs.append(c.op("DequantizeLinear", *given, axis=0))
    return inputs


def _along_last_axis(c: Call, scales: np.ndarray, bias: np.ndarray | None) -> str:
    """Return the sums of products along the last axis, plus the bias.

    ONNX Runtime multiplies int8 values only if no node is between DequantizeLinear and MatMul, and
    if it does not replace MatMul and Add by Gemm, as it does for a bias with one or two axes.
    """
    weight = c.value_of(1)
    assert weight is not None
    given = [c.const(weight.T, "int8"), c.const(scales, "float32")]
    out = c.op("MatMul", _float(c, 0), c.op("DequantizeLinear", *given, axis=1))
    if bias is None:
        return str(out)
    return str(c.op("Add", out, c.const(bias.reshape((1,) * (c.ndim - 1) + (-1,)), "float32")))


def _narrowed(c: Call, x: str, other: int) -> str:
    """Return a convolution's result, which is added to an input, as float after rounding to int8.

    ONNX Runtime computes a convolution on int8 only if QuantizeLinear reads its result. The range
    excludes only results whose sums with any value of the input are outside of the sum's range.
    """
    top, high = _unit(c) * FULL_SCALE[c.dtype], _unit_of(c, other) * FULL_SCALE[c.dtypes[other]]
    bottom, low = (-end if of == "int8" else 0.0
                   for end, of in ((top, c.dtype), (high, c.dtypes[other])))  # fmt: skip
    unit = c.const(max(top - low, high - bottom) / FULL_SCALE["int8"], "float32")
    zero = c.const(0, "int8")
    return str(c.op("DequantizeLinear", c.op("QuantizeLinear", x, unit, zero), unit, zero))


def _activated(c: Call, x: str, unit: float | None) -> str:
    """Apply a fused layer's activation, except bounds that uint8 has as well.

    ONNX Runtime computes a layer on floats if there is a node between it and QuantizeLinear.
    """
    if c.p.act_type == "gelu":
        return gelu(c, x, "float32", False)
    top = np.inf if unit is None or c.dtype != "uint8" else 255 * unit
    if np.isinf(top):
        x = c.op("Relu", x)
    if c.p.act_max is not None and top > c.p.act_max:
        x = c.op("Min", x, c.const(c.p.act_max, "float32"))
    return x


rows(
    (name, partial(_fused, op=op))
    for name, op in (
        ("_sg_mkldnn_conv", "Convolution"),
        ("_sg_mkldnn_fully_connected", "FullyConnected"),
    )
)


def _keeping_range(c: Call, op: str) -> list[str]:
    return _quantized(c, _on_floats(c, op, [_float(c, 0)]), _unit_of(c, 0))


rows(
    (f"_contrib_quantized_{name}", partial(_keeping_range, op=op))
    for name, op in (("pooling", "Pooling"), ("flatten", "Flatten"), ("act", "Activation"))
)


@converter("_contrib_quantized_concat")
def _concat(c: Call) -> list[str]:
    count = len(c.x) // 3
    ends = [_unit_of(c, i) * FULL_SCALE[c.dtypes[i]] for i in range(count)]
    out = _on_floats(c, "Concat", [_float(c, i) for i in range(count)])
    return _quantized(c, out, max(ends) / FULL_SCALE[c.dtype])


@converter("_contrib_quantized_elemwise_add")
def _add(c: Call) -> list[str]:
    _calibrated(c)
    return _quantized(c, c.op("Add", _float(c, 0), _float(c, 1)), _unit(c))


@converter("_contrib_quantized_batch_norm")
def _batch_norm(c: Call) -> list[str]:
    return _quantized(c, _on_floats(c, "BatchNorm", [_float(c, 0), *c.x[1:5]]), _unit(c))


@converter("_contrib_quantized_embedding")
def _embedding(c: Call) -> list[str]:
    low, high = c.value_of(2), c.value_of(3)
    if low is None or high is None:
        raise c.refuse("it has no equivalent, because the range of its weight is not constant")
    unit = float(max(abs(low.item()), abs(high.item()))) / FULL_SCALE[c.dtype]
    taken = _as(c, "Embedding", c.x[:2], c.dtypes[:2], c.dtypes[1])
    zero = c.const(0, c.dtypes[1])
    return _quantized(c, c.op("DequantizeLinear", taken, c.const(unit, "float32"), zero), unit)


def store_as_uint8(g: Graph, outputs: list[str]) -> None:
    """Store int8 data as uint8 with the zero point 128.

    ONNX Runtime computes a layer on int8 only if its data and its result have the same type. On x86
    it changes signed data that have one reader to uint8 itself, but no other data.
    """
    change_zero_points(g.nodes, outputs, [g.const(0, "int8")], g.const(128, "uint8"))
