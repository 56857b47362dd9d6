"""Smaller types for tensors that travel between processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import autograd
from ..ndarray import NDArray

__all__ = ["Compression"]


class Compressor:
    """How a tensor is made smaller before an all-reduce, and itself again after."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        """Return the tensor to be sent, and what `decompress` needs.

        Parameters
        ----------
        tensor : NDArray

        Returns
        -------
        tuple
        """
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """Return the tensor in its own type.

        Parameters
        ----------
        tensor : NDArray
        ctx : object
            Context that `compress` returned.

        Returns
        -------
        NDArray
        """
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors unchanged."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        """Return the tensor and None."""
        return tensor, None

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """Return the tensor."""
        return tensor


class FP16Compressor(Compressor):
    """Sends floating tensors as float16; they are added in float32."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        """Return the tensor as float16 and its own type."""
        dtype = tensor.dtype
        if "float" not in np.dtype(dtype).name or np.dtype(dtype) == np.float16:
            return tensor, dtype
        with autograd.pause():
            return tensor.astype("float16"), dtype

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """Return the tensor in its own type."""
        if ctx is None or tensor.dtype == ctx:
            return tensor
        with autograd.pause():
            return tensor.astype(ctx)


class Compression:
    """The ways to compress: ``none`` and ``fp16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
