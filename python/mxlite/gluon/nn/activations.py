"""Activation layers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ... import _core, initializer
from ...base import ValueError_, suggestion
from ...ndarray import NDArray
from ..block import HybridBlock
from ..parameter import ParameterDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = ["ELU", "GELU", "SELU", "Activation", "LeakyReLU", "PReLU", "Swish", "checked_activation"]

_ACTIVATIONS = re.findall(r"'(\w+)'", _core.describe_op("Activation")["params"][0]["python_type"])


def checked_activation(activation: Any) -> Any:
    """Return a layer's activation: a block, a function, or a name of the operator Activation."""
    if isinstance(activation, str) and activation not in _ACTIVATIONS:
        raise ValueError_(
            f"Activation: activation must be one of {', '.join(_ACTIVATIONS)}, got "
            f"{activation!r}{suggestion(activation, _ACTIVATIONS)}"
        )
    return activation


class Activation(HybridBlock):
    """``y = f(x)`` for a named function.

    Parameters
    ----------
    activation : {'relu', 'sigmoid', 'tanh', 'softrelu', 'softsign'}
    prefix : str, optional
    params : ParameterDict, optional
    """

    _node_op = "activation"

    def __init__(
        self,
        activation: str,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        self._act_type = checked_activation(activation)
        super().__init__(prefix, params)

    def __setattr__(self, name: str, value: Any) -> None:
        # The hint for the prefix is needed before Block.__init__ has run.
        if name == "_act_type":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def _alias(self) -> str:
        return self._act_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.Activation(x, act_type=self._act_type)


class LeakyReLU(HybridBlock):
    """``y = x`` above 0, else ``alpha * x``.

    Parameters
    ----------
    alpha : float
        Slope below 0; not negative.
    """

    _node_op = "leakyrelu"

    def __init__(self, alpha: float, **kwargs: Unpack[BlockOptions]) -> None:
        if alpha < 0:
            raise ValueError_(
                f"LeakyReLU: the slope coefficient alpha must be at least 0, got {alpha}"
            )
        super().__init__(**kwargs)
        self._alpha = alpha

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha)


class PReLU(HybridBlock):
    """`LeakyReLU` whose slopes are learned.

    Parameters
    ----------
    alpha_initializer : Initializer
        Default is the constant 0.25.
    in_channels : int
        1 for one slope, or the number of channels.
    """

    _node_op = "leakyrelu"

    def __init__(
        self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(**kwargs)
        init = initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=init)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu")


class ELU(HybridBlock):
    """``y = x`` above 0, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Scaled exponential linear unit (Klambauer et al., 2017)."""

    _node_op = "leakyrelu"

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, act_type="selu")


class GELU(HybridBlock):
    """``y = x * Phi(x)`` with the normal distribution function (Hendrycks and Gimpel, 2016)."""

    _node_op = "leakyrelu"

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, act_type="gelu")


class Swish(HybridBlock):
    """``y = x * sigmoid(beta * x)``."""

    _node_op = "sigmoid"

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Apply the function element by element."""
        return x * F.sigmoid(self._beta * x)
