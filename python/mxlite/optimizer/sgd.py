"""Stochastic gradient descent and its relatives."""

from __future__ import annotations

import logging
import math
from typing import Any

from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from .optimizer import Optimizer, is_half, register

__all__ = ["DCASGD", "LARS", "LBSGD", "NAG", "SGD", "SGLD", "Signum", "ccSGD"]


class _MomentumOptimizer(Optimizer):
    """A momentum, and states ``(momentum, float32 weight)`` in mixed precision."""

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        """Return the momentum, None when there is none."""
        return nd.zeros_like(weight) if self.momentum != 0.0 else None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum, and the float32 copy of a half-precision weight."""
        if self.multi_precision and is_half(weight):
            master = weight.astype("float32")
            return (self.create_state(index, master), master)
        return super().create_state_multi_precision(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place, or several given as lists."""
        if isinstance(index, (list, tuple)):
            for arguments in zip(index, weight, grad, state):
                self.update(*arguments)
            return
        self._apply(index, weight, grad, state, None)

    def update_multi_precision(
        self, index: Any, weight: NDArray, grad: NDArray, state: Any
    ) -> None:
        """Change a weight in place, and its float32 copy; or several given as lists."""
        if isinstance(index, (list, tuple)):
            for arguments in zip(index, weight, grad, state):
                self.update_multi_precision(*arguments)
            return
        if self.multi_precision and is_half(weight):
            self._apply(index, weight, grad, state[0], state[1])
        else:
            self._apply(index, weight, grad, state, None)

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None
    ) -> None:
        raise NotImplementedError


def _sgd_step(
    weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None, options: dict[str, Any]
) -> None:
    """Run the fused operator that fits the state; ``options`` has ``momentum``."""
    if mom is None:
        options = {key: value for key, value in options.items() if key != "momentum"}
        if master is None:
            nd.sgd_update(weight, grad, out=weight, **options)
        else:
            nd.mp_sgd_update(weight, grad, master, out=weight, **options)
    elif master is None:
        nd.sgd_mom_update(weight, grad, mom, out=weight, **options)
    else:
        nd.mp_sgd_mom_update(weight, grad, mom, master, out=weight, **options)


@register
class SGD(_MomentumOptimizer):
    """``mom = momentum * mom - lr * (grad + wd * weight); weight += mom``.

    Parameters
    ----------
    momentum : float
    lazy_update : bool
        Of a row-sparse gradient, update only the rows that it has.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None
    ) -> None:
        lr, wd, _ = self._begin_update(index)
        options = {"lr": lr, "wd": wd, "momentum": self.momentum, **self._op_options()}
        if master is None and not self.lazy_update:
            options["lazy_update"] = False
        _sgd_step(weight, grad, mom, master, options)


@register
class ccSGD(SGD):  # noqa: N801 - MXNet's name
    """`SGD` under its old name."""


@register
class NAG(_MomentumOptimizer):
    """SGD with Nesterov's momentum.

    Parameters
    ----------
    momentum : float
    **kwargs
        As in `Optimizer`.
    """

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None
    ) -> None:
        lr, wd, _ = self._begin_update(index)
        options = {"lr": lr, "wd": wd, **self._op_options()}
        if mom is None:
            _sgd_step(weight, grad, None, master, options)
        elif master is None:
            nd.nag_mom_update(weight, grad, mom, out=weight, momentum=self.momentum, **options)
        else:
            nd.mp_nag_mom_update(
                weight, grad, mom, master, out=weight, momentum=self.momentum, **options
            )


@register
class LARS(_MomentumOptimizer):
    """SGD with a rate for each layer (You et al., 2017).

    The rate is ``lr * eta * |w| / (|grad| + wd * |w| + eps)``. Under a Module gammas, betas and
    biases keep ``lr``; under a Trainer, which gives no names, all parameters are scaled as in 1.x.

    Parameters
    ----------
    momentum : float
    lazy_update : bool
        Without effect on dense gradients.
    eta, eps : float
    momentum_correction : bool
        Scale the momentum when the learning rate changes.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update
        self.eta = eta
        self.eps = eps
        self.momentum_correction = momentum_correction
        self.last_lr: dict[Any, float] = {}

    def _layer_rate(
        self, index: Any, weight: NDArray, grad: NDArray, lr: float, wd: float
    ) -> float:
        name = self.idx2name.get(index, "")  # under a Trainer parameters have numbers only
        if name.endswith(("gamma", "beta", "bias")):
            return lr
        weight_norm = _norm(weight)
        grad_norm = _norm(self._rescaled(grad))
        if weight_norm > 0.0 and grad_norm > 0.0:
            return lr * self.eta * weight_norm / (grad_norm + wd * weight_norm + self.eps)
        return lr

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None
    ) -> None:
        base, wd, _ = self._begin_update(index)
        lr = self._layer_rate(index, weight if master is None else master, grad, base, wd)
        momentum = self.momentum
        before = self.last_lr.get(index, 0.0)
        if self.momentum_correction and before:
            momentum *= base / before
        self.last_lr[index] = base
        options = {"lr": lr, "wd": wd, "momentum": momentum, **self._op_options()}
        _sgd_step(weight, grad, mom, master, options)


@register
class LBSGD(_MomentumOptimizer):
    """SGD for large batches: gradients are gathered, the rate is warmed up or chosen by layer.

    Parameters
    ----------
    momentum : float
    multi_precision : bool
    warmup_strategy : {'linear', 'power2', 'sqrt', 'lars'}
    warmup_epochs : int
    batch_scale : int
        Number of gradients that make one update.
    updates_per_epoch : int
    begin_epoch, num_epochs : int
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(momentum, multi_precision=multi_precision, **kwargs)
        if warmup_strategy not in ("linear", "power2", "sqrt", "lars"):
            raise ValueError_(
                f"LBSGD: warmup_strategy is {warmup_strategy!r}, expected 'linear', 'power2', "
                "'sqrt' or 'lars'"
            )
        logging.info("Running Large-Batch SGD Algorithm")
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self._gathered: dict[Any, tuple[int, NDArray | None]] = {}

    def _warmup_factor(self, count: int) -> float:
        warmup = self.warmup_epochs * self.updates_per_epoch
        if count >= warmup:
            return float(self.batch_scale)
        if warmup <= 1:
            return 1.0
        done = count / warmup
        shape = {"linear": done, "power2": done * done, "sqrt": math.sqrt(done)}
        return 1.0 + (self.batch_scale - 1) * shape[self.warmup_strategy]

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, mom: Any, master: NDArray | None
    ) -> None:
        lr, wd, _ = self._begin_update(index)
        count, total = self._gathered.get(index, (self.init_updates, None))
        count += 1
        total = grad.copy() if total is None else total + grad
        if count % self.batch_scale:
            self._gathered[index] = (count, total)
            return
        self._gathered[index] = (count, None)
        grad = total / self.batch_scale
        if self.warmup_strategy == "lars":
            weights = weight if master is None else master
            squares = _norm(weights) ** 2
            ratio = squares / (_norm(grad) ** 2 + wd * squares + 1e-18)
            lr *= min(max(math.sqrt(ratio), 0.01), 100.0)
        else:
            lr *= self._warmup_factor(count)
        options = {"lr": lr, "wd": wd, "momentum": self.momentum, **self._op_options()}
        _sgd_step(weight, grad, mom, master, options)


@register
class Signum(Optimizer):
    """Steps by the sign of the momentum (Bernstein et al., 2018).

    Parameters
    ----------
    learning_rate : float
    momentum : float
        0 gives signSGD.
    wd_lh : float
        Weight decay apart from the gradient.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        wd_lh: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        """Return the momentum, None when there is none."""
        return nd.zeros_like(weight) if self.momentum != 0.0 else None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        options = self._op_options()
        if state is None:
            nd.signsgd_update(weight, grad, out=weight, lr=lr, wd=wd, **options)
        else:
            nd.signum_update(
                weight, grad, state, out=weight, lr=lr, wd=wd, momentum=self.momentum,
                wd_lh=self.wd_lh, **options,
            )  # fmt: skip


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step, and noise of variance ``lr``."""

    _same_everywhere = False

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        grad = self._rescaled(grad)
        noise = nd.random.normal(
            0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.ctx
        )
        weight[:] = weight - lr / 2 * (grad + wd * weight) + noise


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD (Zheng et al., 2016).

    Parameters
    ----------
    momentum : float
    lamda : float
        Strength of the compensation.
    **kwargs
        As in `Optimizer`.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum or None, and the previous weight."""
        momentum = nd.zeros_like(weight) if self.momentum != 0.0 else None
        return (momentum, weight.copy())

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        grad = self._rescaled(grad)
        mom, previous = state
        compensation = self.lamda * grad * grad * (weight - previous)
        step = -lr * (grad + wd * weight + compensation)
        if mom is not None:
            mom[:] = self.momentum * mom + step
            step = mom
        previous[:] = weight
        weight[:] = weight + step


def _norm(array: NDArray) -> float:
    """Return the 2-norm of all elements, computed in float32."""
    return math.sqrt(float(nd.sum(nd.square(array.astype("float32"))).asscalar()))
