"""Convolutions whose sampling points are learned (``mx.gluon.contrib.cnn``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._typed_init import with_defaults
from ...base import NotSupportedError, ValueError_
from ...ndarray import NDArray
from ..block import HybridBlock
from ..nn import Activation
from ..nn.conv_layers import Sizes, spatial_sizes
from ..parameter import Parameter, ParameterDict

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformableConvolution(HybridBlock):
    """2-D convolution that samples its input at offsets computed by another convolution.

    Matches ``mxnet.gluon.contrib.cnn.DeformableConvolution`` (Dai et al., 2017).

    Parameters
    ----------
    channels : int
        Number of outputs.
    kernel_size, strides, padding, dilation : int or tuple of 2 ints
        Settings of both convolutions.
    groups : int
    num_deformable_group : int
        Groups of input channels with offsets of their own.
    layout : str
        Only 'NCHW' is supported.
    use_bias, offset_use_bias : bool
    in_channels : int
        0: inferred at the first call.
    activation : str, optional
    weight_initializer, bias_initializer : Initializer or str, optional
    offset_weight_initializer, offset_bias_initializer : Initializer or str
        Zeros by default: the layer starts as an ordinary convolution.
    op_name : str, optional
        Name of the operator; not used.
    adj : None
        Not supported.
    prefix, params
        As in `Block`.
    """

    _values_per_point = 2  # channels per point of the convolution that computes offsets

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes = (1, 1),
        strides: Sizes = (1, 1),
        padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str = "DeformableConvolution",
        adj: None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        layer = type(self).__name__
        if layout != "NCHW":
            kind = NotSupportedError if layout == "NHWC" else ValueError_
            raise kind(f"{layer}: layout must be 'NCHW', got {layout!r}")
        if adj is not None:
            raise NotSupportedError(f"{layer}: adj must be None, got {adj!r}")
        if in_channels % groups or channels % groups:
            raise ValueError_(
                f"{layer}: channels {channels} and in_channels {in_channels} must be multiples of "
                f"groups {groups}"
            )
        kernel = spatial_sizes(layer, "kernel_size", kernel_size, 2)
        shared: dict[str, Any] = {
            "kernel": kernel,
            "stride": spatial_sizes(layer, "strides", strides, 2),
            "dilate": spatial_sizes(layer, "dilation", dilation, 2),
            "pad": spatial_sizes(layer, "padding", padding, 2),
            "num_group": groups,
            "layout": layout,
        }
        points = kernel[0] * kernel[1] * num_deformable_group
        self._num_offsets = 2 * points
        count = self._values_per_point * points
        self._offset_kwargs = {**shared, "num_filter": count, "no_bias": not offset_use_bias}
        self._kwargs = {
            **shared,
            "num_filter": channels,
            "num_deformable_group": num_deformable_group,
            "no_bias": not use_bias,
        }
        inputs = in_channels // groups
        with self.name_scope():
            self.offset_weight, self.offset_bias = self._pair(
                "offset_", (count, inputs, *kernel), offset_weight_initializer,
                offset_bias_initializer, offset_use_bias,
            )  # fmt: skip
            self.deformable_conv_weight, self.deformable_conv_bias = self._pair(
                "deformable_conv_", (channels, inputs, *kernel), weight_initializer,
                bias_initializer, use_bias,
            )  # fmt: skip
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def _pair(
        self, name: str, shape: tuple[int, ...], weight_init: Any, bias_init: Any, use_bias: bool
    ) -> tuple[Parameter, Parameter | None]:
        get = self.params.get
        weight = get(name + "weight", shape=shape, init=weight_init, allow_deferred_init=True)
        if not use_bias:
            return weight, None
        return weight, get(name + "bias", shape=shape[:1], init=bias_init, allow_deferred_init=True)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> NDArray:
        """Compute the offsets, then the convolution."""
        offset = F.Convolution(x, offset_weight, offset_bias, **self._offset_kwargs)
        y = self._convolve(F, x, offset, deformable_conv_weight, deformable_conv_bias)
        return y if self.act is None else self.act(y)

    def _convolve(self, F: Any, x: Any, offset: Any, weight: Any, bias: Any) -> Any:  # noqa: N803
        return F.contrib.DeformableConvolution(x, offset, weight, bias, name="fwd", **self._kwargs)

    def _alias(self) -> str:
        return "deformable_conv"

    def __repr__(self) -> str:
        kwargs, shape = self._kwargs, self.deformable_conv_weight.shape or (0, 0)
        text = (
            f"{type(self).__name__}({shape[1] or None} -> {shape[0]}, "
            f"kernel_size={kwargs['kernel']}, stride={kwargs['stride']}"
        )
        if kwargs["pad"] != (0, 0):
            text += f", padding={kwargs['pad']}"
        if kwargs["dilate"] != (1, 1):
            text += f", dilation={kwargs['dilate']}"
        if kwargs["num_group"] != 1:
            text += f", groups={kwargs['num_group']}"
        if self.deformable_conv_bias is None:
            text += ", bias=False"
        return text + (")" if self.act is None else f", {self.act})")


class ModulatedDeformableConvolution(DeformableConvolution):
    """`DeformableConvolution` that also weights each sampling point, between 0 and 2.

    The arguments are those of `DeformableConvolution`.

    Matches ``mxnet.gluon.contrib.cnn.ModulatedDeformableConvolution`` (Dai et al., 2018).
    """

    _values_per_point = 3

    if not TYPE_CHECKING:
        __init__ = with_defaults(
            DeformableConvolution.__init__,
            "ModulatedDeformableConvolution",
            op_name="ModulatedDeformableConvolution",
        )

    def _convolve(self, F: Any, x: Any, offset: Any, weight: Any, bias: Any) -> Any:  # noqa: N803
        count = self._num_offsets
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=count, end=None)) * 2
        offset = F.slice_axis(offset, axis=1, begin=0, end=count)
        return F.contrib.ModulatedDeformableConvolution(
            x, offset, mask, weight, bias, name="fwd", **self._kwargs
        )

    def _alias(self) -> str:
        return "modulated_deformable_conv"
