"""Processes one batch for an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import autograd
from ....ndarray import NDArray
from ...utils import split_and_load

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchProcessor"]

Parts = list[NDArray]


class BatchProcessor:
    """Runs network and loss on a batch; derive from it for batches of another kind.

    Matches ``mxnet.gluon.contrib.estimator.BatchProcessor``.
    """

    def _get_data_and_label(self, batch: Any, ctx: Any, batch_axis: int = 0) -> tuple[Parts, Parts]:
        """Split data and labels over the contexts."""
        data = split_and_load(batch[0], ctx_list=ctx, batch_axis=batch_axis)
        label = split_and_load(batch[1], ctx_list=ctx, batch_axis=batch_axis)
        return data, label

    def evaluate_batch(
        self, estimator: Estimator, val_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Compute predictions and losses without recording.

        Parameters
        ----------
        estimator : Estimator
        val_batch : list
            Data and labels.
        batch_axis : int

        Returns
        -------
        data, label, pred, loss : list of NDArray
            One entry for each context.
        """
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(out, y) for out, y in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: Estimator, train_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Compute predictions, losses and gradients; `GradientUpdateHandler` makes the step.

        Parameters
        ----------
        estimator : Estimator
        train_batch : list
            Data and labels.
        batch_axis : int

        Returns
        -------
        data, label, pred, loss : list of NDArray
            One entry for each context.
        """
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(out, y) for out, y in zip(pred, label)]
        autograd.backward(loss)
        return data, label, pred, loss
