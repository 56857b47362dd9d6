"""Converts quantized operators to floating-point operators that compute what ONNX defines.

QuantizeLinear and DequantizeLinear become operators of mxlite if scales are constant and zero
points are 0. ``int8_layers.py`` converts the layers between them.
"""

from __future__ import annotations

import numpy as np

from ..tables import FULL_SCALE
from .pointwise import binary, dtype_of
from .table import CONVERTERS, Node, Value, constant, converter

__all__ = ["ends_of", "range_of", "unit_of"]

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
# The number of elements of a sum of int8 products that float32 represents exactly.
_EXACT_PRODUCTS = 2**24 // (255 * 255)


def _spread(n: Node, factor: Value, x: Value) -> Value:
    """Return scales or zero points in a shape that broadcasts with the data."""
    if factor.ndim == 0 or factor.sizes == ((1,), (1,)):
        return factor
    axis, block = n.get("axis", 1) % x.ndim, n.get("block_size", 0)
    if factor.ndim == 1:
        shape = [1] * x.ndim
        shape[axis] = factor.shape[0]
        return n.reshape(factor, (tuple(shape), tuple(shape)))
    if not block:
        raise n.refuse(f"scales must have at most one axis without block_size, got {factor.ndim}")
    grown = n.mx("repeat", factor, repeats=block, axis=axis)
    return n.mx("slice_axis", grown, axis=axis, begin=0, end=x.shape[axis])


def _is_zero(value: Value | None) -> bool:
    return value is None or (value.array is not None and not np.any(value.array))


def _without_zero(n: Node, x: Value, zero: Value | None, dtype: str) -> Value:
    """Return x - zero in a floating-point dtype."""
    whole = n.cast(x, dtype)
    if zero is None or _is_zero(zero):
        return whole
    return binary(n, "Sub", whole, n.cast(_spread(n, zero, x), dtype))


def _rounded(n: Node, x: Value, zero: Value | None, dtype: str) -> Value:
    """Round x to integers, halves to even ones; add the zero point and clip to the dtype."""
    if dtype not in _LIMITS:
        raise n.refuse(f"the quantized type must be one of {sorted(_LIMITS)}, got {dtype}")
    whole = n.mx("_npi_rint", x, sizes=x.sizes)
    if zero is not None and not _is_zero(zero):
        whole = binary(n, "Add", whole, n.cast(_spread(n, zero, x), x.dtype))
    low, high = _LIMITS[dtype]
    return n.cast(n.mx("clip", whole, sizes=x.sizes, a_min=low, a_max=high), dtype)


def _optional(n: Node, index: int) -> Value | None:
    return n.inputs[index] if n.has(index) else None


def unit_of(scale: Value | None, zero: Value | None) -> float | None:
    """Return the scale of a tensor if mxlite's int8 operators can read the tensor, else None."""
    if scale is None or scale.array is None or scale.array.size != 1 or not _is_zero(zero):
        return None
    unit = float(scale.array.reshape(-1)[0])
    return unit if scale.dtype == "float32" and unit > 0 else None


def range_of(unit: float, dtype: str) -> tuple[float, float]:
    """Return the range that mxlite quantizes with a step of ``unit``."""
    end = unit * FULL_SCALE[dtype]
    return (0.0 if dtype == "uint8" else -end), end


def ends_of(unit: float, dtype: str) -> list[Value]:
    """Return both ends of the range as float32 constants of shape (1,)."""
    return [constant(np.array([end], "float32")) for end in range_of(unit, dtype)]


@converter("QuantizeLinear")
def _quantize(n: Node) -> Value:
    x, scale, zero = n.x_at(0), n.x_at(1), _optional(n, 2)
    number = n.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else dtype_of(number) if number else "uint8"
    unit = unit_of(scale, zero)
    if unit is not None and dtype in FULL_SCALE and x.dtype == "float32":
        low, high = range_of(unit, dtype)
        return n.mx("_contrib_quantize_v2", x, sizes=x.sizes, out_type=dtype,
                    min_calib_range=low, max_calib_range=high)  # fmt: skip
    quotient = binary(n, "Div", n.cast(x, scale.dtype), _spread(n, scale, x))
    return _rounded(n, quotient, zero, dtype)


