"""Compares values of a metric, and ends training when they no longer improve."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base import ValueError_
from ....metric import CompositeEvalMetric, EvalMetric
from .events import EpochEnd, TrainBegin, TrainEnd

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["EarlyStoppingHandler", "better_than", "worst"]

NO_MONITOR = (
    "Please provide one of the metric objects from estimator.train_metrics and "
    "estimator.val_metrics as monitor."
)


def better_than(monitor: EvalMetric, mode: str, handler: str) -> Callable[[Any, Any], Any]:
    """Return ``numpy.less`` or ``numpy.greater``: whether lower or higher values are better."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{handler} mode {mode} is unknown, fallback to auto mode: larger is better for "
            "accuracy and f1, smaller otherwise",
            RuntimeWarning,
            stacklevel=3,
        )
        mode = "auto"
    if mode == "auto":
        name = str(monitor.get()[0]).lower()
        mode = "max" if "acc" in name or "f1" in name else "min"
        chosen, other = ("greater", "less") if mode == "max" else ("less", "greater")
        warnings.warn(
            f"`{chosen}` operator will be used to determine if {monitor.get()[0]} has improved. "
            f"Please specify `mode='{'min' if mode == 'max' else 'max'}'` to use the `{other}` "
            f"operator. Specify `mode='{mode}' to disable this warning.`",
            stacklevel=3,
        )
    return np.greater if mode == "max" else np.less


def worst(operator: Callable[[Any, Any], Any]) -> float:
    """Return infinity or minus infinity, so that any other value is better."""
    return math.inf if operator is np.less else -math.inf


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training when a metric no longer improves.

    Parameters
    ----------
    monitor : EvalMetric
        One of the estimator's metrics.
    min_delta : float
        Smaller changes do not count.
    patience : int
        Epochs without a better value.
    mode : {'auto', 'min', 'max'}
    baseline : float, optional
        Value that the metric must improve on within ``patience`` epochs.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        if not isinstance(monitor, EvalMetric):
            raise ValueError_(NO_MONITOR)
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError_(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a "
                "simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = better_than(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the state of an earlier training."""
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Compare the metric with its best value; return True to end the training."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from "
                "estimator.train_metrics and estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log if this handler has ended the training."""
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )
