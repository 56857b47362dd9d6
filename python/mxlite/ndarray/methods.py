"""Operators as methods: ``x.sum(axis=1)`` is ``mx.nd.sum(x, axis=1)``."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from .._core import NDArray
from .ndarray import _squeeze, attach

# Operators that are methods in 1.x. ndarray.py has methods that differ from operators.
METHODS = """
abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes
broadcast_like cbrt ceil clip cos cosh degrees depth_to_space diag exp expm1 fix flip floor
log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot ones_like pad pick prod
radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt shape_array sigmoid sign sin
sinh size_array slice slice_axis slice_like softmax softmin sort space_to_depth split sqrt square
squeeze sum swapaxes take tan tanh tile topk transpose trunc zeros_like
""".split()


def _transpose(self: NDArray, *axes: int | Sequence[int], **kwargs: object) -> NDArray:
    """Return the array with permuted axes: ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    if len(axes) > 1:
        return _core.op("transpose")(self, axes=axes)
    return _core.op("transpose")(self, *axes, **kwargs)


def _mean(
    self: NDArray,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = False,
    exclude: bool | None = False,
    out: NDArray | None = None,
    name: str | None = None,
    *,
    dtype: object = None,
) -> NDArray:
    """Return the mean; ``numpy.mean`` passes dtype: the type to convert the array to first."""
    data = self if dtype is None else self.astype(dtype)
    return _core.op("mean")(data, axis, keepdims, exclude, out=out, name=name)


def _broadcast_like(
    self: NDArray, other: NDArray | None = None, *args: object, **kwargs: object
) -> NDArray:
    """Return the array broadcast to the shape of ``other``, which is ``rhs`` for symbols in 1.x."""
    return _core.op("broadcast_like")(self, kwargs.pop("rhs", other), *args, **kwargs)


attach({name: _core.op(name) for name in METHODS})
attach({"broadcast_like": _broadcast_like, "mean": _mean})
attach({"transpose": _transpose, "squeeze": _squeeze})
