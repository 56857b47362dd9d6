"""``mx.model.FeedForward``: training of a symbol without modules, as in early versions."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import metric, optimizer
from .. import ndarray as nd
from .._progress import track
from ..base import MXNetError, TypeError_, ValueError_
from ..callback import LogValidationMetricsCallback
from ..context import Context, cpu
from ..initializer import InitDesc, Uniform
from ..kvstore.choice import chosen_store
from ..kvstore.gradients import pushpull_all
from ..module.checkpoint_files import BatchEndParam, load_checkpoint, save_checkpoint
from ..module.executor_group import described
from ..ndarray import NDArray
from ..symbol import Symbol
from .executor_manager import DataParallelExecutorManager, _check_arguments, _load_data
from .feed_forward_data import data_iter, eval_iter

__all__ = ["FeedForward"]

Params = dict[str, NDArray]


def _call(callbacks: Any, *args: Any) -> None:
    """Call one callback, several, or none."""
    for callback in callbacks if isinstance(callbacks, list) else [callbacks]:
        if callback is not None:
            callback(*args)


class FeedForward:
    """A symbol with parameters and methods for training.

    Matches ``mxnet.model.FeedForward``, which is deprecated there too: use `Module`.

    Parameters
    ----------
    symbol : Symbol or callable
        A callable gives the symbol of a bucket key.
    ctx : Context or list of Context, optional
    num_epoch : int, optional
        Epoch at which `fit` ends.
    epoch_size : int, optional
        Number of batches of an epoch. None takes all batches of the data.
    optimizer : str or Optimizer
    initializer : Initializer
    numpy_batch_size : int
        Batch size for data that are given as arrays.
    arg_params, aux_params : dict of str to NDArray, optional
    allow_extra_params : bool
        Drop names that the symbol does not have.
    begin_epoch : int
    **kwargs
        Arguments of the optimizer.
    """

    def __init__(
        self,
        symbol: Symbol | Callable[[Any], Symbol],
        ctx: Context | Sequence[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = Uniform(0.01),  # noqa: B008 - 1.x's default, never changed
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn(
            "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        self.symbol: Any = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen: Any = None if isinstance(symbol, Symbol) else symbol
        if self.symbol is None and not callable(symbol):
            raise TypeError_(f"FeedForward: symbol must be a Symbol or a function, got {symbol!r}")
        self.arg_params: Any = arg_params
        self.aux_params: Any = aux_params
        self.allow_extra_params = allow_extra_params
        if self.symbol is not None:
            self._check_arguments()
        self.ctx = [ctx or cpu()] if ctx is None or isinstance(ctx, Context) else list(ctx)
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.kwargs = dict(kwargs)
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.begin_epoch = begin_epoch
        self._pred_exec: Any = None

    def _check_arguments(self) -> None:
        _check_arguments(self.symbol)
        if self.allow_extra_params:
            names = {*self.symbol.list_arguments(), *self.symbol.list_auxiliary_states()}
            for kind in ("arg_params", "aux_params"):
                given = getattr(self, kind) or {}
                setattr(self, kind, {k: v for k, v in given.items() if k in names})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pred_exec": None}

    # -- parameters ------------------------------------------------------------------------------

    def _init_params(
        self, inputs: Sequence[Any], overwrite: bool = False
    ) -> tuple[list[str], list[str], list[str]]:
        """Initialize parameters that have no values, or all if ``overwrite``.

        Returns the names of all arguments, of the parameters among them, and of auxiliary states.
        """
        entries = described(inputs) or []
        shapes = {entry.name: entry.shape for entry in entries}
        arg_shapes, _, aux_shapes = self.symbol.infer_shape(**shapes)
        arg_types, _, aux_types = self.symbol.infer_type(
            **{entry.name: np.dtype(entry.dtype) for entry in entries}
        )
        arg_names, aux_names = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        attrs = self.symbol.attr_dict()

        def values(names: Any, all_shapes: Any, types: Any, known: Params | None) -> Params:
            made = {}
            for name, shape, dtype in zip(names, all_shapes, types):
                if name in shapes:
                    continue
                made[name] = nd.zeros(shape, dtype=dtype)
                if known and name in known and not overwrite:
                    made[name][:] = known[name]
                else:
                    self.initializer(InitDesc(name, attrs.get(name, {})), made[name])
            return made

        self.arg_params = values(arg_names, arg_shapes, arg_types, self.arg_params)
        self.aux_params = values(aux_names, aux_shapes, aux_types, self.aux_params)
        return arg_names, list(self.arg_params), aux_names

    # -- prediction ------------------------------------------------------------------------------

    def _init_predictor(self, data: Any) -> list[NDArray]:
        """Bind for the shapes of an iterator; return the arrays of its data."""
        if self.arg_params is None:
            raise MXNetError("FeedForward: there are no parameters; call fit or give arg_params")
        entries = described(data.provide_data) or []
        shapes = {entry.name: entry.shape for entry in entries}
        bound = self._pred_exec
        if bound is None or any(bound.arg_dict[n].shape != tuple(s) for n, s in shapes.items()):
            types = {name: value.dtype for name, value in self.arg_params.items()}
            types.update({entry.name: entry.dtype for entry in entries})
            self._pred_exec = self.symbol.simple_bind(
                self.ctx[0], grad_req="null", type_dict=types, **shapes
            )
        self._pred_exec.copy_params_from(self.arg_params, self.aux_params, True)
        return [self._pred_exec.arg_dict[entry.name] for entry in entries]

    def predict(
        self,
        X: Any,  # noqa: N803
        num_batch: int | None = None,
        return_data: bool = False,
        reset: bool = True,
    ) -> Any:
        """Return the outputs for data.

        Parameters
        ----------
        X : DataIter, NDArray or numpy.ndarray
        num_batch : int, optional
            Batches to use; None: all.
        return_data : bool
            Return data and labels too.
        reset : bool
            Reset the iterator before.

        Returns
        -------
        numpy.ndarray or list of numpy.ndarray, or (outputs, data, label)
            One array if there is one output.
        """
        data = data_iter(X, None, self.numpy_batch_size, is_train=False)
        if reset:
            data.reset()
        inputs = self._init_predictor(data)
        rows: list[list[list[np.ndarray[Any, Any]]]] = []
        for number, batch in enumerate(track(data, "predict")):
            if number == num_batch:
                break
            _load_data(batch, inputs)
            outputs = self._pred_exec.forward(is_train=False)
            size = data.batch_size - (batch.pad or 0)
            groups = (outputs, batch.data, batch.label or []) if return_data else (outputs,)
            rows.append([[array[:size].asnumpy() for array in group] for group in groups])
        merged = []
        for group in zip(*rows):
            joined = [np.concatenate(parts) for parts in zip(*group)]
            merged.append(joined[0] if len(joined) == 1 else joined)
        if not merged:
            merged = [[], [], []]
        return tuple(merged) if return_data else merged[0]

    def score(
        self,
        X: Any,  # noqa: N803
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """Evaluate a metric.

        Parameters
        ----------
        X : DataIter, NDArray or numpy.ndarray
        eval_metric : EvalMetric or what ``metric.create`` takes
        num_batch : int, optional
        batch_end_callback : callable or list of callable, optional
        reset : bool

        Returns
        -------
        float
        """
        eval_metric = metric.create(eval_metric)
        data = data_iter(X, None, self.numpy_batch_size, is_train=False)
        if reset:
            data.reset()
        inputs = self._init_predictor(data)
        for number, batch in enumerate(track(data, "score", quiet=bool(batch_end_callback))):
            if number == num_batch:
                break
            _load_data(batch, inputs)
            outputs = self._pred_exec.forward(is_train=False)
            eval_metric.update(batch.label, outputs)
            _call(batch_end_callback, BatchEndParam(0, number, eval_metric, locals()))
        return eval_metric.get()[1]

    # -- training --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Sequence[float] | None = None,
        monitor: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train from ``begin_epoch`` to ``num_epoch``.

        Parameters
        ----------
        X : DataIter, NDArray or numpy.ndarray
        y : NDArray or numpy.ndarray, optional
            Labels, if X is an array.
        eval_data : DataIter or (data, label), optional
        eval_metric : EvalMetric or what ``metric.create`` takes
        epoch_end_callback : callable or list of callable, optional
            Called with epoch, symbol, arg_params, aux_params.
        batch_end_callback, eval_end_callback, eval_batch_end_callback : likewise
            Called with a `BatchEndParam`.
        kvstore : str, KVStoreBase or None
        logger : logging.Logger, optional
        work_load_list : list of float, optional
        monitor : Monitor, optional
        """
        data = data_iter(X, y, self.numpy_batch_size, is_train=True)
        eval_data = eval_iter(eval_data, self.numpy_batch_size)
        if self.num_epoch is None:
            raise ValueError_("FeedForward: num_epoch must be a number of epochs, got None")
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
            self._check_arguments()
        names = self._init_params([*data.provide_data, *data.provide_label])
        eval_metric = metric.create(eval_metric)
        manager = DataParallelExecutorManager(
            self.symbol, self.ctx, data, *names, work_load_list=work_load_list,
            logger=logger, sym_gen=self.sym_gen,
        )  # fmt: skip
        update = self._updating(manager, names[1], kvstore, data.batch_size)
        if monitor is not None:
            manager.install_monitor(monitor)
        logger = logger or logging
        self._pred_exec = None
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            start = time.time()
            eval_metric.reset()
            self._train_epoch(
                epoch, manager, data, eval_metric, update, monitor, batch_end_callback, logger
            )
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            if epoch_end_callback or epoch + 1 == self.num_epoch:
                manager.copy_to(self.arg_params, self.aux_params)
            _call(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
            if eval_data is not None:
                self._evaluate(
                    epoch, manager, eval_data, eval_metric, eval_end_callback,
                    eval_batch_end_callback,
                )  # fmt: skip

    def _train_epoch(
        self,
        epoch: int,
        manager: DataParallelExecutorManager,
        data: Any,
        eval_metric: Any,
        update: Callable[[], None],
        monitor: Any,
        callbacks: Any,
        logger: Any,
    ) -> None:
        nbatch = 0
        while True:
            for batch in track(data, f"epoch {epoch}", quiet=bool(callbacks)):
                manager.load_data_batch(batch)
                if monitor is not None:
                    monitor.tic()
                manager.forward(is_train=True)
                manager.backward()
                update()
                if monitor is not None:
                    monitor.toc_print()
                manager.update_metric(eval_metric, batch.label)
                nbatch += 1
                _call(callbacks, BatchEndParam(epoch, nbatch, eval_metric, locals()))
                if nbatch == self.epoch_size:
                    return
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            data.reset()
            if self.epoch_size is None or nbatch >= self.epoch_size:
                return

    @staticmethod
    def _evaluate(
        epoch: int,
        manager: DataParallelExecutorManager,
        data: Any,
        eval_metric: Any,
        end_callback: Any,
        batch_callback: Any,
    ) -> None:
        eval_metric.reset()
        data.reset()
        count = 0
        shown = track(data, "validation", quiet=bool(batch_callback))
        for nbatch, batch in enumerate(shown):
            manager.load_data_batch(batch)
            manager.forward(is_train=False)
            manager.update_metric(eval_metric, batch.label)
            _call(batch_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        _call(end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        data.reset()

    def _updating(
        self,
        manager: DataParallelExecutorManager,
        names: Sequence[str],
        kvstore: Any,
        batch_size: int,
    ) -> Callable[[], None]:
        """Return a function that runs the optimizer's step after each batch."""
        count = len(self.ctx)
        sizes = [int(np.prod(value.shape)) for value in self.arg_params.values()]
        store, on_store = chosen_store(kvstore, count, sizes, optimizer=self.optimizer)
        if store is not None and "dist" in store.type and "_async" not in store.type:
            batch_size *= store.num_workers
        idx2name = {i * count + k: name for i, name in enumerate(names) for k in range(count)}
        if on_store:
            idx2name = dict(enumerate(names))
        own = self.optimizer
        if isinstance(own, str):
            options = {"rescale_grad": 1.0 / batch_size, **self.kwargs}
            own = optimizer.create(own, sym=self.symbol, param_idx2name=idx2name, **options)
        elif not own.idx2name:
            own.idx2name = idx2name
        manager.set_params(self.arg_params, self.aux_params)
        if on_store and store is not None:
            store.set_optimizer(own)
        if store is not None:
            for name, arrays in zip(names, manager.param_arrays):
                store.broadcast(name, self.arg_params[name], arrays)
        updater = None if on_store else optimizer.get_updater(own)

        def update() -> None:
            blocks = list(zip(names, manager.param_arrays, manager.grad_arrays))
            if store is not None:
                entries = [(i, *block) for i, block in enumerate(blocks)]
                pushpull_all(store, entries, on_store)
            for i, (_, arrays, grads) in enumerate(blocks):
                if updater is not None:
                    for k, (array, grad) in enumerate(zip(arrays, grads)):
                        updater(i * count + k, grad, array)

        return update

    # -- files -----------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Save symbol and parameters, see ``mx.model.save_checkpoint``.

        Parameters
        ----------
        prefix : str
        epoch : int, optional
            Default: num_epoch.
        remove_amp_cast : bool
        """
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise ValueError_("FeedForward.save: epoch is None and num_epoch is not set")
        save_checkpoint(
            prefix, epoch, self.symbol, self.arg_params, self.aux_params, remove_amp_cast
        )

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """Return a model from the files of `save`.

        Parameters
        ----------
        prefix : str
        epoch : int
        ctx, **kwargs
            Arguments of `FeedForward`.
        """
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params, begin_epoch=epoch,
            **kwargs,
        )  # fmt: skip

    @staticmethod
    def create(
        symbol: Any,
        X: Any,  # noqa: N803
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = Uniform(0.01),  # noqa: B008
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Sequence[float] | None = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Return a trained model; the arguments are those of `FeedForward` and `fit`."""
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer,
            initializer=initializer, **kwargs,
        )  # fmt: skip
        model.fit(
            X, y, eval_data=eval_data, eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback, batch_end_callback=batch_end_callback,
            kvstore=kvstore, logger=logger, work_load_list=work_load_list,
            eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback,
        )  # fmt: skip
        return model
