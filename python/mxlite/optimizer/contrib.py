"""Additional optimizers (``mx.optimizer.contrib``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import NotSupportedError, ValueError_
from ..ndarray import NDArray
from .optimizer import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one rate per row of the weight.

    Parameters
    ----------
    eps : float
    **kwargs
        As in `Optimizer`; weight decay is not supported.
    """

    _by_element = False
    _row_states = True

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Return the mean squares of the rows, initially zero."""
        if len(weight.shape) != 2:
            raise ValueError_(
                f"GroupAdaGrad: weight must have 2 dimensions, got shape {tuple(weight.shape)}"
            )
        return nd.zeros((weight.shape[0], 1), ctx=weight.ctx, dtype=weight.dtype)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place."""
        lr, wd, _ = self._begin_update(index)
        if wd != 0:
            raise ValueError_(
                f"GroupAdaGrad: wd must be 0, because weight decay is not supported, got {wd}"
            )
        if grad.stype == "row_sparse":
            if self._divided_columns(index) is not None:
                raise NotSupportedError(
                    f"GroupAdaGrad: weight {index} is sharded along axis 1 and has a row_sparse "
                    "gradient; shard it along axis 0, or use a dense gradient"
                )
            nd.contrib.group_adagrad_update(
                weight, grad, state, out=weight, lr=lr, epsilon=self.float_stable_eps,
                rescale_grad=self.rescale_grad,
                clip_gradient=self.clip_gradient or -1.0,
            )  # fmt: skip
            return
        grad = self._rescaled(grad)
        state[:] = state + self._row_means(index, nd.square(grad))
        scale = nd.sqrt(state + self.float_stable_eps)
        weight[:] = weight - lr * nd.broadcast_div(grad, scale)

    def _takes_shards(self) -> bool:
        return type(self).update is GroupAdaGrad.update

    def _divided_columns(self, index: Any) -> int | None:
        """Return the whole weight's number of columns if this process has only part of them."""
        if index not in self._shards:
            return None
        param = self.param_dict[index]
        return int(param.shape[1]) if param.shard[0] % 2 == 1 else None

    def _row_means(self, index: Any, squares: NDArray) -> NDArray:
        """Return the row means of a whole weight; all ranks with its shards must call this."""
        columns = self._divided_columns(index)
        if columns is None:
            means: NDArray = nd.mean(squares, axis=1, keepdims=True)
            return means
        wide = squares if squares.dtype == np.float64 else squares.astype("float32")
        sums = nd.sum(wide, axis=1, keepdims=True)
        whole = nd.contrib.all_reduce(sums, process_set=self._shards[index])
        return (whole / columns).astype(squares.dtype)
