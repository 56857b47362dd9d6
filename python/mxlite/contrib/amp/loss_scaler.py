"""The dynamic scale of a loss."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ... import autograd
from ... import ndarray as nd

__all__ = ["LossScaler"]

_START, _LARGEST, _FACTOR = 2.0**16, 2.0**24, 2.0
_WINDOW = 2000
# Gradients are checked in groups: an operator takes only so many inputs well.
_GROUP = 200


class LossScaler:
    """Doubles the scale after 2,000 steps without overflow and halves it after one with it.

    Notes
    -----
    Matches ``mxnet.contrib.amp.loss_scaler.LossScaler``: starts at 2^16, goes up to 2^24, and a
    new scale counts from the step after the next check on.
    """

    def __init__(self) -> None:
        self._loss_scale = _START
        self._next_loss_scale = self._loss_scale
        self._max_loss_scale = _LARGEST
        self._scale_seq_len = _WINDOW
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The scale of this step's loss."""
        return self._loss_scale

    def has_overflow(self, params: Iterable[Any]) -> bool:
        """Say whether a gradient has an infinity or NaN, and choose the next scale.

        Parameters
        ----------
        params : iterable of Parameter
            Those without gradients are left out.

        Returns
        -------
        bool
        """
        grads = [
            grad
            for param in params
            if param.grad_req != "null" and param._data is not None
            for grad in param.list_grad()
        ]
        overflow = not _all_finite(grads)
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._next_loss_scale = self._loss_scale / _FACTOR
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * _FACTOR)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflow


def _all_finite(arrays: list[Any]) -> bool:
    by_context: dict[Any, list[Any]] = {}
    for array in arrays:
        values = array if array.stype == "default" else array.data
        if values.size:
            by_context.setdefault(values.ctx, []).append(values)
    with autograd.pause():
        checks = [
            nd.multi_all_finite(*group[at : at + _GROUP], num_arrays=len(group[at : at + _GROUP]))
            for group in by_context.values()
            for at in range(0, len(group), _GROUP)
        ]
        return all(bool(check.asnumpy()[0]) for check in checks)
