"""Pooling layers in one, two and three dimensions, and reflection padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import ShapeError
from ...ndarray import NDArray
from ..block import HybridBlock
from .conv_layers import Sizes, SpatialLayer, spatial_sizes

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


class _Pooling(SpatialLayer):
    """Base of all pooling layers: stores the options and calls the operator."""

    _node_op = "pooling"
    _pool_type = "max"
    _spread = {"pool_size": 2}
    _parameters_doc = """
        Parameters
        ----------
        pool_size, padding : int or tuple of int
        strides : int or tuple of int, optional
            Default is ``pool_size``.
        layout : {layouts}
        ceil_mode : bool
            Round the output's size up.
        """

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
        self._check_layout(layout)
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


class _MaxPool(_Pooling):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str = "",
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class MaxPool1D(_MaxPool, ndim=1):
    """The largest value of each window of a sequence."""


class MaxPool2D(_MaxPool, ndim=2):
    """The largest value of each window of an image."""


class MaxPool3D(_Pooling, ndim=3):
    """The largest value of each window of a volume."""

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str = "",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class _AvgPool(_Pooling):
    _pool_type = "avg"
    _parameters_doc = f"""{_Pooling._parameters_doc.rstrip()}
        count_include_pad : bool
            Whether padding counts as zeros in the mean.
        """

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str = "",
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs
        )


class AvgPool1D(_AvgPool, ndim=1):
    """The mean of each window of a sequence."""

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs
        )


class AvgPool2D(_AvgPool, ndim=2):
    """The mean of each window of an image."""


class AvgPool3D(_AvgPool, ndim=3):
    """The mean of each window of a volume."""


_GLOBAL_DOC = """
    Parameters
    ----------
    layout : {layouts}
    """


class GlobalMaxPool1D(MaxPool1D, ndim=1):
    """The largest value of all positions of a sequence."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool2D(MaxPool2D, ndim=2):
    """The largest value of all positions of an image."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool3D(MaxPool3D, ndim=3):
    """The largest value of all positions of a volume."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool1D(AvgPool1D, ndim=1):
    """The mean of all positions of a sequence."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool2D(AvgPool2D, ndim=2):
    """The mean of all positions of an image."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool3D(AvgPool3D, ndim=3):
    """The mean of all positions of a volume."""

    _parameters_doc = _GLOBAL_DOC

    def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None:
        _Pooling.__init__(self, 1, None, 0, True, True, layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pads height and width of NCHW data by reflection at the border.

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
                f"ReflectionPad2D: padding must be a number or 8 numbers, got {padding!r}"
            )
        self._padding = tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Pad the last two dimensions."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
