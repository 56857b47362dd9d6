"""Convolution layers in one, two and three dimensions."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ..._names_1x import attributes as _attributes
from ..._typed_init import with_defaults
from ...base import ShapeError, TypeError_, ValueError_
from ...ndarray import NDArray
from ..block import HybridBlock
from ..block.error_layers import conv_hint
from ..parameter import Parameter
from .activations import Activation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = [
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
]

Sizes = Union[int, Sequence[int]]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def spatial_sizes(layer: str, label: str, value: Sizes, ndim: int) -> tuple[int, ...]:
    """Return one number per spatial dimension."""
    if isinstance(value, (int, np.integer)):
        return (int(value),) * ndim
    try:
        if isinstance(value, str):
            raise TypeError
        sizes = tuple(operator.index(size) for size in value)
    except TypeError:
        raise TypeError_(
            f"{layer}: {label} must be an integer or a tuple of {ndim} integers, got {value!r}"
        ) from None
    if len(sizes) != ndim:
        raise ShapeError(
            f"{layer}: {label} must be a number or a tuple of {ndim} numbers, got {value!r}"
        )
    return sizes


class SpatialLayer(HybridBlock):
    """Base of layers that exist for one, two and three spatial dimensions.

    ``class Conv2D(..., ndim=2)`` gets a copy of the constructor whose defaults fit two dimensions,
    and its docstring is completed from ``_parameters_doc``.
    """

    _ndim = 0
    _layouts: tuple[str, ...] = ()
    _parameters_doc = ""
    _spread: dict[str, int] = {}  # arguments whose default has one number per spatial dimension

    def __init_subclass__(cls, ndim: int = 0, **options: Any) -> None:
        """Adapt constructor and docstring to the number of dimensions."""
        if ndim:
            cls._ndim, cls._layouts = ndim, _LAYOUTS[ndim]
            spread = {name: (n,) * ndim if ndim > 1 else n for name, n in cls._spread.items()}
            init: Any = cls.__init__
            own = with_defaults(init, cls.__qualname__, layout=cls._layouts[0], **spread)
            setattr(cls, "__init__", own)  # noqa: B010 - mypy refuses the assignment
            layouts = "{" + ", ".join(map(repr, cls._layouts)) + "}"
            doc = inspect.cleandoc(cls._parameters_doc).format(layouts=layouts, name=cls.__name__)
            cls.__doc__ = f"{cls.__doc__}\n\n{doc}\n"
        super().__init_subclass__(**options)

    def _check_layout(self, layout: str) -> None:
        if layout not in self._layouts:
            raise ValueError_(
                f"{type(self).__name__}: layout must be {' or '.join(map(repr, self._layouts))}, "
                f"got {layout!r}"
            )


class _Conv(SpatialLayer):
    """Base of all convolutions: makes the parameters and calls the operator."""

    _node_op = "convolution"
    _shape_hint = conv_hint
    _transposed = False
    _spread = {"strides": 1, "padding": 0, "output_padding": 0, "dilation": 1}
    _parameters_doc = """
        Parameters
        ----------
        channels : int
            Number of output channels.
        kernel_size, strides, padding, dilation : int or tuple of int
            One number for all spatial dimensions, or one for each.
        groups : int
            Channels are split into so many independent groups.
        layout : {layouts}
        activation : str, optional
            As in `Activation`.
        use_bias : bool
        weight_initializer, bias_initializer : Initializer or str
        in_channels : int
            0 takes it from the first input.

        Notes
        -----
        Matches ``mxnet.gluon.nn.{name}``.
        """

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        layout: str = "",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        layer, ndim = type(self).__name__, self._ndim
        self._check_layout(layout)
        for label, number in (("channels", channels), ("groups", groups)):
            if number < 1:
                raise ValueError_(f"{layer}: {label} must be 1 or more, got {number}")
        if channels % groups or in_channels % groups:
            raise ValueError_(
                f"{layer}: channels {channels} and in_channels {in_channels} must be multiples of "
                f"groups {groups}"
            )
        self._channels = channels
        self._in_channels = in_channels
        self._kwargs: dict[str, Any] = {
            "kernel": spatial_sizes(layer, "kernel_size", kernel_size, ndim),
            "stride": spatial_sizes(layer, "strides", strides, ndim),
            "dilate": spatial_sizes(layer, "dilation", dilation, ndim),
            "pad": spatial_sizes(layer, "padding", padding, ndim),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=self._weight_shape(),
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.bias: Parameter | None = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True
                )
            self.act: Activation | None = None
            if activation is not None:
                self.act = Activation(activation, prefix=activation + "_")

    def _weight_shape(self) -> tuple[int, ...]:
        """Return the weight's shape, with 0 for unknown channels."""
        groups, kernel = self._kwargs["num_group"], self._kwargs["kernel"]
        if self._transposed:
            outer, inner = self._in_channels, self._channels // groups
        else:
            outer, inner = self._channels, self._in_channels // groups
        if self._kwargs["layout"].endswith("C"):
            return (outer, *kernel, inner)
        return (outer, inner, *kernel)

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> NDArray:  # noqa: N803
        """Apply the convolution, the bias and the activation."""
        operator = F.Deconvolution if self._transposed else F.Convolution
        if bias is None:
            output = operator(x, weight, **self._kwargs)
        else:
            output = operator(x, weight, bias, **self._kwargs)
        return output if self.act is None else self.act(output)

    def _alias(self) -> str:
        return "conv"

    def __repr__(self) -> str:
        options, ndim = self._kwargs, self._ndim
        shape = self.weight.shape
        assert shape is not None
        axis = -1 if options["layout"].endswith("C") else 1
        inputs = shape[0] if self._transposed else shape[axis] * options["num_group"]
        text = f"{inputs or None} -> {self._channels}, kernel_size={options['kernel']}"
        text += f", stride={options['stride']}"
        if options["pad"] != (0,) * ndim:
            text += f", padding={options['pad']}"
        if options["dilate"] != (1,) * ndim:
            text += f", dilation={options['dilate']}"
        if options.get("adj", (0,) * ndim) != (0,) * ndim:
            text += f", output_padding={options['adj']}"
        if options["num_group"] != 1:
            text += f", groups={options['num_group']}"
        if self.bias is None:
            text += ", bias=False"
        if self.act is not None:
            text += f", {self.act}"
        return f"{type(self).__name__}({text})"


class Conv1D(_Conv, ndim=1):
    """Convolution of a sequence."""


class Conv2D(_Conv, ndim=2):
    """Convolution of an image."""


class Conv3D(_Conv, ndim=3):
    """Convolution of a volume."""


class _ConvTranspose(_Conv):
    _transposed = True
    _node_op = "deconvolution"
    _parameters_doc = _Conv._parameters_doc.replace("padding, ", "padding, output_padding, ")

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        layout: str = "",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, layout, activation,
            use_bias, weight_initializer, bias_initializer, in_channels, **kwargs,
        )  # fmt: skip
        layer = type(self).__name__
        adjust = spatial_sizes(layer, "output_padding", output_padding, self._ndim)
        self._kwargs["adj"] = adjust


class Conv1DTranspose(_ConvTranspose, ndim=1):
    """Transposed convolution (the gradient of a convolution) of a sequence."""


class Conv2DTranspose(_ConvTranspose, ndim=2):
    """Transposed convolution (the gradient of a convolution) of an image."""


class Conv3DTranspose(_ConvTranspose, ndim=3):
    """Transposed convolution (the gradient of a convolution) of a volume."""


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
