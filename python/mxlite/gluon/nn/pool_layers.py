"""Pooling layers in one, two and three dimensions, and reflection padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import ShapeError, ValueError_
from ...ndarray import NDArray
from ..block import HybridBlock
from .conv_layers import Sizes, spatial_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ReflectionPad2D",
]


class _Pooling(HybridBlock):
    """Base of all pooling layers: keeps the options and calls the operator."""

    _node_op = "pooling"
    _ndim = 0
    _layouts: tuple[str, ...] = ()
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Sizes,
        strides: Sizes | None,
        padding: Sizes,
        ceil_mode: bool,
        global_pool: bool,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        layer, ndim = type(self).__name__, self._ndim
        if layout not in self._layouts:
            raise ValueError_(
                f"{layer}: layout is {layout!r}, expected {' or '.join(map(repr, self._layouts))}"
            )
        strides = pool_size if strides is None else strides
        self._kwargs: dict[str, Any] = {
            "kernel": spatial_sizes(layer, "pool_size", pool_size, ndim),
            "stride": spatial_sizes(layer, "strides", strides, ndim),
            "pad": spatial_sizes(layer, "padding", padding, ndim),
            "global_pool": global_pool,
            "pool_type": self._pool_type,
            "pooling_convention": "full" if ceil_mode else "valid",
            "layout": layout,
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Pool the spatial dimensions."""
        return F.Pooling(x, **self._kwargs)

    def __repr__(self) -> str:
        options = self._kwargs
        return (
            f"{type(self).__name__}(size={options['kernel']}, stride={options['stride']}, "
            f"padding={options['pad']}, ceil_mode={options['pooling_convention'] == 'full'}, "
            f"global_pool={options['global_pool']}, pool_type={options['pool_type']}, "
            f"layout={options['layout']})"
        )


class MaxPool1D(_Pooling):
    """The largest value of each window of a sequence.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCW', 'NWC'}
    ceil_mode : bool
        Round the output's size up.
    """

    _ndim = 1
    _layouts = ("NCW", "NWC")
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class MaxPool2D(_Pooling):
    """The largest value of each window of an image.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCHW', 'NHWC'}
    ceil_mode : bool
        Round the output's size up.
    """

    _ndim = 2
    _layouts = ("NCHW", "NHWC")
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Sizes = (2, 2),
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str = "NCHW",
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class MaxPool3D(_Pooling):
    """The largest value of each window of a volume.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCDHW', 'NDHWC'}
    ceil_mode : bool
        Round the output's size up.
    """

    _ndim = 3
    _layouts = ("NCDHW", "NDHWC")
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Sizes = (2, 2, 2),
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window of a sequence.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCW', 'NWC'}
    ceil_mode : bool
        Round the output's size up.
    count_include_pad : bool
        Whether padding counts as zeros in the mean.
    """

    _ndim = 1
    _layouts = ("NCW", "NWC")
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs
        )


class AvgPool2D(_Pooling):
    """The mean of each window of an image.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCHW', 'NHWC'}
    ceil_mode : bool
        Round the output's size up.
    count_include_pad : bool
        Whether padding counts as zeros in the mean.
    """

    _ndim = 2
    _layouts = ("NCHW", "NHWC")
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Sizes = (2, 2),
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str = "NCHW",
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs
        )


class AvgPool3D(_Pooling):
    """The mean of each window of a volume.

    Parameters
    ----------
    pool_size, padding : int or tuple of int
    strides : int or tuple of int, optional
        Default is ``pool_size``.
    layout : {'NCDHW', 'NDHWC'}
    ceil_mode : bool
        Round the output's size up.
    count_include_pad : bool
        Whether padding counts as zeros in the mean.
    """

    _ndim = 3
    _layouts = ("NCDHW", "NDHWC")
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Sizes = (2, 2, 2),
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs
        )


class GlobalMaxPool1D(MaxPool1D):
    """The largest value of all positions of a sequence.

    Parameters
    ----------
    layout : {'NCW', 'NWC'}
    """

    def __init__(self, layout: str = "NCW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool2D(MaxPool2D):
    """The largest value of all positions of an image.

    Parameters
    ----------
    layout : {'NCHW', 'NHWC'}
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool3D(MaxPool3D):
    """The largest value of all positions of a volume.

    Parameters
    ----------
    layout : {'NCDHW', 'NDHWC'}
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool1D(AvgPool1D):
    """The mean of all positions of a sequence.

    Parameters
    ----------
    layout : {'NCW', 'NWC'}
    """

    def __init__(self, layout: str = "NCW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool2D(AvgPool2D):
    """The mean of all positions of an image.

    Parameters
    ----------
    layout : {'NCHW', 'NHWC'}
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool3D(AvgPool3D):
    """The mean of all positions of a volume.

    Parameters
    ----------
    layout : {'NCDHW', 'NDHWC'}
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pad height and width of NCHW data by reflection at the border.

    Parameters
    ----------
    padding : int or tuple of int
        One number for all sides, or the 8 numbers of ``pad_width``.
    """

    def __init__(self, padding: Sizes = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        if len(padding) != 8:
            raise ShapeError(
                f"ReflectionPad2D: padding is {padding!r}, expected a number or 8 numbers"
            )
        self._padding = tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Pad the last two dimensions."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
