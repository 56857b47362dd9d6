"""Optimizers with a separate rate for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .fused import FusedOptimizer
from .optimizer import register

__all__ = ["AdaDelta", "AdaGrad", "Ftrl", "RMSProp"]


@register
class AdaGrad(FusedOptimizer):
    """``weight -= lr * (grad / sqrt(sum of grad^2 + eps) + wd * weight)`` (Duchi et al., 2011).

    Parameters
    ----------
    eps : float
    **kwargs
        As in `Optimizer`.
    """

    _on_servers = True

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Return the sum of squares, initially zero."""
        return nd.zeros_like(weight)

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        return "_sparse_adagrad_update", (state,)

    def _options(self) -> dict[str, Any]:
        return {"epsilon": self.float_stable_eps}


@register
class AdaDelta(FusedOptimizer):
    """Steps scaled by the ratio of mean squares of steps and gradients (Zeiler, 2012).

    Parameters
    ----------
    rho : float
        Decay rate of the running means of squared gradients and squared steps.
    epsilon : float
    **kwargs
        As in `Optimizer`; the learning rate is not used.
    """

    _operator_name = "_adadelta_update"
    _state_count = 2
    _option_names = ("rho", "epsilon")
    _on_servers = True

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon


@register
class RMSProp(FusedOptimizer):
    """Steps divided by the root mean square of the gradient.

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.001.
    gamma1 : float
        Decay rate of the running mean of squared gradients.
    gamma2 : float
        Momentum of the centered form.
    epsilon : float
    centered : bool
        Graves' form, which subtracts the squared mean; else that of Tieleman and Hinton.
    clip_weights : float, optional
        Clip weights to ``[-clip_weights, clip_weights]``.
    **kwargs
        As in `Optimizer`.
    """

    _option_names = ("gamma1", "gamma2", "epsilon")
    _on_servers = True
    _default_rate = 0.001

    def __init__(
        self,
        learning_rate: float | None = None,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return n, or for the centered form n, g and delta, initially zero."""
        count = 3 if self.centered else 1
        return tuple(nd.zeros_like(weight) for _ in range(count))

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        return "rmspropalex_update" if self.centered else "rmsprop_update", state

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        return options


@register
class Ftrl(FusedOptimizer):
    """Follows the regularized leader, proximal (McMahan et al., 2013).

    Parameters
    ----------
    lamda1 : float
        L1 regularization.
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.1.
    beta : float
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "ftrl_update"
    _state_count = 2
    _option_names = ("lamda1", "beta")
    _on_servers = True
    _default_rate = 0.1

    def __init__(
        self,
        lamda1: float = 0.01,
        learning_rate: float | None = None,
        beta: float = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta
