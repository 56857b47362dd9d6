"""Executors of several contexts for training without modules (``mx.executor_manager``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError, NotSupportedError, ShapeError, ValueError_
from ..context import Context, cpu
from ..io import DataDesc
from ..module.executor_group import described
from ..ndarray import NDArray

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]

Target = tuple[slice, NDArray]


class WorkLoadError(MXNetError, AssertionError):
    """A work load list that does not match the contexts (1.x: ``AssertionError``)."""


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """Divide a batch by work load."""
    total = sum(work_load_list)
    sizes = [round(load * batch_size / total) for load in work_load_list]
    sizes[-1] += max(batch_size - sum(sizes), 0)
    slices = []
    end = 0
    for size in sizes:
        begin, end = end, min(end + int(size), batch_size)
        if begin >= end:
            raise ValueError_(
                f"Too many slices. Some splits are empty: a batch of {batch_size} for work loads "
                f"{list(work_load_list)}"
            )
        slices.append(slice(begin, end))
    return slices


def _check_arguments(symbol: Any) -> None:
    """Raise if a symbol has two arguments or two states of the same name."""
    arguments = symbol.list_arguments()
    for kind, names in (
        ("argument", arguments),
        ("auxiliary param", symbol.list_auxiliary_states()),
    ):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError_(
                f'Find duplicated {kind} name "{twice}", please make the weight name '
                f"non-duplicated(using name arguments), arguments are {arguments}"
            )


def _load_general(data: Sequence[NDArray], targets: Sequence[Any]) -> None:
    """Copy arrays to other arrays, or to parts of arrays on several contexts."""
    for source, target in zip(data, targets):
        if isinstance(target, NDArray):
            source.copyto(target)
            continue
        size = target[-1][0].stop
        if size != source.shape[0]:
            raise ShapeError(f"Batch size miss match. Expected {size}, got {source.shape[0]}")
        for part, own in target:
            source[part].copyto(own)


def _load_data(batch: Any, targets: Sequence[Any]) -> None:
    """Copy the data of a batch to the executors' arrays."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any]) -> None:
    """Copy the labels of a batch to the executors' arrays."""
    _load_general(batch.label, targets)


class DataParallelExecutorGroup:
    """One executor per context; each processes its part of a batch.

    Matches ``mxnet.executor_manager.DataParallelExecutorGroup``.

    Parameters
    ----------
    sym : Symbol
    arg_names, param_names : list of str
    ctx : list of Context
    slices : list of slice
        The part of each context.
    train_data : DataIter
        Iterator that has names, shapes and types of data and labels.
    shared_group : DataParallelExecutorGroup, optional
        Group whose parameters are used.
    """

    def __init__(
        self,
        sym: Any,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        ctx: Sequence[Context],
        slices: Sequence[slice],
        train_data: Any,
        shared_group: DataParallelExecutorGroup | None = None,
    ) -> None:
        _check_arguments(sym)
        inputs = described([*train_data.provide_data, *train_data.provide_label]) or []
        self.data_names = [entry[0] for entry in train_data.provide_data]
        self.label_names = [entry[0] for entry in train_data.provide_label]
        self.aux_names = sym.list_auxiliary_states()
        self.param_idx = [i for i, name in enumerate(arg_names) if name in param_names]
        self.param_names = [arg_names[i] for i in self.param_idx]
        self.slices = list(slices)
        self.train_execs: list[Any] = []
        for i, context in enumerate(ctx):
            size = slices[i].stop - slices[i].start
            shared = None if shared_group is None else shared_group.train_execs[i]
            self.train_execs.append(self._bound(sym, context, inputs, size, shared))
        self.data_arrays = [self._parts(name) for name in self.data_names]
        self.label_arrays = [self._parts(name) for name in self.label_names]
        self.param_arrays = [[e.arg_arrays[i] for e in self.train_execs] for i in self.param_idx]
        self.grad_arrays = [[e.grad_arrays[i] for e in self.train_execs] for i in self.param_idx]
        self.aux_arrays = [
            [e.aux_arrays[i] for e in self.train_execs] for i in range(len(self.aux_names))
        ]

    def _bound(
        self, sym: Any, ctx: Context, inputs: Sequence[DataDesc], size: int, shared: Any
    ) -> Any:
        shapes = {entry.name: (size, *entry.shape[1:]) for entry in inputs}
        arg_shapes, _, aux_shapes = sym.infer_shape(**shapes)
        arg_types, _, aux_types = sym.infer_type(**{e.name: np.dtype(e.dtype) for e in inputs})
        args: dict[str, NDArray] = {}
        grads: dict[str, NDArray] = {}
        for name, shape, dtype in zip(sym.list_arguments(), arg_shapes, arg_types):
            if name in self.param_names and shared is not None:
                args[name], grads[name] = shared.arg_dict[name], shared.grad_dict[name]
                continue
            args[name] = nd.zeros(shape, ctx=ctx, dtype=dtype)
            if name in self.param_names:
                grads[name] = nd.zeros(shape, ctx=ctx, dtype=dtype)
        if shared is None:
            states = [nd.zeros(s, ctx=ctx, dtype=t) for s, t in zip(aux_shapes, aux_types)]
        else:
            states = list(shared.aux_arrays)
        requests = {name: "write" if name in grads else "null" for name in args}
        return sym.bind(ctx, args, args_grad=grads, grad_req=requests, aux_states=states)

    def _parts(self, name: str) -> list[Target]:
        return [(part, e.arg_dict[name]) for part, e in zip(self.slices, self.train_execs)]

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy data and labels of a batch to the executors.

        Parameters
        ----------
        data_batch : DataBatch
        """
        _load_data(data_batch, self.data_arrays)
        _load_label(data_batch, self.label_arrays)

    def forward(self, is_train: bool = False) -> None:
        """Run forward on all contexts."""
        for executor in self.train_execs:
            executor.forward(is_train=is_train)

    def backward(self) -> None:
        """Run backward on all contexts."""
        for executor in self.train_execs:
            executor.backward()

    def update_metric(self, metric: Any, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of all contexts.

        Parameters
        ----------
        metric : EvalMetric
        labels : list of NDArray
            With pre_sliced, a list of them for each context.
        pre_sliced : bool
        """
        for i, (executor, part) in enumerate(zip(self.train_execs, self.slices)):
            own = labels[i] if pre_sliced else [label[part] for label in labels]
            metric.update(own, executor.outputs)


