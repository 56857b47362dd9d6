"""Normalization layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._core import is_half
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ..block import HybridBlock
from ..block.error_layers import channels_hint
from ..parameter import Parameter
from ..parameter.cast_check import check_cast

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


def _scale_and_shift(
    block: HybridBlock,
    scale: bool,
    center: bool,
    gamma_initializer: Any,
    beta_initializer: Any,
    in_channels: int,
) -> tuple[Parameter, Parameter]:
    """Make gamma and beta; they have no gradient if ``scale`` or ``center`` is False."""
    gamma = block.params.get(
        "gamma",
        grad_req="write" if scale else "null",
        shape=(in_channels,),
        init=gamma_initializer,
        allow_deferred_init=True,
        differentiable=scale,
    )
    beta = block.params.get(
        "beta",
        grad_req="write" if center else "null",
        shape=(in_channels,),
        init=beta_initializer,
        allow_deferred_init=True,
        differentiable=center,
    )
    return gamma, beta


class _NormLayer(HybridBlock):
    """Base of the normalization layers; its repr shows their options."""

    _kwargs: dict[str, Any]
    gamma: Parameter
    _unknown_channels: int | None = 0  # shown by repr if the number of channels is unknown

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        channels = (self.gamma.shape or (0,))[0] or self._unknown_channels
        return f"{type(self).__name__}({options}, in_channels={channels})"


class _BatchNorm(_NormLayer):
    """Base of batch normalization, optionally followed by an activation."""

    _node_op = "batchnorm"
    _unknown_channels = None

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self._axis = axis
        self.in_channels = in_channels
        with self.name_scope():
            self.gamma, self.beta = _scale_and_shift(
                self, scale, center, gamma_initializer, beta_initializer, in_channels
            )
            self.running_mean = self.params.get(
                "running_mean",
                grad_req="null",
                shape=(in_channels,),
                init=running_mean_initializer,
                allow_deferred_init=True,
                differentiable=False,
            )
            self.running_var = self.params.get(
                "running_var",
                grad_req="null",
                shape=(in_channels,),
                init=running_variance_initializer,
                allow_deferred_init=True,
                differentiable=False,
            )

    def _shape_hint(self, shape: tuple[int, ...]) -> str:
        channels = (self.gamma.shape or (0,))[0]
        return channels_hint(shape, channels, self._axis % len(shape), f"axis={self._axis}")

    def cast(self, dtype: Any) -> None:
        """Convert the parameters; for 16-bit float types they stay float32."""
        check_cast(self, dtype)
        super().cast("float32" if is_half(dtype_name(dtype)) else dtype)

    def _operator_of(self, F: Any) -> Any:  # noqa: N803
        return F.BatchNorm

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        gamma: Any,
        beta: Any,
        running_mean: Any,
        running_var: Any,  # noqa: N803
    ) -> NDArray:
        """Normalize; in training mode the running statistics are updated."""
        return self._operator_of(F)(x, gamma, beta, running_mean, running_var, **self._kwargs)


class BatchNorm(_BatchNorm):
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta`` over all axes but one.

    Statistics are those of the batch while training, else the running ones, which are updated as
    ``running * momentum + batch * (1 - momentum)``.

    Matches ``mxnet.gluon.nn.BatchNorm``.

    Parameters
    ----------
    axis : int
        The channel axis.
    momentum : float
    epsilon : float
    center, scale : bool
        Whether beta and gamma are learned.
    use_global_stats : bool
        Whether training also normalizes by the running statistics and does not update them.
    beta_initializer, gamma_initializer : Initializer or str
    running_mean_initializer, running_variance_initializer : Initializer or str
    in_channels : int
        0 takes it from the first input.
    """


class BatchNormReLU(_BatchNorm):
    """`BatchNorm` followed by ReLU; the arguments are the same."""

    def _operator_of(self, F: Any) -> Any:  # noqa: N803
        return F.contrib.BatchNormWithReLU


class LayerNorm(_NormLayer):
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta`` along one axis (Ba et al., 2016).

    Parameters
    ----------
    axis : int
    epsilon : float
    center, scale : bool
        Whether beta and gamma are learned.
    beta_initializer, gamma_initializer : Initializer or str
    in_channels : int
        0 takes it from the first input.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: Any = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        with self.name_scope():
            self.gamma, self.beta = _scale_and_shift(
                self, scale, center, gamma_initializer, beta_initializer, in_channels
            )

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> NDArray:  # noqa: N803
        """Normalize along the axis."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_NormLayer):
    """Normalize groups of channels of each sample (Wu and He, 2018).

    There is one gamma and one beta for each group, as in MXNet 1.9.1.

    Parameters
    ----------
    num_groups : int
    epsilon : float
    center, scale : bool
        Whether beta and gamma are learned.
    beta_initializer, gamma_initializer : Initializer or str
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: Any = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {
            "eps": epsilon,
            "num_groups": num_groups,
            "center": center,
            "scale": scale,
        }
        self._num_groups = num_groups
        self._epsilon = epsilon
        with self.name_scope():
            self.gamma, self.beta = _scale_and_shift(
                self, scale, center, gamma_initializer, beta_initializer, num_groups
            )

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({options})"

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> NDArray:  # noqa: N803
        """Normalize each group of channels."""
        return F.GroupNorm(
            data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon
        )


class InstanceNorm(_NormLayer):
    """Normalize each channel of each sample (Ulyanov et al., 2016).

    Parameters
    ----------
    axis : int
        The channel axis.
    epsilon : float
    center, scale : bool
        Whether beta and gamma are learned.
    beta_initializer, gamma_initializer : Initializer or str
    in_channels : int
        0 takes it from the first input.
    """

    _node_op = "instancenorm"

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        with self.name_scope():
            self.gamma, self.beta = _scale_and_shift(
                self, scale, center, gamma_initializer, beta_initializer, in_channels
            )

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> NDArray:  # noqa: N803
        """Normalize each channel."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, eps=self._epsilon)
        x = F.swapaxes(x, 1, self._axis)
        return F.swapaxes(F.InstanceNorm(x, gamma, beta, eps=self._epsilon), 1, self._axis)
