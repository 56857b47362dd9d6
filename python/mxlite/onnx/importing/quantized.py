"""Converts quantized operators to floating-point operators that compute what ONNX defines.

QuantizeLinear and DequantizeLinear become operators of mxlite if scales are constant and zero
points are 0, or were 128 in uint8 data. ``int8_layers.py`` converts the layers between them.
"""

from __future__ import annotations

import numpy as np

from ..tables import FULL_SCALE
from .pointwise import binary, dtype_of, scalar
from .table import Node, Value, constant, converter

__all__ = ["ends_of", "range_of", "unit_of"]

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
# The number of elements of a sum of int8 products that float32 represents exactly.
_EXACT_PRODUCTS = 2**24 // (255 * 255)


def _along(n: Node, factor: Value, ndim: int, axis: int) -> Value:
    """Return a vector in a shape that broadcasts along an axis; a single number stays."""
    if factor.ndim == 0 or factor.sizes == ((1,), (1,)):
        return factor
    shape = [1] * ndim
    shape[axis % ndim] = factor.shape[0]
    return n.reshape(factor, (tuple(shape), tuple(shape)))


def _spread(n: Node, factor: Value, x: Value) -> Value:
    """Return scales or zero points in a shape that broadcasts with the data."""
    axis, block = n.get("axis", 1), n.get("block_size", 0)
    if factor.ndim < 2:
        return _along(n, factor, x.ndim, axis)
    if not block:
        raise n.refuse(f"scales must have at most one axis without block_size, got {factor.ndim}")
    axis %= x.ndim
    grown = n.mx("repeat", factor, repeats=block, axis=axis)
    return n.mx("slice_axis", grown, axis=axis, begin=0, end=x.shape[axis])


def _nonzero(zero: Value | None) -> Value | None:
    """Return zero points; None if all are 0."""
    is_zero = zero is None or (zero.array is not None and not np.any(zero.array))
    return None if is_zero else zero


def _without_zero(n: Node, x: Value, zero: Value | None, dtype: str) -> Value:
    """Return x - zero, which broadcast together, in a floating-point dtype."""
    whole = n.cast(x, dtype)
    return whole if zero is None else binary(n, "Sub", whole, n.cast(zero, dtype))


def _rounded(n: Node, x: Value, zero: Value | None, dtype: str) -> Value:
    """Round x to integers, halves to even ones; add the zero point and clip to the dtype."""
    if dtype not in _LIMITS:
        raise n.refuse(f"the quantized type must be one of {sorted(_LIMITS)}, got {dtype}")
    whole = n.mx("_npi_rint", x, sizes=x.sizes)
    zero = _nonzero(zero)
    if zero is not None:
        whole = binary(n, "Add", whole, n.cast(_spread(n, zero, x), x.dtype))
    low, high = _LIMITS[dtype]
    return n.cast(n.mx("clip", whole, sizes=x.sizes, a_min=low, a_max=high), dtype)


def _optional(n: Node, index: int) -> Value | None:
    return n.inputs[index] if n.has(index) else None


def unit_of(scale: Value | None, zero: Value | None) -> float | None:
    """Return the scale of a tensor if mxlite's int8 operators can read the tensor, else None."""
    if scale is None or scale.array is None or scale.array.size != 1 or _nonzero(zero):
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
    zero = _nonzero(zero)
    shifted = _without_zero(n, x, zero and _spread(n, zero, x), scale.dtype)
    return binary(n, "Mul", shifted, _spread(n, scale, x))


@converter("DynamicQuantizeLinear")
def _dynamic_quantize(n: Node) -> list[Value]:
    x = n.x[0]
    low, high = (
        scalar(n, f"{kind}imum", n.mx(kind, x, sizes=((), ())), 0) for kind in ("min", "max")
    )
    scale = scalar(n, "div", binary(n, "Sub", high, low), 255)
    zero = _rounded(n, n.mx("negative", binary(n, "Div", low, scale), sizes=((), ())), None,
                    "uint8")  # fmt: skip
    return [_rounded(n, binary(n, "Div", x, scale), zero, "uint8"), scale, zero]


def _exact_dtype(op: str, weight: Value) -> str:
    """Return the dtype whose sums of int8 products are exact."""
    count = weight.shape[-2] if op == "MatMul" and weight.ndim > 1 else np.prod(weight.shape[1:])
    return "float32" if count <= _EXACT_PRODUCTS else "float64"


def _integer_product(
    n: Node, op: str, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None
) -> Value:
    dtype, a_zero, b_zero = _exact_dtype(op, b), _nonzero(a_zero), _nonzero(b_zero)
    if op == "MatMul":  # zero points of the rows of a, and of the columns of b
        a_zero = a_zero and _along(n, a_zero, 2, 0)
    else:  # zero points of the filters
        b_zero = b_zero and _along(n, b_zero, b.ndim, 0)
    parts = [_without_zero(n, a, a_zero, dtype), _without_zero(n, b, b_zero, dtype)]
    return n.convert_as(op, parts)


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
        total = binary(n, "Add", total, _along(n, bias, total.ndim, 1))
    rows, columns = (n.cast(scales, total.dtype) for scales in (a_scale, b_scale))
    if op == "MatMul":
        rows = _along(n, rows, 2, 0)
    else:
        columns = _along(n, columns, total.ndim, 1)
    factor = binary(n, "Div", binary(n, "Mul", rows, columns), n.cast(scale, total.dtype))
    return _rounded(n, binary(n, "Mul", total, factor), zero, zero.dtype)