@converter("DequantizeLinear")
def _dequantize(n: Node) -> Value:
    x, scale, zero = n.x_at(0), n.x_at(1), _optional(n, 2)
    unit = unit_of(scale, zero)
    if unit is not None and x.dtype in FULL_SCALE:
        return n.mx("_contrib_dequantize", x, *ends_of(unit, x.dtype), sizes=x.sizes)
    return binary(n, "Mul", _without_zero(n, x, zero, scale.dtype), _spread(n, scale, x))


@converter("DynamicQuantizeLinear")
def _dynamic_quantize(n: Node) -> list[Value]:
    x = n.x[0]
    low, high = (
        n.mx(f"_{which}imum_scalar", n.mx(kind, x, sizes=((), ())), sizes=((), ()), scalar=0.0)
        for kind, which in (("min", "min"), ("max", "max"))
    )
    scale = n.mx("_div_scalar", binary(n, "Sub", high, low), sizes=((), ()), scalar=255.0)
    zero = _rounded(n, n.mx("negative", binary(n, "Div", low, scale), sizes=((), ())), None,
                    "uint8")  # fmt: skip
    return [_rounded(n, binary(n, "Div", x, scale), zero, "uint8"), scale, zero]


def _exact_dtype(op: str, weight: Value) -> str:
    """Return the dtype whose sums of int8 products are exact."""
    count = weight.shape[-2] if op == "MatMul" and weight.ndim > 1 else np.prod(weight.shape[1:])
    return "float32" if count <= _EXACT_PRODUCTS else "float64"


def _product(n: Node, op: str, inputs: list[Value]) -> Value:
    """Convert a Conv or MatMul of floating-point inputs."""
    inner = n.similar(op, inputs)
    out = CONVERTERS[op](inner)
    assert isinstance(out, Value)
    return out


def _vertical(value: Value | None, n: Node, ndim: int) -> Value | None:
    """Return zero points or scales, one for each row or filter, in a shape that broadcasts."""
    if value is None or value.ndim != 1 or value.shape == (1,):
        return value
    shape = (value.shape[0], *[1] * (ndim - 1))
    return n.reshape(value, (shape, shape))


def _integer_product(
    n: Node, op: str, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None
) -> Value:
    dtype = _exact_dtype(op, b)
    # MatMul may have a zero point for each row of a, and Conv one for each filter of b.
    if op == "MatMul":
        a_zero = _vertical(a_zero, n, 2)
    else:
        b_zero = _vertical(b_zero, n, b.ndim)
    parts = []
    for value, zero in ((a, a_zero), (b, b_zero)):
        whole = n.cast(value, dtype)
        if zero is not None and not _is_zero(zero):
            whole = binary(n, "Sub", whole, n.cast(zero, dtype))
        parts.append(whole)
    return _product(n, op, parts)


@converter("ConvInteger", "MatMulInteger")
def _integers(n: Node) -> Value:
    op = n.op.removesuffix("Integer")
    out = _integer_product(n, op, n.x_at(0), _optional(n, 2), n.x_at(1), _optional(n, 3))
    return n.cast(out, "int32")


@converter("QLinearConv", "QLinearMatMul")
def _linear(n: Node) -> Value:
    op = n.op.removeprefix("QLinear")
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (n.x_at(i) for i in range(8))
    total = _integer_product(n, op, a, a_zero, b, b_zero)
    if n.has(8):
        bias = n.cast(n.x_at(8), total.dtype)
        shape = (1, bias.shape[0], *[1] * (total.ndim - 2))
        total = binary(n, "Add", total, n.reshape(bias, (shape, shape)))
    rows, columns = (n.cast(scales, total.dtype) for scales in (a_scale, b_scale))
    if op == "MatMul":
        rows = _vertical(rows, n, 2) or rows
    elif columns.ndim == 1 and columns.shape != (1,):
        shape = (1, columns.shape[0], *[1] * (total.ndim - 2))
        columns = n.reshape(columns, (shape, shape))
    factor = binary(n, "Div", binary(n, "Mul", rows, columns), n.cast(scale, total.dtype))
    return _rounded(n, binary(n, "Mul", total, factor), zero, zero.dtype)
