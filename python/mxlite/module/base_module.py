"""Code shared by all modules: training, prediction, scores, parameter files."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import metric as _metric
from .. import ndarray as nd
from .._progress import track
from .._typed_init import TypedInit
from ..base import NotSupportedError, TypeError_, ValueError_
from ..io import DataBatch
from ..ndarray import NDArray
from .checkpoint_files import read_params, write_params
from .common import DEFAULT_INITIALIZER, ModuleStateError, as_list, call_all

__all__ = ["BaseModule", "ModuleStateError"]


class BaseModule(TypedInit):
    """Base of modules. A module defines bind, init_params, forward, backward, update, ...

    Parameters
    ----------
    logger : optional
        Has ``info`` and ``warning``.
    """

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    def _need(self, *states: str) -> None:
        """Raise if one of the state flags, such as ``binded``, is not set."""
        steps = {
            "binded": "bind",
            "params_initialized": "init_params",
            "optimizer_initialized": "init_optimizer",
        }
        for state in states:
            if not getattr(self, state):
                step = steps.get(state, f"bind with {state}=True")
                raise ModuleStateError(f"{type(self).__name__}: call {step} before this")

    # -- high level ------------------------------------------------------------------------------

    def forward_backward(self, data_batch: Any) -> None:
        """Run forward in training mode, and backward, on a `DataBatch`."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(
        self,
        eval_data: Any,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """Evaluate a metric on data.

        Parameters
        ----------
        eval_data : DataIter
        eval_metric : EvalMetric or what ``metric.create`` takes
        num_batch : int, optional
            Batches to use; None: all.
        batch_end_callback, score_end_callback : callable or list of callable, optional
        reset : bool
            Reset the iterator before.
        epoch : int
            Number that callbacks get.
        sparse_row_id_fn : callable, optional
        """
        self._need("binded", "params_initialized")
        if reset:
            eval_data.reset()
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for nbatch, batch in enumerate(track(eval_data, "score", quiet=bool(batch_end_callback))):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn)
            self.forward(batch, is_train=False)
            self._take_metric(eval_metric, batch)
            count += 1
            call_all(batch_end_callback, epoch, nbatch, eval_metric, locals())
        call_all(score_end_callback, epoch, count, eval_metric, locals())
        return eval_metric.get_name_value()

    def _take_metric(self, eval_metric: Any, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [part.label for part in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        reset: bool = True,
        sparse_row_id_fn: Any = None,
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """Yield outputs, number and batch for each batch of data.

        Parameters
        ----------
        eval_data : DataIter
        num_batch : int, optional
        reset : bool
        sparse_row_id_fn : callable, optional

        Yields
        ------
        (list of NDArray, int, DataBatch)
            The outputs without the padding of the batch.
        """
        self._need("binded", "params_initialized")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(track(eval_data, "predict")):
            if nbatch == num_batch:
                return
            self.prepare(batch, sparse_row_id_fn)
            self.forward(batch, is_train=False)
            pad = batch.pad or 0
            yield [out[: out.shape[0] - pad] for out in self.get_outputs()], nbatch, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """Return the outputs for data.

        Parameters
        ----------
        eval_data : DataIter, NDArray or numpy.ndarray
        num_batch : int, optional
        merge_batches : bool
            Join the batches; else one list for each batch.
        reset : bool
        always_output_list : bool
            Return a list even if there is one output.
        sparse_row_id_fn : callable, optional

        Returns
        -------
        NDArray or list
        """
        self._need("binded", "params_initialized")
        if isinstance(eval_data, (NDArray, np.ndarray)):
            data = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self.forward(DataBatch([data]), is_train=False)
            return self.get_outputs()[0]
        batches = [
            [out.copy() for out in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)
        ]
        if not batches or not merge_batches:
            return batches
        if len({len(outputs) for outputs in batches}) > 1:
            raise ModuleStateError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe "
                "bucketing is used?"
            )
        merged = [nd.concat(*parts, dim=0) for parts in zip(*batches)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Train.

        Parameters
        ----------
        train_data, eval_data : DataIter
            Data for training, and for validation after each epoch.
        eval_metric : EvalMetric or what ``metric.create`` takes
        epoch_end_callback : callable or list of callable, optional
            ``callback(epoch, symbol, arg_params, aux_params)``.
        batch_end_callback : callable or list of callable, optional
            ``callback(BatchEndParam)``.
        kvstore, optimizer, optimizer_params
            See `init_optimizer`.
        eval_end_callback, eval_batch_end_callback : callable or list of callable, optional
        initializer, arg_params, aux_params, allow_missing, force_init
            See `init_params`.
        force_rebind : bool
        begin_epoch, num_epoch : int
            Epochs ``begin_epoch`` to ``num_epoch - 1`` are trained.
        validation_metric : EvalMetric, optional
            Default: ``eval_metric``.
        monitor : Monitor, optional
        sparse_row_id_fn : callable, optional

        Raises
        ------
        ModuleStateError
            If num_epoch is missing.
        TypeError
            If train_data is not a DataIter.
        """
        if num_epoch is None:
            raise ModuleStateError("please specify number of epochs: num_epoch is None")
        if not hasattr(train_data, "provide_data"):
            raise TypeError_(
                "fit: train_data must be a DataIter such as mx.io.NDArrayIter, got "
                f"{type(train_data).__name__}"
            )
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing, force_init)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            eval_metric.reset()
            self._begin_epoch(epoch, train_data)
            shown = track(train_data, f"epoch {epoch}", quiet=bool(batch_end_callback))
            for nbatch, data_batch in enumerate(shown):
                if monitor is not None:
                    monitor.tic()
                self.prepare(data_batch, sparse_row_id_fn)
                self.forward_backward(data_batch)
                self.update()
                self._take_metric(eval_metric, data_batch)
                if monitor is not None:
                    monitor.toc_print()
                call_all(batch_end_callback, epoch, nbatch, eval_metric, locals())
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            args, aux = self.get_params()
            self.set_params(args, aux)
            for callback in as_list(epoch_end_callback):
                callback(epoch, self.symbol, args, aux)
            if eval_data is not None:
                scores = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in scores:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _begin_epoch(self, epoch: int, train_data: Any) -> None:
        """Prepare for an epoch of `fit`; does nothing here."""

    # -- parameters ------------------------------------------------------------------------------

    def set_params(
        self,
        arg_params: Any,
        aux_params: Any,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
        allow_missing : bool
            Parameters that are not given keep their values.
        force_init : bool
            Initialize even if there are values.
        allow_extra : bool
            Ignore names that the module does not have.
        """
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def save_params(self, fname: str) -> None:
        """Save the parameters to a file."""
        write_params(fname, *self.get_params())

    def load_params(self, fname: str) -> None:
        """Load parameters that `save_params` wrote.

        Raises FileFormatError for names that begin with neither ``arg:`` nor ``aux:``.
        """
        self.set_params(*read_params(fname))

    @property
    def symbol(self) -> Any:
        """The symbol."""
        return self._symbol

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Prepare for a `DataBatch`: do nothing, and warn if sparse_row_id_fn is given."""
        if sparse_row_id_fn is not None:
            warnings.warn(
                "sparse_row_id_fn is not invoked for BaseModule.", UserWarning, stacklevel=2
            )

    def _undefined(self, name: str) -> NotSupportedError:
        return NotSupportedError(f"{type(self).__name__} does not define {name}")

    # -- defined by modules ----------------------------------------------------------------------
    # These methods are documented here as in 1.x, and raise unless a subclass defines them.

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Make executors for shapes."""
        raise self._undefined("bind")

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the initial values of the parameters."""
        raise self._undefined("init_params")

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer."""
        raise self._undefined("init_optimizer")

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        raise self._undefined("forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients."""
        raise self._undefined("backward")

    def update(
        self,
    ) -> None:
        """Update the parameters."""
        raise self._undefined("update")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with outputs and labels."""
        raise self._undefined("update_metric")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last forward."""
        raise self._undefined("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the data."""
        raise self._undefined("get_input_grads")

    def get_params(
        self,
    ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return arguments and auxiliary states by name."""
        raise self._undefined("get_params")

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor in the executors."""
        raise self._undefined("install_monitor")

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return an empty list, because there are no states."""
        self._need("binded", "params_initialized")
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Do nothing, because there are no states; raise if any are given."""
        self._need("binded", "params_initialized")
        if states or value:
            raise ValueError_(f"{type(self).__name__} has no states to set")

    @property
    def data_names(self) -> Any:
        """Names of the data."""
        raise self._undefined("data_names")

    @property
    def output_names(self) -> Any:
        """Names of the outputs."""
        raise self._undefined("output_names")

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data."""
        raise self._undefined("data_shapes")

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels."""
        raise self._undefined("label_shapes")

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the outputs."""
        raise self._undefined("output_shapes")
