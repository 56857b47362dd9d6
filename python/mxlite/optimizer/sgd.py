"""Stochastic gradient descent and its relatives."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from ..ndarray.structure import in_class_of
from .fused import FusedOptimizer, Weights
from .half import is_half
from .optimizer import Optimizer, register
from .shards import whole_squares

__all__ = ["DCASGD", "LARS", "LBSGD", "NAG", "SGD", "SGLD", "Signum", "ccSGD"]


class _MomentumOptimizer(FusedOptimizer):
    """Base of optimizers with momentum; mixed precision has states ``(momentum, weight32)``."""

    _operator_name = "sgd_mom_update"
    _option_names: ClassVar[tuple[str, ...]] = ("momentum",)

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        """Return the momentum, or None if there is none."""
        return nd.zeros_like(weight) if self.momentum != 0.0 else None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum, and the float32 copy of a half-precision weight."""
        if self.multi_precision and is_half(weight):
            master = weight.astype("float32")
            return (self.create_state(index, master), master)
        return super().create_state_multi_precision(index, weight)

    def _split_state(self, state: Any) -> tuple[NDArray, Any]:
        inner, master = state
        return master, inner

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        return ("sgd_update", ()) if state is None else (self._operator_name, (state,))


@register
class SGD(_MomentumOptimizer):
    """``mom = momentum * mom - lr * (grad + wd * weight); weight += mom``.

    Parameters
    ----------
    momentum : float
    lazy_update : bool
        Update only the rows that a row-sparse gradient has.
    **kwargs
        As in `Optimizer`.
    """

    _option_names = ("momentum", "lazy_update")
    _on_servers = True

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update


@register
class ccSGD(SGD):  # noqa: N801 - MXNet's name
    """`SGD` under its old name."""

    _on_servers = True


