"""The handlers that every training needs: steps, metrics, validation, logging, the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....base import ValueError_
from ....metric import Loss as LossMetric
from .checkpoint_handler import CheckpointHandler
from .early_stopping import EarlyStoppingHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
)
from .utils import checked_metrics

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
]


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends a training after a number of epochs or batches.

    Parameters
    ----------
    max_epoch, max_batch : int, optional
        `Estimator.fit` sets them.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Copy the limits of this call of `Estimator.fit`."""
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            self.stop_training = True
        return self.stop_training

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            self.stop_training = True
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics after each batch and resets them before each epoch.

    Parameters
    ----------
    metrics : EvalMetric or list of EvalMetric
    priority : int
        Handlers with smaller numbers are called first.
    """

    def __init__(self, metrics: Any, priority: float = -1000) -> None:
        self.metrics = checked_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Update metrics of class Loss with the loss, and all others with the predictions."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates the model after a given number of epochs or batches.

    Parameters
    ----------
    val_data : DataLoader
    eval_fn : callable
        `Estimator.evaluate`, or another function of its arguments.
    epoch_period, batch_period : int, optional
        None: do not evaluate by epochs or by batches, respectively.
    priority : int
    event_handlers : EventHandler or list of EventHandler, optional
        Passed to eval_fn.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def _evaluate(self, estimator: Estimator) -> None:
        self.eval_fn(
            val_data=self.val_data,
            batch_axis=estimator.batch_axis,
            event_handlers=self.event_handlers,
        )

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Evaluate if the batch period has passed."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Evaluate if the epoch period has passed."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes the log lines of 1.x.

    Parameters
    ----------
    log_interval : int or 'epoch'
        Number of batches between two lines; lines of the epochs are always written.
    metrics : EvalMetric or list of EvalMetric, optional
        Metrics that the lines show.
    priority : float
        Order of the calls; by default this handler is called last.
    """

    def __init__(
        self, log_interval: Any = "epoch", metrics: Any = None, priority: float = math.inf
    ) -> None:
        if log_interval != "epoch" and not isinstance(log_interval, int):
            raise ValueError_("log_interval must be either an integer or string 'epoch'")
        self.metrics = checked_metrics(metrics)
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0

    def _values(self) -> str:
        """Return the metrics as ``name: value, name: value``."""
        return ", ".join("{}: {:.4f}".format(*metric.get()) for metric in self.metrics)

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the optimizer and the length of the training."""
        self.train_start = time.time()
        trainer = estimator.trainer
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(trainer.optimizer).__name__,
            trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = self.batch_index = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the duration and the results of the training."""
        seconds = int(time.time() - self.train_start)
        text = f"Train finished using total {seconds}s with {self.current_epoch} epochs. "
        estimator.logger.info((text + self._values()).rstrip(", "))

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Start the clock of a batch."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Write a line after every ``log_interval`` batches."""
        if isinstance(self.log_interval, int):
            self.log_interval_time += time.time() - self.batch_start
            self.processed_samples += kwargs["batch"][0].shape[0]
            if self.batch_index % self.log_interval == 0:
                text = (
                    f"[Epoch {self.current_epoch}][Batch {self.batch_index}]"
                    f"[Samples {self.processed_samples}] "
                    f"time/interval: {self.log_interval_time:.3f}s "
                )
                self.log_interval_time = 0.0
                estimator.logger.info((text + self._values()).rstrip(", "))
        self.batch_index += 1

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Write the line at the start of an epoch or a validation."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f",
                self.current_epoch,
                estimator.trainer.learning_rate,
            )
        else:
            self.current_epoch = estimator.current_epoch
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Write the line of an epoch's end."""
        seconds = time.time() - self.epoch_start
        text = f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, "
        estimator.logger.info((text + self._values()).rstrip(", "))
        self.current_epoch += 1
        self.batch_index = 0


class GradientUpdateHandler(BatchEnd):
    """Makes the trainer's step after each batch.

    Parameters
    ----------
    priority : int
        Order of the calls; by default this handler is called first.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Make a step; the batch size is the number of losses on all contexts."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(part.shape[0] for part in losses))
