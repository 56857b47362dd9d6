"""Operators of 1.9.1's numpy mode that no public function calls."""

from __future__ import annotations

from typing import Any

from .arguments import as_array, refuse_traced, store
from .ndarray import ndarray

__all__ = ["boolean_mask_assign_scalar", "boolean_mask_assign_tensor"]


def boolean_mask_assign_tensor(
    data: Any, mask: Any, value: Any, start_axis: int = 0, out: Any = None
) -> ndarray:
    """Return a copy of an array with values at the positions where a mask is true.

    Parameters
    ----------
    data : ndarray
    mask : ndarray
        Its axes are those of ``data`` from ``start_axis``.
    value : ndarray or number
        It has the shape of ``data[..., mask]``, or one that broadcasts to it.
    out : ndarray, optional
    """
    refuse_traced(mask, "boolean_mask_assign", "the mask must have values")
    result = as_array(data, "boolean_mask_assign").copy()
    result[(slice(None),) * start_axis + (mask.astype(bool),)] = value
    return store(result, out, "boolean_mask_assign")


boolean_mask_assign_scalar = boolean_mask_assign_tensor
