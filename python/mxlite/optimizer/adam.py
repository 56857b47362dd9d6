"""Adam and its relatives."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from .optimizer import Optimizer, is_half, register

__all__ = ["FTML", "LAMB", "Adam", "AdamW", "Adamax", "Nadam"]


class _TwoMoments(Optimizer):
    """Shared by the optimizers with a mean and a variance of the gradient."""

    def __init__(
        self, learning_rate: float, beta1: float, beta2: float, epsilon: float, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        for label, value in (("beta1", beta1), ("beta2", beta2)):
            if not 0.0 <= value < 1.0:
                raise ValueError_(
                    f"{type(self).__name__}: {label} is {value}, expected 0 <= {label} < 1"
                )
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return mean and variance, both zero."""
        return (nd.zeros_like(weight), nd.zeros_like(weight))


@register
class Adam(_TwoMoments):
    """``weight -= lr * mean / (sqrt(var) + epsilon)`` (Kingma and Ba, 2014).

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float
        Decay of mean and variance.
    epsilon : float
    lazy_update : bool
        Of a row-sparse gradient, update only the rows that it has.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lazy_update = lazy_update

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, count = self._begin_update(index)
        lr *= math.sqrt(1.0 - self.beta2**count) / (1.0 - self.beta1**count)
        mean, variance = state
        nd.adam_update(
            weight, grad, mean, variance, out=weight, lr=lr, wd=wd, beta1=self.beta1,
            beta2=self.beta2, epsilon=self.epsilon, lazy_update=self.lazy_update,
            **self._op_options(),
        )  # fmt: skip


@register
class AdamW(_TwoMoments):
    """`Adam` with weight decay apart from the gradient (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float
    epsilon : float
    correct_bias : bool
        Correct the means' bias of the first updates.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        correct_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.correct_bias = correct_bias

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, count = self._begin_update(index)
        grad = self._rescaled(grad)
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * nd.square(grad)
        rate = lr
        if self.correct_bias:
            rate *= math.sqrt(1.0 - self.beta2**count) / (1.0 - self.beta1**count)
        weight[:] = weight - (rate * mean / (nd.sqrt(variance) + self.epsilon) + lr * wd * weight)


@register
class Adamax(_TwoMoments):
    """Adam with the infinity norm.

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, 0.0, **kwargs)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, count = self._begin_update(index)
        lr /= 1.0 - self.beta1**count
        grad = self._rescaled(grad, weight, wd)
        mean, largest = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(grad))
        weight[:] = weight - lr * mean / largest


@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum (Dozat, 2016).

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float
    epsilon : float
    schedule_decay : float
        Decay of the momentum's schedule, which all weights share.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def _momentum(self, count: int) -> float:
        return float(self.beta1 * (1.0 - 0.5 * 0.96 ** (count * self.schedule_decay)))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, count = self._begin_update(index)
        grad = self._rescaled(grad, weight, wd)
        now, later = self._momentum(count), self._momentum(count + 1)
        self.m_schedule *= now
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * nd.square(grad)
        ahead = (1.0 - now) / (1.0 - self.m_schedule) * grad
        ahead = ahead + later / (1.0 - self.m_schedule * later) * mean
        spread = variance / (1.0 - self.beta2**count)
        weight[:] = weight - lr * ahead / (nd.sqrt(spread) + self.epsilon)


@register
class FTML(_TwoMoments):
    """Follow the moving leader (Zheng and Kwok, 2017).

    Parameters
    ----------
    beta1, beta2 : float
    epsilon : float
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any
    ) -> None:
        learning_rate = kwargs.pop("learning_rate", None)
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return d, v and z, all zero."""
        return (nd.zeros_like(weight), nd.zeros_like(weight), nd.zeros_like(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, count = self._begin_update(index)
        d, v, z = state
        nd.ftml_update(
            weight, grad, d, v, z, out=weight, lr=lr, wd=wd, t=count, beta1=self.beta1,
            beta2=self.beta2, epsilon=self.epsilon, **self._op_options("clip_grad"),
        )  # fmt: skip


@register
class LAMB(_TwoMoments):
    """Adam with a trust ratio ``|weight| / |step|`` for each layer (You et al., 2019).

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float
    epsilon : float
    lower_bound, upper_bound : float, optional
        Bounds of ``|weight|`` in the ratio.
    bias_correction : bool
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        self._apply(index, weight, grad, state, None)

    def update_multi_precision(
        self, index: Any, weight: NDArray, grad: NDArray, state: Any
    ) -> None:
        """Change a weight in place, and its float32 copy; or several given as lists."""
        if isinstance(index, (list, tuple)):
            for arguments in zip(index, weight, grad, state):
                self.update_multi_precision(*arguments)
        elif self.multi_precision and is_half(weight):
            self._apply(index, weight, grad, state[1], state[0])
        else:
            self._apply(index, weight, grad, state, None)

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, state: Any, master: NDArray | None
    ) -> None:
        lr, wd, count = self._begin_update(index)
        mean, variance = state
        first = {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "t": count,
            "wd": wd,
            **self._op_options(),
        }
        second: dict[str, Any] = {"lr": lr}
        if self.lower_bound:
            second["lower_bound"] = self.lower_bound
        if self.upper_bound:
            second["upper_bound"] = self.upper_bound
        if master is None:
            step = nd.lamb_update_phase1(weight, grad, mean, variance, **first)
            nd.lamb_update_phase2(
                weight, step, nd.norm(weight), nd.norm(step), out=weight, **second
            )
        else:
            step = nd.mp_lamb_update_phase1(weight, grad, mean, variance, master, **first)
            nd.mp_lamb_update_phase2(
                weight, step, nd.norm(master), nd.norm(step), master, out=weight, **second
            )
