"""Optimizers with a rate for each element."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Optimizer, register

__all__ = ["AdaDelta", "AdaGrad", "Ftrl", "RMSProp"]


@register
class AdaGrad(Optimizer):
    """``weight -= lr * (grad / sqrt(sum of grad^2 + eps) + wd * weight)`` (Duchi et al., 2011).

    Parameters
    ----------
    eps : float
    **kwargs
        As in `Optimizer`.
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Return the sum of squares, zero."""
        return nd.zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        if grad.stype == "row_sparse":
            nd.sparse.adagrad_update(
                weight, grad, state, out=weight, lr=lr, wd=wd, epsilon=self.float_stable_eps,
                **self._op_options(),
            )  # fmt: skip
            return
        grad = self._rescaled(grad)
        state[:] = state + nd.square(grad)
        step = grad / nd.sqrt(state + self.float_stable_eps)
        weight[:] = weight - lr * (step + wd * weight)


@register
class AdaDelta(Optimizer):
    """Steps scaled by the ratio of mean squares of steps and gradients (Zeiler, 2012).

    Parameters
    ----------
    rho : float
        Decay of the mean squares.
    epsilon : float
    **kwargs
        As in `Optimizer`; the learning rate is not used.
    """

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the mean squares of gradients and steps, zero."""
        return (nd.zeros_like(weight), nd.zeros_like(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        _, wd, _ = self._begin_update(index)
        grad = self._rescaled(grad)
        squares, steps = state
        squares[:] = self.rho * squares + (1.0 - self.rho) * nd.square(grad)
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * grad
        steps[:] = self.rho * steps + (1.0 - self.rho) * nd.square(step)
        weight[:] = weight - (step + wd * weight)


@register
class RMSProp(Optimizer):
    """Steps divided by the root mean square of the gradient.

    Parameters
    ----------
    learning_rate : float
    gamma1 : float
        Decay of the mean square.
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

    def __init__(
        self,
        learning_rate: float = 0.001,
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
        """Return n, or n, g and delta of the centered form, zero."""
        count = 3 if self.centered else 1
        return tuple(nd.zeros_like(weight) for _ in range(count))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        options: dict[str, Any] = {
            "lr": lr,
            "wd": wd,
            "gamma1": self.gamma1,
            "epsilon": self.epsilon,
            **self._op_options(),
        }
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        if self.centered:
            n, g, delta = state
            nd.rmspropalex_update(
                weight, grad, n, g, delta, out=weight, gamma2=self.gamma2, **options
            )
        else:
            (n,) = state
            nd.rmsprop_update(weight, grad, n, out=weight, **options)


@register
class Ftrl(Optimizer):
    """Follow the regularized leader, proximal (McMahan et al., 2013).

    Parameters
    ----------
    lamda1 : float
        L1 regularization.
    learning_rate : float
    beta : float
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return z and n, zero."""
        return (nd.zeros_like(weight), nd.zeros_like(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        z, n = state
        nd.ftrl_update(
            weight, grad, z, n, out=weight, lr=lr, wd=wd, lamda1=self.lamda1, beta=self.beta,
            **self._op_options(),
        )  # fmt: skip
