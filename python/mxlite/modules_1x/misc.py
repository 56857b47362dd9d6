"""Learning rate schedulers of the first versions of MXNet (``mx.misc``)."""

from __future__ import annotations

import logging

from ..base import ValueError_

__all__ = ["FactorScheduler", "LearningRateScheduler"]


class LearningRateScheduler:
    """Base of schedulers: a call with the iteration number returns the learning rate."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        """Return the learning rate."""
        raise NotImplementedError("must override this")


class FactorScheduler(LearningRateScheduler):
    """Multiplies the rate by a factor after a fixed number of iterations.

    Parameters
    ----------
    step : int
    factor : float
        Below 1.
    """

    def __init__(self, step: int, factor: float = 0.1) -> None:
        super().__init__()
        if step < 1:
            raise ValueError_(f"Schedule step must be greater or equal than 1 round, got {step}")
        if factor >= 1.0:
            raise ValueError_(f"Factor must be less than 1 to make lr reduce, got {factor}")
        self.step = step
        self.factor = factor
        self.old_lr: float | None = None

    def __call__(self, iteration: int) -> float:
        """Return the learning rate; log changes."""
        lr = self.base_lr * self.factor ** (iteration // self.step)
        if self.old_lr is not None and lr != self.old_lr:
            logging.info("At Iteration [%d]: Swith to new learning rate %.5f", iteration, lr)
        self.old_lr = lr
        return lr
