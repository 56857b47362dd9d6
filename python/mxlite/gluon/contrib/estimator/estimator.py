"""A training loop that calls event handlers."""

from __future__ import annotations

import copy
import itertools
import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ...._progress import track
from ....base import DeviceError, ValueError_
from ....context import Context, cpu, gpu, num_gpus
from ....metric import Loss as LossMetric
from ...block import Block
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
)
from .events import checked_handlers
from .utils import check_known_metrics, checked_metrics, suggested_metric

__all__ = ["Estimator"]

_EVENTS = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)
Handlers = Any


class _MissingContext(DeviceError, AssertionError):
    """The context is a device that does not exist (1.x: ``AssertionError``)."""


class Estimator:
    """Trains and evaluates a network.

    Matches ``mxnet.gluon.contrib.estimator.Estimator``.

    Parameters
    ----------
    net : Block
        Initialized by the estimator if it has no values.
    loss : gluon.loss.Loss
    train_metrics : EvalMetric or list of EvalMetric, optional
        Default: accuracy for `SoftmaxCrossEntropyLoss`, and the loss. Their names get the prefix
        ``training``.
    val_metrics : EvalMetric or list of EvalMetric, optional
        Default: copies of train_metrics, named ``validation ...``.
    initializer : Initializer, optional
    trainer : Trainer, optional
        Default: SGD with learning rate 0.001, with a warning.
    context : Context or list of Context, optional
        Default: the first GPU, or the CPU if there is no GPU.
    val_net : Block, optional
        Network to evaluate instead of ``net``; both share parameters.
    val_loss : gluon.loss.Loss, optional
    batch_processor : BatchProcessor, optional
        Anything with ``fit_batch`` and ``evaluate_batch``.

    Attributes
    ----------
    logger : logging.Logger
        Writes to the standard output.
    current_epoch : int
        Current or last epoch of `fit`, counted from 0.

    Examples
    --------
    >>> est = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    >>> est.fit(train_loader, val_loader, epochs=3)
    """

    logger: logging.Logger
    max_epoch: int | None = None
    max_batch: int | None = None
    batch_axis: int = 0

    def __init__(
        self,
        net: Block,
        loss: Loss,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Trainer | None = None,
        context: Context | Sequence[Context] | None = None,
        val_net: Block | None = None,
        val_loss: Loss | None = None,
        batch_processor: Any = None,
    ) -> None:
        self.net: Any = net
        self.loss = _checked_loss(loss)
        self._train_metrics = list(checked_metrics(train_metrics))
        self._val_metrics = list(checked_metrics(val_metrics))
        self._name_metrics()
        self.val_loss = self.loss if val_loss is None else _checked_loss(val_loss)
        self.val_net: Any = self.net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _checked_context(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = _checked_processor(batch_processor)
        self.current_epoch = 0

    def _name_metrics(self) -> None:
        if not self._train_metrics:
            suggested = suggested_metric(self.loss)
            if suggested is not None:
                self._train_metrics = [suggested]
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("1234567890")))
        for metric in self._train_metrics:
            metric.name = "training " + metric.name
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = "validation " + metric.name

    def _is_initialized(self) -> bool:
        params = self.net.collect_params().values()
        return all(p._data is not None or p._deferred_init for p in params)

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            options = {} if initializer is None else {"init": initializer}
            self.net.initialize(ctx=self.context, **options)
        elif initializer is not None:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to "
                "pass initializer if you already initialized your net. You can use "
                "net.initialize(init=your_initializer, force_reinit=True) to force re-initialize.",
                stacklevel=3,
            )

    def _checked_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warnings.warn(
                "No trainer specified, default SGD optimizer with learning rate 0.001 is used.",
                stacklevel=3,
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError_(
                f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}"
            )
        return trainer

    @property
    def train_metrics(self) -> list[Any]:
        """The metrics of the training data."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        """The metrics of the validation data."""
        return self._val_metrics

    def evaluate(
        self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Handlers = None
    ) -> None:
        """Compute `val_metrics` on a data set.

        Parameters
        ----------
        val_data : DataLoader
        batch_axis : int
            Along which batches are split over the contexts.
        event_handlers : EventHandler or list of EventHandler, optional
        """
        _check_loader(val_data, "gluon.data.DataLoader")
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in track(val_data, "evaluate"):
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Handlers = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for a number of epochs or batches.

        Parameters
        ----------
        train_data : DataLoader
        val_data : DataLoader, optional
            Evaluated after each epoch.
        epochs, batches : int, optional
            Length of the training; give exactly one.
        event_handlers : EventHandler or list of EventHandler, optional
            Handlers to add to `StoppingHandler`. Defaults are added for `GradientUpdateHandler`,
            `MetricHandler`, `ValidationHandler` and `LoggingHandler` if none of the class is
            given.
        batch_axis : int
            Along which batches are split over the contexts.
        """
        _check_loader(train_data, "gluon.data.dataloader")
        if (not epochs) == (not batches):
            raise ValueError_(
                "Fit only support exactly one type of iteration, train by number of epochs or "
                "number of batches.Please specify one and only one of: epochs or batches."
            )
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = (
            self._categorize_handlers(handlers)
        )
        for handler in train_begin:
            handler.train_begin(self)
        for self.current_epoch in itertools.count():
            for handler in epoch_begin:
                handler.epoch_begin(self)
            for batch in track(train_data, f"epoch {self.current_epoch}"):
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                results = [
                    handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                    for handler in batch_end
                ]
                if any(results):
                    break
            if any([handler.epoch_end(self) for handler in epoch_end]):
                break
        for handler in train_end:
            handler.train_end(self)

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Handlers) -> list[Any]:
        given = checked_handlers(event_handlers)
        added: list[EventHandler] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if not _has(given, GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if not _has(given, MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if val_data and not _has(given, ValidationHandler):
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if not _has(given, LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return _joined(given, added, self.train_metrics + self.val_metrics)

    def _prepare_default_validation_handlers(self, event_handlers: Handlers) -> list[Any]:
        given = checked_handlers(event_handlers)
        added: list[EventHandler] = []
        if not _has(given, MetricHandler):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not _has(given, LoggingHandler):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return _joined(given, added, self.val_metrics)

    def _categorize_handlers(self, event_handlers: Sequence[Any]) -> tuple[list[Any], ...]:
        """Return one list of handlers per event: train begin, epoch begin, batch begin, ..."""
        return tuple([h for h in event_handlers if isinstance(h, event)] for event in _EVENTS)


def _has(handlers: Sequence[Any], klass: type) -> bool:
    return any(isinstance(handler, klass) for handler in handlers)


def _joined(given: list[Any], added: list[Any], known: list[Any]) -> list[Any]:
    """Return all handlers sorted by priority; raise if the user's have foreign metrics."""
    handlers = given + added
    if given and added:
        for handler in handlers:
            check_known_metrics(handler, known)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))


def _check_loader(data: Any, where: str) -> None:
    if not isinstance(data, DataLoader):
        raise ValueError_(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform "
            f"your DataIter or any NDArray into Gluon DataLoader. Refer to {where}"
        )


def _checked_loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError_(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
    return loss


def _checked_processor(processor: Any) -> Any:
    if processor is None:
        return BatchProcessor()
    for method in ("fit_batch", "evaluate_batch"):
        if not callable(getattr(processor, method, None)):
            raise ValueError_(
                "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods"
            )
    return processor


def _checked_context(context: Any) -> list[Context]:
    count = num_gpus()
    if not context:
        if count > 1:
            warnings.warn(
                "You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, "
                "specify context as a list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)] ",
                stacklevel=4,
            )
        return [gpu(0)] if count else [cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, list) or not all(isinstance(c, Context) for c in contexts):
        raise ValueError_(
            "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), "
            f"mx.gpu(1)], refer to mxnet.Context:{context}"
        )
    known = [gpu(i) for i in range(count)]
    for ctx in contexts:
        if ctx not in known and not str(ctx).startswith("cpu"):
            raise _MissingContext(
                f"{ctx} is not available, please make sure your context is in one of: mx.cpu(), "
                f"{', '.join(map(str, known))}"
            )
    return contexts
