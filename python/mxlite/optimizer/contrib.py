"""Additional optimizers (``mx.optimizer.contrib``)."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from .optimizer import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one rate for each row of the weight.

    Parameters
    ----------
    eps : float
    **kwargs
        As in `Optimizer`; weight decay is not supported.
    """

    _by_element = False

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Return the mean squares of the rows, zero."""
        if len(weight.shape) != 2:
            raise ValueError_(
                f"GroupAdaGrad: a weight of shape {tuple(weight.shape)} was given, expected 2 "
                "dimensions"
            )
        return nd.zeros((weight.shape[0], 1), ctx=weight.ctx, dtype=weight.dtype)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        if wd != 0:
            raise ValueError_(f"GroupAdaGrad: wd is {wd}, weight decay is not supported")
        if grad.stype == "row_sparse":
            nd.contrib.group_adagrad_update(
                weight, grad, state, out=weight, lr=lr, epsilon=self.float_stable_eps,
                rescale_grad=self.rescale_grad,
                clip_gradient=self.clip_gradient or -1.0,
            )  # fmt: skip
            return
        grad = self._rescaled(grad)
        state[:] = state + nd.mean(nd.square(grad), axis=1, keepdims=True)
        scale = nd.sqrt(state + self.float_stable_eps)
        weight[:] = weight - lr * nd.broadcast_div(grad, scale)