class DataParallelExecutorManager:
    """The executor groups of a training: one, or one per bucket key.

    Matches ``mxnet.executor_manager.DataParallelExecutorManager``.

    Parameters
    ----------
    symbol : Symbol
    ctx : list of Context
    train_data : DataIter
    arg_names, param_names, aux_names : list of str
    work_load_list : list of float, optional
        Share of each context; equal if None.
    logger : logging.Logger, optional
    sym_gen : callable, optional
        Gives the symbol of a bucket key.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Sequence[Context],
        train_data: Any,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        aux_names: Sequence[str],
        work_load_list: Sequence[float] | None = None,
        logger: Any = None,
        sym_gen: Callable[[Any], Any] | None = None,
    ) -> None:
        (logger or logging).info("Start training with %s", str(ctx))
        loads = [1] * len(ctx) if work_load_list is None else work_load_list
        if not isinstance(loads, list) or len(loads) != len(ctx):
            raise WorkLoadError(
                f"Invalid settings for work load: {work_load_list!r} given for {len(ctx)} contexts"
            )
        self.slices = _split_input_slice(train_data.batch_size, loads)
        self.arg_names = arg_names
        self.param_names = param_names
        self.aux_names = aux_names
        self.ctx = ctx
        self.symbol = symbol
        self.sym_gen = sym_gen
        self.execgrp = DataParallelExecutorGroup(
            symbol, arg_names, param_names, ctx, self.slices, train_data
        )
        self.curr_execgrp: Any = None
        self.execgrp_bucket: dict[Any, DataParallelExecutorGroup] = {}
        if sym_gen is not None:
            self.execgrp_bucket[train_data.default_bucket_key] = self.execgrp

    def install_monitor(self, monitor: Any) -> None:
        """Attach a monitor to all executors.

        Parameters
        ----------
        monitor : Monitor
        """
        if self.sym_gen is not None:
            raise NotSupportedError("Monitoring is not implemented for bucketing")
        for executor in self.execgrp.train_execs:
            monitor.install(executor)

    def set_params(
        self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]
    ) -> None:
        """Copy parameters to all contexts."""
        for executor in self.execgrp.train_execs:
            executor.copy_params_from(arg_params, aux_params)

    def copy_to(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Write the means over the contexts into arrays by name."""
        for names, blocks, into in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, block in zip(names, blocks):
                total = nd.add_n(*[array.as_in_context(cpu()) for array in block])
                (total / len(block)).astype(into[name].dtype).copyto(into[name])

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """Parameters, by name and context."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray]]:
        """Gradients, by name and context."""
        return self.execgrp.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """Auxiliary states, by name and context."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: Any) -> None:
        """Choose the group of a batch's bucket and copy the batch to it.

        Parameters
        ----------
        data_batch : DataBatch
        """
        self.curr_execgrp = self.execgrp
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                self.execgrp_bucket[key] = DataParallelExecutorGroup(
                    self.sym_gen(key), self.arg_names, self.param_names, self.ctx, self.slices,
                    data_batch, shared_group=self.execgrp,
                )  # fmt: skip
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def forward(self, is_train: bool = False) -> None:
        """Run forward on the batch that was loaded."""
        self.curr_execgrp.forward(is_train=is_train)

    def backward(self) -> None:
        """Run backward on the batch that was loaded."""
        self.curr_execgrp.backward()

    def update_metric(self, metric: Any, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Update a metric; see `DataParallelExecutorGroup.update_metric`."""
        self.curr_execgrp.update_metric(metric, labels, pre_sliced)
