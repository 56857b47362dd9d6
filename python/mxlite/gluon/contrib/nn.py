"""Additional layers (``mx.gluon.contrib.nn``)."""

from __future__ import annotations

from typing import Any

from ...base import NotSupportedError, ShapeError
from ..hybrid_block import HybridBlock
from ..nn.basic_layers import BatchNorm, HybridSequential, Sequential
from ..nn.conv_layers import Sizes, spatial_sizes

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class Concurrent(Sequential):
    """Blocks that all get the same input; their outputs are concatenated.

    Parameters
    ----------
    axis : int
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(self, axis: int = -1, prefix: Any = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> Any:
        """Run the children and concatenate."""
        from ... import ndarray as nd

        outputs = [block(x) for block in self._children.values()]
        return nd.concat(*outputs, dim=self.axis)


class HybridConcurrent(HybridSequential):
    """HybridBlocks that all get the same input; their outputs are concatenated.

    Parameters
    ----------
    axis : int
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(self, axis: int = -1, prefix: Any = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> Any:
        """Run the children and concatenate."""
        from ... import ndarray as nd

        outputs = [block(x) for block in self._children.values()]
        return nd.concat(*outputs, dim=self.axis)


class Identity(HybridBlock):
    """Return the input; a shortcut inside of `Concurrent`."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return ``x``."""
        return x


class SparseEmbedding(HybridBlock):
    """Refused: its gradient is a sparse array, which mxlite does not have.

    Raises
    ------
    NotSupportedError
        Always.
    """

    def __init__(self, input_dim: int, output_dim: int, *args: Any, **kwargs: Any) -> None:
        raise NotSupportedError(
            f"SparseEmbedding({input_dim}, {output_dim}): mxlite has no sparse arrays; use "
            "nn.Embedding"
        )


class SyncBatchNorm(BatchNorm):
    """`BatchNorm` with statistics over all devices; on one device the two are the same.

    Parameters
    ----------
    in_channels : int
    num_devices : int, optional
        Only 1 is supported.
    momentum, epsilon : float
    center, scale, use_global_stats : bool
    beta_initializer, gamma_initializer : Initializer or str
    running_mean_initializer, running_variance_initializer : Initializer or str
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        if num_devices is not None and num_devices != 1:
            raise NotSupportedError(
                f"SyncBatchNorm: num_devices is {num_devices}, mxlite synchronizes no statistics "
                "between devices yet"
            )
        super().__init__(
            1, momentum, epsilon, center, scale, use_global_stats, beta_initializer,
            gamma_initializer, running_mean_initializer, running_variance_initializer, in_channels,
            **kwargs,
        )  # fmt: skip


class _PixelShuffle(HybridBlock):
    """Move channels into space; shared by one to three dimensions."""

    _ndim = 0

    def __init__(self, factor: Sizes) -> None:
        super().__init__()
        self._factors = spatial_sizes(type(self).__name__, "factor", factor, self._ndim)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return ``(N, C, f1 * D1, f2 * D2, ...)`` for ``(N, f1 * f2 * ... * C, D1, D2, ...)``."""
        ndim, factors = self._ndim, self._factors
        if len(x.shape) != ndim + 2:
            raise ShapeError(
                f"{type(self).__name__}: data of shape {tuple(x.shape)} was given, expected "
                f"{ndim + 2} dimensions"
            )
        batch, channels, *space = x.shape
        blocks = 1
        for factor in factors:
            blocks *= factor
        if channels % blocks:
            raise ShapeError(
                f"{type(self).__name__}: data of shape {tuple(x.shape)} has {channels} channels, "
                f"expected a multiple of {blocks}"
            )
        x = F.reshape(x, shape=(batch, channels // blocks, *factors, *space))
        axes = [0, 1]
        for dimension in range(ndim):
            axes += [2 + ndim + dimension, 2 + dimension]
        x = F.transpose(x, axes=tuple(axes))
        larger = tuple(size * factor for size, factor in zip(space, factors))
        return F.reshape(x, shape=(batch, channels // blocks, *larger))

    def __repr__(self) -> str:
        shown = self._factors[0] if self._ndim == 1 else self._factors
        return f"{type(self).__name__}({shown})"


class PixelShuffle1D(_PixelShuffle):
    """Turn ``(N, f * C, W)`` into ``(N, C, f * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 1


class PixelShuffle2D(_PixelShuffle):
    """Turn ``(N, f1 * f2 * C, H, W)`` into ``(N, C, f1 * H, f2 * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 2


class PixelShuffle3D(_PixelShuffle):
    """Turn ``(N, f1 * f2 * f3 * C, D, H, W)`` into ``(N, C, f1 * D, f2 * H, f3 * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 3