@register
class NAG(_MomentumOptimizer):
    """SGD with Nesterov's momentum.

    Parameters
    ----------
    momentum : float
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "nag_mom_update"
    _on_servers = True


@register
class LARS(_MomentumOptimizer):
    """SGD with a separate rate per layer (You et al., 2017).

    The rate is ``lr * eta * |w| / (|grad| + wd * |w| + eps)``. Under a Module gammas, betas and
    biases keep ``lr``; under a Trainer, which gives no names, all parameters are scaled as in 1.x.

    Parameters
    ----------
    momentum : float
    lazy_update : bool
        Has no effect on dense gradients.
    eta, eps : float
    momentum_correction : bool
        Scale the momentum when the learning rate changes.
    **kwargs
        As in `Optimizer`.
    """

    _by_element = False
    _sums_shards = True

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

    def _takes_scale(self) -> bool:
        return False  # the rates depend on the gradients

    def _hyper(self, batch: Weights) -> dict[str, Any]:
        # A Trainer passes no names, so all of its parameters are scaled.
        scaled = [
            i
            for i, index in enumerate(batch.indices)
            if not self.idx2name.get(index, "").endswith(("gamma", "beta", "bias"))
        ]
        exact = [_exact(batch, i) for i in scaled]
        grads = [batch.grads[i] for i in scaled]
        factor = self.rescale_grad
        if self.clip_gradient is not None:
            grads, factor = [self._rescaled(grad) for grad in grads], 1.0
        lrs, momenta = list(batch.lrs), []
        indices = [batch.indices[i] for i in scaled]
        weight_norms, grad_norms = self._norms(indices, exact), self._norms(indices, grads)
        for i, weight_norm, grad_norm in zip(scaled, weight_norms, grad_norms):
            lr, wd = batch.lrs[i], batch.wds[i]
            grad_norm *= abs(factor)
            if weight_norm > 0.0 and grad_norm > 0.0:
                lrs[i] = lr * self.eta * weight_norm / (grad_norm + wd * weight_norm + self.eps)
        for index, base in zip(batch.indices, batch.lrs):
            before = self.last_lr.get(index, 0.0)
            corrected = self.momentum_correction and before
            momenta.append(self.momentum * (base / before) if corrected else self.momentum)
            self.last_lr[index] = base
        return {**super()._hyper(batch), "lr": lrs, "momentum": momenta}

    def _norms(self, indices: Sequence[Any], arrays: Sequence[NDArray]) -> list[float]:
        """Return the 2-norms of whole weights or gradients, waiting only once."""
        if not any(index in self._shards for index in indices):
            return _norms(arrays)
        squares = whole_squares(indices, arrays, self._shards).asnumpy()
        return [math.sqrt(float(square)) for square in squares]


@register
class LBSGD(_MomentumOptimizer):
    """SGD for large batches: accumulates gradients; the rate has a warm-up or depends on the layer.

    Parameters
    ----------
    momentum : float
    multi_precision : bool
    warmup_strategy : {'linear', 'power2', 'sqrt', 'lars'}
    warmup_epochs : int
    batch_scale : int
        Number of gradients that are summed for one update.
    updates_per_epoch : int
    begin_epoch, num_epochs : int
    **kwargs
        As in `Optimizer`.
    """

    _by_element = False
    _sums_shards = True

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
                "LBSGD: warmup_strategy must be 'linear', 'power2', 'sqrt' or 'lars', got "
                f"{warmup_strategy!r}"
            )
        logging.info("Running Large-Batch SGD Algorithm")
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self._gathered: dict[Any, tuple[int, NDArray | None]] = {}

    def _takes_scale(self) -> bool:
        return False  # the rates depend on the gradients

    def _warmup_factor(self, count: int) -> float:
        warmup = self.warmup_epochs * self.updates_per_epoch
        if count >= warmup:
            return float(self.batch_scale)
        if warmup <= 1:
            return 1.0
        done = count / warmup
        shape = {"linear": done, "power2": done * done, "sqrt": math.sqrt(done)}
        return 1.0 + (self.batch_scale - 1) * shape[self.warmup_strategy]

    def _run(self, batch: Weights, hyper: dict[str, Any]) -> None:
        for i, index in enumerate(batch.indices):
            count, total = self._gathered.get(index, (self.init_updates, None))
            count += 1
            total = batch.grads[i].copy() if total is None else total + batch.grads[i]
            done = count % self.batch_scale == 0
            self._gathered[index] = (count, None if done else total)
            if not done:
                continue
            grad, lr, wd = total / self.batch_scale, batch.lrs[i], batch.wds[i]
            if self.warmup_strategy == "lars":
                weight_norm, grad_norm = self._two_norms(index, _exact(batch, i), grad)
                squares = weight_norm**2
                ratio = squares / (grad_norm**2 + wd * squares + 1e-18)
                lr *= min(max(math.sqrt(ratio), 0.01), 100.0)
            else:
                lr *= self._warmup_factor(count)
            one = batch.only(i)._replace(grads=[grad])
            super()._run(one, {**hyper, "lr": [lr], "wd": [wd]})

    def _two_norms(self, index: Any, weight: NDArray, grad: NDArray) -> list[float]:
        """Return the 2-norms of a whole weight and of its gradient."""
        if index not in self._shards:
            return [_norm(weight), _norm(grad)]
        squares = whole_squares([index, index], [weight, grad], self._shards).asnumpy()
        return [math.sqrt(float(square)) for square in squares]


@register
class Signum(FusedOptimizer):
    """Steps in the direction of the momentum's sign (Bernstein et al., 2018).

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.01.
    momentum : float
        0 gives signSGD.
    wd_lh : float
        Weight decay apart from the gradient.
    **kwargs
        As in `Optimizer`.
    """

    _option_names = ("momentum", "wd_lh")
    _on_servers = True
    _default_rate = 0.01

    def __init__(
        self,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        wd_lh: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        """Return the momentum, or None if there is none."""
        return nd.zeros_like(weight) if self.momentum != 0.0 else None

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        return ("signsgd_update", ()) if state is None else ("signum_update", (state,))


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
        weight[:] = weight - lr / 2 * (grad + wd * weight) + in_class_of(noise, weight)


@register
class DCASGD(FusedOptimizer):
    """Delay-compensated asynchronous SGD (Zheng et al., 2016).

    Parameters
    ----------
    momentum : float
    lamda : float
        Factor of the term that compensates for the delay of gradients.
    **kwargs
        As in `Optimizer`.
    """

    _option_names = ("momentum", "lamda")

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum or None, and the previous weight."""
        momentum = nd.zeros_like(weight) if self.momentum != 0.0 else None
        return (momentum, weight.copy())

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        mom, previous = state
        return ("_dcasgd_update", (previous,)) if mom is None else ("_dcasgd_mom_update", state)


def _norm(array: NDArray) -> float:
    """Return the 2-norm of all elements, computed in float32."""
    return math.sqrt(float(nd.sum(nd.square(array.astype("float32"))).asscalar()))


def _norms(arrays: Sequence[NDArray]) -> list[float]:
    """Return the 2-norm of each array, computed in float32, waiting only once."""
    if not all(array.stype == "default" for array in arrays):
        return [_norm(array) for array in arrays]
    if not arrays:
        return []
    squares = nd.multi_sum_sq(*arrays, num_arrays=len(arrays)).asnumpy()
    return [math.sqrt(float(square)) for square in squares]


def _exact(batch: Weights, i: int) -> NDArray:
    """Return a weight, or its float32 copy if there is one."""
    master = batch.masters[i]
    return batch.weights[i] if master is None else master
