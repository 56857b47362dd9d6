"""Saving parameters and trainer states while an estimator trains."""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

from ....base import FileFormatError, MissingFileError, MXNetError, ValueError_
from ....metric import EvalMetric
from ...block import HybridBlock
from ...block.exporting import exported_symbol
from .early_stopping import better_than, worst
from .events import BatchEnd, EpochEnd, TrainBegin

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["CheckpointHandler"]


class PeriodError(MXNetError, AssertionError):
    """Saving counts epochs but training batches, or the reverse (1.x: ``AssertionError``)."""


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves the model after every so many epochs or batches, and the best one.

    Files are ``<prefix>-symbol.json``, ``<prefix>-epoch<E>batch<B>.params`` and ``.states``, and
    ``<prefix>-best.params`` and ``.states``; each is replaced only when it is complete.

    Matches ``mxnet.gluon.contrib.estimator.CheckpointHandler``. To continue bit for bit, use
    `mxlite.checkpoint`.

    Parameters
    ----------
    model_dir : str
        Made if it does not exist.
    model_prefix : str
    monitor : EvalMetric, optional
        Metric that decides which model is the best.
    verbose : int
        Above 0: a log line for each file.
    save_best : bool
        Save the best model too; needs ``monitor``.
    mode : {'auto', 'min', 'max'}
        Which values of ``monitor`` are better.
    epoch_period, batch_period : int, optional
    max_checkpoints : int
        Number of checkpoints to keep, besides the best model; older ones are deleted.
    resume_from_checkpoint : bool
        Load the last checkpoint when training starts, and train for the remaining epochs only.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str],
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        self.monitor = monitor
        self.verbose = verbose
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir = os.fspath(model_dir)
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ValueError_(
                    "To save best model only, please provide one of the metric objects from "
                    "estimator.train_metrics and estimator.val_metrics as monitor."
                )
            self.monitor_op = better_than(monitor, mode, "ModelCheckpoint")
            self.best = worst(self.monitor_op)

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Count from 0, or load the last checkpoint."""
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self.best = worst(self.monitor_op)
        if not self.resume_from_checkpoint:
            return
        by_batch = bool(estimator.max_batch)
        wanted, unwanted = self.batch_period, self.epoch_period
        if not by_batch:
            wanted, unwanted = unwanted, wanted
        if not wanted or unwanted:
            raise PeriodError(
                "To use resume from checkpoint, you must only specify the same type of period you "
                "used for training. For example, if you are training based on number of epochs, "
                "you must save only based on epochs, and set batch_period to None."
            )
        self._resume(estimator)

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save after every ``batch_period`` batches; save the symbol after the first batch."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save after every ``epoch_period`` epochs."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    # -- saving ----------------------------------------------------------------------------------

    def _save_checkpoint(self, estimator: Estimator) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:  # continue the numbering of the earlier training
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_model(estimator, prefix)
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with "
                "prefix: %s",
                self.current_epoch,
                self.current_batch + 1,
                self.model_dir,
                prefix,
            )
        if self.save_best:
            self._save_if_best(estimator)

    def _save_if_best(self, estimator: Estimator) -> None:
        assert self.monitor is not None
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the "
                "metric objects estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        if not self.monitor_op(value, self.best):
            if self.verbose > 0:
                estimator.logger.info(
                    "[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping "
                    "updating best model",
                    self.current_epoch,
                    name,
                    self.best,
                )
            return
        prefix = self.model_prefix + "-best"
        self._save_model(estimator, prefix)
        before, self.best = self.best, value
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best "
                "model at %s with prefix: %s",
                self.current_epoch,
                name,
                before,
                value,
                self.model_dir,
                prefix,
            )

    def _save_symbol(self, estimator: Estimator) -> None:
        path = os.path.join(self.model_dir, self.model_prefix + "-symbol.json")
        if isinstance(estimator.net, HybridBlock) and estimator.net._compilation.graphs:
            exported_symbol(estimator.net)[0].save(path)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct "
                "your model, and call net.hybridize() before passing to Estimator in order to save "
                "model architecture as %s.",
                path,
            )

    def _save_model(self, estimator: Estimator, prefix: str) -> None:
        path = os.path.join(self.model_dir, prefix)
        estimator.net.save_parameters(path + ".params")
        estimator.trainer.save_states(path + ".states")
        if prefix == self.model_prefix + "-best":
            return
        self.saved_checkpoints.append(prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            old = os.path.join(self.model_dir, self.saved_checkpoints.pop(0))
            for suffix in (".params", ".states"):
                if os.path.exists(old + suffix):
                    os.remove(old + suffix)

    # -- loading ---------------------------------------------------------------------------------

    def _resume(self, estimator: Estimator) -> None:
        self.trained_epoch, self.trained_batch = self._last_saved()
        if self.trained_epoch < 0:
            amount = _amount(estimator)
            estimator.logger.info(
                "CheckpointHandler: No checkpoint found, training from scratch for %s", amount
            )
            return
        if estimator.max_epoch:
            estimator.max_epoch = self._left(estimator.max_epoch, self.trained_epoch, "epoch")
        if estimator.max_batch:
            estimator.max_batch = self._left(estimator.max_batch, self.trained_batch, "batch")
        path = os.path.join(
            self.model_dir,
            f"{self.model_prefix}-epoch{self.trained_epoch}batch{self.trained_batch}",
        )
        for suffix in (".params", ".states"):
            if not os.path.exists(path + suffix):
                raise MissingFileError(f"Failed to load checkpoint, {path}{suffix} does not exist")
        estimator.net.load_parameters(path + ".params", ctx=estimator.context)
        estimator.trainer.load_states(path + ".states")
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for "
            "%s ",
            self.trained_epoch,
            self.trained_batch,
            _amount(estimator),
        )

    @staticmethod
    def _left(limit: int, trained: int, unit: str) -> int:
        if trained >= limit - 1:
            raise ValueError_(
                f"Found checkpoint with maximum number of {unit} {limit} reached, please specify "
                "resume_from_checkpoint=False (default value) if you want to train from scratch."
            )
        return limit - trained - 1

    def _last_saved(self) -> tuple[int, int]:
        """Return epoch and batch of the last checkpoint in the folder; -1, -1 if it has none."""
        begin = self.model_prefix + "-epoch"
        found = [(-1, -1)]
        for name in os.listdir(self.model_dir):
            if not name.startswith(begin) or not name.endswith(".params"):
                continue
            match = re.fullmatch(r"(\d+)batch(\d+)\.params", name[len(begin) :])
            if match is None:
                raise FileFormatError(
                    f"Error parsing checkpoint file {name!r}, please check your checkpoints have "
                    "the format: {model_name}-epoch{epoch_number}batch{batch_number}.params, there "
                    "should also be a .states file for each .params file"
                )
            found.append((int(match[1]), int(match[2])))
        return max(found)


def _amount(estimator: Estimator) -> str:
    """Return the length of a training as text: ``3 epochs`` or ``100 batches``."""
    if estimator.max_batch:
        return f"{estimator.max_batch} batches"
    return f"{estimator.max_epoch} epochs"
