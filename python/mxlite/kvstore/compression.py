"""Gradient compression with error feedback: rounding errors are added to the next gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import ndarray as nd
from ..base import InputError, TypeError_, ValueError_, suggestion
from ..comm.bucket_plan import wire_dtype
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name

# Types that only convert gradients, with the dtype in which gradients are sent.
HALVES = {"fp16": "float16", "bf16": "bfloat16"}
_TYPES = ("2bit", "1bit", *HALVES)


class Compression:
    """Rounds gradients to few values; a sender's rounding error is added to its next gradient."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        if not isinstance(options, Mapping):
            raise InputError(
                f"set_gradient_compression: unexpected type for param_dict: {type(options)}; it "
                "must be a dict such as {'type': '2bit', 'threshold': 0.5}"
            )
        for name in options:
            if name not in ("type", "threshold"):
                raise ValueError_(
                    "set_gradient_compression: option must be 'type' or 'threshold', got "
                    f"{name!r}{suggestion(str(name), ('type', 'threshold'))}"
                )
        if "type" not in options:
            raise ValueError_(
                "set_gradient_compression: type must be '2bit' or '1bit', got no type"
            )
        self.type = str(options["type"])
        if self.type not in _TYPES:
            raise ValueError_(
                f"Unknown type for gradient compression {self.type}; it must be '2bit', '1bit', "
                "'fp16' or 'bf16'"
            )
        if self.type in HALVES and "threshold" in options:
            raise ValueError_(
                f"set_gradient_compression: type {self.type!r} must have no threshold, got "
                f"{options['threshold']!r}"
            )
        try:
            self.threshold = float(options.get("threshold", 0.5))
        except (TypeError, ValueError) as error:
            raise TypeError_(
                "set_gradient_compression: threshold must be a number, got "
                f"{options.get('threshold')!r}"
            ) from error
        if not math.isfinite(self.threshold) or (self.type == "2bit" and self.threshold <= 0):
            raise ValueError_(
                f"set_gradient_compression: threshold must be greater than 0, got {self.threshold}"
            )
        self._residuals: dict[Any, NDArray] = {}

    @property
    def wire(self) -> str | None:
        """Dtype in which floating values are sent; None if values are rounded by the threshold."""
        return HALVES.get(self.type)

    def __call__(self, sender: Any, grad: NDArray) -> NDArray:
        """Return the gradient that receivers get after compression."""
        if self.wire is not None:
            wide = wire_dtype(grad, self.wire) != dtype_name(grad.dtype)
            return grad.astype(self.wire).astype(grad.dtype) if wide else grad
        residual = self._residuals.get(sender)
        if residual is None or residual.shape != grad.shape or residual.ctx != grad.ctx:
            residual = nd.zeros(grad.shape, ctx=grad.ctx, dtype=grad.dtype)
        total = residual + grad
        limit = self.threshold
        if self.type == "2bit":
            sent = ((total >= limit) - (total <= -limit)) * limit
        else:
            sent = (total > limit) * 2 - 1
        self._residuals[sender] = total - sent
        return sent
