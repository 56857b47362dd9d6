"""Compression of tensors to smaller dtypes for all-reduce."""

from __future__ import annotations

from typing import Any

from .. import autograd
from ..comm.bucket_plan import wire_dtype
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name


class Compressor:
    """Compresses a tensor before an all-reduce and restores it afterwards."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        """Return the tensor to send, and the context for `decompress`."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """Return the tensor in its original type."""
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


class HalfCompressor(Compressor):
    """Sends wider floating tensors in the 16-bit float dtype ``wire``."""

    wire: str

    @classmethod
    def compress(cls, tensor: NDArray) -> tuple[NDArray, Any]:
        """Return the tensor in 16-bit floats, and its dtype; 16-bit floats are not converted."""
        dtype = tensor.dtype
        if wire_dtype(tensor, cls.wire) == dtype_name(dtype):
            return tensor, dtype
        with autograd.pause():
            return tensor.astype(cls.wire), dtype

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """Return the tensor in its original type."""
        if ctx is None or tensor.dtype == ctx:
            return tensor
        with autograd.pause():
            return tensor.astype(ctx)


class FP16Compressor(HalfCompressor):
    """Sends wider floating tensors as float16; they are summed in float32."""

    wire = "float16"


class BF16Compressor(HalfCompressor):
    """Sends wider floating tensors as bfloat16; they are summed in float32."""

    wire = "bfloat16"


class Compression:
    """The available compressors: ``none``, ``fp16`` and ``bf16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
