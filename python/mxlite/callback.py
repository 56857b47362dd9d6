"""Callbacks for `Module.fit` and other training loops (``mx.callback``)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, Callable

from ._typed_init import TypedInit
from .module.checkpoint_files import save_checkpoint
from .ndarray import NDArray

__all__ = [
    "LogValidationMetricsCallback",
    "ProgressBar",
    "Speedometer",
    "do_checkpoint",
    "log_train_metric",
    "module_checkpoint",
]


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Return a callback for the end of epochs that saves a module.

    Parameters
    ----------
    mod : BaseModule
    prefix : str
        Prefix of the files, see ``Module.save_checkpoint``.
    period : int
        Epochs between checkpoints, at least 1.
    save_optimizer_states : bool

    Returns
    -------
    callable
        ``callback(epoch, symbol, arg_params, aux_params)``; the last three are not used.
    """
    period = max(1, int(period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback for the end of epochs that saves symbol and parameters.

    Parameters
    ----------
    prefix : str
        Prefix of the files, see ``mx.model.save_checkpoint``.
    period : int
        Epochs between checkpoints, at least 1.

    Returns
    -------
    callable
        ``callback(epoch, symbol, arg_params, aux_params)``.
    """
    period = max(1, int(period))

    def callback(
        iter_no: int, sym: Any, arg: Mapping[str, NDArray], aux: Mapping[str, NDArray]
    ) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """Return a callback for the end of batches that logs the training metric.

    Parameters
    ----------
    period : int
        Batches between lines.
    auto_reset : bool
        Reset the metric after a line.

    Returns
    -------
    callable
        ``callback(param)`` with a `BatchEndParam`.
    """

    def callback(param: Any) -> None:
        if param.nbatch % period or param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
        if auto_reset:
            param.eval_metric.reset_local()

    return callback


class Speedometer(TypedInit):
    """Logs speed and metric every few batches.

    Parameters
    ----------
    batch_size : int
        Samples of a batch on all devices together.
    frequent : int
        Batches between lines.
    auto_reset : bool
        Reset the metric after a line.

    Notes
    -----
    Matches ``mxnet.callback.Speedometer``. The first call of an epoch starts the clock.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: Any) -> None:
        """Log a line if an interval has passed, given a `BatchEndParam`."""
        count = param.nbatch
        if self.last_count > count:  # a new epoch has begun
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
            return
        if count % self.frequent:
            return
        elapsed = time.time() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else math.inf
        metric = param.eval_metric
        if metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
        else:
            values = metric.get_name_value()
            if self.auto_reset:
                metric.reset_local()
            logging.info(
                "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(values),
                param.epoch,
                count - self.frequent if self.auto_reset else 0,
                count,
                speed,
                *(entry for pair in values for entry in pair),
            )
        self.tic = time.time()


class ProgressBar:
    """Logs a bar that shows the progress of an epoch.

    Parameters
    ----------
    total : int
        Batches of an epoch.
    length : int
        Characters of the bar.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def __call__(self, param: Any) -> None:
        """Log the bar, given a `BatchEndParam`."""
        share = param.nbatch / float(self.total)
        done = int(round(self.bar_len * share))
        bar = "=" * done + "-" * (self.bar_len - done)
        logging.info("[%s] %s%s\r", bar, math.ceil(100.0 * share), "%")


class LogValidationMetricsCallback:
    """Logs the metrics at the end of a validation."""

    def __call__(self, param: Any) -> None:
        """Log one line for each metric, given a `BatchEndParam`."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
