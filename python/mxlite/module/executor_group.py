"""Executors of one symbol on several contexts; each executor processes a part of the batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import autograd
from .. import ndarray as nd
from ..base import MXNetError, TypeError_, ValueError_, shape_tuple
from ..context import Context, cpu
from ..io import DataDesc
from ..ndarray import NDArray

__all__ = ["DataParallelExecutorGroup", "described"]

_KEPT_SHAPES = 8  # number of batch shapes whose executors are kept


def described(shapes: Any) -> list[DataDesc] | None:
    """Return descriptions from descriptions or pairs (name, shape); TypeError for others."""
    if not shapes:
        return None
    return [_described(entry) for entry in shapes]


def _described(entry: Any) -> DataDesc:
    if not isinstance(entry, DataDesc):
        if not isinstance(entry, (tuple, list)) or not 2 <= len(entry) <= 4:
            raise TypeError_(
                "bind: each array must be described by a DataDesc or a pair (name, shape), got "
                f"{entry!r}"
            )
        entry = DataDesc(*entry)
    shape = shape_tuple(entry.shape, f"bind: shape of {entry.name!r}")
    if isinstance(entry.shape, tuple) and shape == entry.shape:
        return entry
    return DataDesc(entry.name, shape, entry.dtype, entry.layout)


class DataParallelExecutorGroup:
    """Divides batches among contexts; created by `Module.bind`.

    Parameters
    ----------
    symbol : Symbol
    contexts : list of Context
    workload : list of float
        Share of each context.
    data_shapes, label_shapes : list of DataDesc
    param_names : list of str
    for_training, inputs_need_grad : bool
    shared_group : DataParallelExecutorGroup, optional
        Group whose parameters are shared.
    logger : optional
    fixed_param_names : list of str, optional
        Parameters without gradient.
    grad_req : str, list or dict
    state_names : list of str, optional
    group2ctxs : list of dict of str to Context, or dict of str to Context or list, optional
        Contexts of nodes with the attribute ``ctx_group``, for each context of the group.
    """

    def __init__(
        self,
        symbol: Any,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Any,
        label_shapes: Any,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        self.symbol = symbol
        self.contexts = list(contexts)
        self.workload = list(workload or [1] * len(self.contexts))
        self.group2ctxs = _group_contexts(group2ctxs, len(self.contexts))
        self.logger = logger
        self.param_names = list(param_names)
        self.state_names = list(state_names or [])
        self.arg_names: list[str] = symbol.list_arguments()
        self.aux_names: list[str] = symbol.list_auxiliary_states()
        self.output_names: list[str] = symbol.list_outputs()
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.output_layouts = [
            DataDesc.get_batch_axis(symbol[i].attr("__layout__"))
            for i in range(len(self.output_names))
        ]
        self._monitors: list[Any] = []
        self._kept: dict[Any, list[Any]] = {}
        self.data_shapes: list[DataDesc] = []
        self.label_shapes: list[DataDesc] | None = None
        self.fixed_param_names = list(fixed_param_names or [])
        self.grad_req = self._requests(grad_req, set(self.fixed_param_names), data_shapes)
        self._set_shapes(data_shapes, label_shapes)
        shared: Sequence[Any] = [None] * len(self.contexts)
        # By context and name: arrays of data and labels, which executors for all shapes share.
        self.shared_data_arrays: list[dict[str, NDArray]] = [{} for _ in self.contexts]
        if shared_group is not None:
            shared, self.shared_data_arrays = shared_group.execs, shared_group.shared_data_arrays
        self.execs: list[Any] = [self._bound(i, shared[i]) for i in range(len(self.contexts))]
        self._kept[self._key()] = self.execs

    def _requests(self, grad_req: Any, fixed: set[str], data_shapes: Any) -> dict[str, str]:
        data_names = {entry[0] for entry in data_shapes}
        if isinstance(grad_req, (list, tuple)):
            grad_req = dict(zip(self.arg_names, grad_req))
        requests = {}
        for name in self.arg_names:
            asked = grad_req if isinstance(grad_req, str) else grad_req.get(name, "null")
            trained = name in self.param_names and name not in fixed
            wanted = trained or (self.inputs_need_grad and name in data_names)
            if isinstance(grad_req, Mapping) and name in grad_req:
                wanted = True
            requests[name] = asked if self.for_training and wanted else "null"
        return requests

    # -- shapes ----------------------------------------------------------------------------------

    def _set_shapes(self, data_shapes: Any, label_shapes: Any) -> None:
        data, label = described(data_shapes) or [], described(label_shapes)
        sizes = {}
        for entry in (*data, *(label or ())):
            axis = DataDesc.get_batch_axis(entry.layout)
            if axis >= 0:
                sizes[entry.name] = entry.shape[axis]
        if len(set(sizes.values())) > 1:
            raise ValueError_(f"all data must have the same batch size, got {sizes}")
        self.data_shapes, self.label_shapes = data, label
        self.batch_size: int = next(iter(sizes.values()), 0)
        self.slices = self._divided(self.batch_size)

    def _divided(self, size: int) -> list[slice]:
        total = sum(self.workload)
        counts = [round(size * work / total) for work in self.workload]
        counts[-1] += size - sum(counts)
        if any(count <= 0 for count in counts) and len(counts) > 1:
            raise ValueError_(
                f"Too many slices. Some splits are empty: a batch of {size} for contexts "
                f"{self.contexts} with shares {self.workload}"
            )
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        return [slice(end - count, end) for end, count in zip(ends, counts)]

    def _part(self, entry: DataDesc, i: int) -> tuple[int, ...]:
        shape, axis = list(entry.shape), DataDesc.get_batch_axis(entry.layout)
        if axis >= 0:
            shape[axis] = self.slices[i].stop - self.slices[i].start
        return tuple(shape)

    def _shapes(self, i: int) -> dict[str, tuple[int, ...]]:
        known = set(self.arg_names)
        entries = [*self.data_shapes, *(e for e in self.label_shapes or () if e.name in known)]
        return {entry.name: self._part(entry, i) for entry in entries}

    def _key(self) -> Any:
        labels = self.label_shapes or ()
        return tuple((e.name, tuple(e.shape)) for e in (*self.data_shapes, *labels))

    def _bound(self, i: int, shared: Any) -> Any:
        entries = (*self.data_shapes, *(self.label_shapes or ()))
        return self.symbol.simple_bind(
            ctx=self.contexts[i],
            grad_req=self.grad_req,
            type_dict={e.name: e.dtype for e in entries if e.name in set(self.arg_names)},
            shared_arg_names=self.param_names,
            shared_exec=shared,
            shared_buffer=self.shared_data_arrays[i],
            group2ctx=self.group2ctxs[i],
            **self._shapes(i),
        )

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Prepare for batches of other shapes, see `Module.reshape`.

        Raises a ShapeError if a parameter or auxiliary state would need another shape.
        """
        old, before = self._key(), (self.data_shapes, self.label_shapes)
        self._set_shapes(data_shapes, label_shapes)
        key = self._key()
        if key == old:
            return
        execs = self._kept.pop(key, None)
        if execs is None:
            # Labels and states depend on the batch size; parameters keep their shapes.
            free = set(self.arg_names).difference(self.param_names)
            try:
                execs = [
                    exe._reshaped(self._shapes(i), free, allow_up_sizing=True)
                    for i, exe in enumerate(self.execs)
                ]
            except MXNetError:
                self._set_shapes(*before)
                raise
            for monitor in self._monitors:
                for exe in execs:
                    monitor.install(exe)
        self._kept[key] = self.execs = execs
        while len(self._kept) > _KEPT_SHAPES:
            del self._kept[next(iter(self._kept))]

    # -- arrays ----------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return [entry.name for entry in self.data_shapes]

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return [entry.name for entry in self.label_shapes or ()]

    @property
    def data_layouts(self) -> list[int]:
        """The axis of each data array along which a batch is divided."""
        return [DataDesc.get_batch_axis(entry.layout) for entry in self.data_shapes]

    @property
    def label_layouts(self) -> list[int] | None:
        """The axis of each label array along which a batch is divided."""
        if self.label_shapes is None:
            return None
        return [DataDesc.get_batch_axis(entry.layout) for entry in self.label_shapes]

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the symbol."""
        return len(self.output_names)

    @property
    def data_arrays(self) -> list[list[tuple[slice, NDArray]]]:
        """Slices of the batch and arrays, for each data array and each context."""
        return [self._parts(name) for name in self.data_names]

    @property
    def label_arrays(self) -> list[list[tuple[slice, NDArray]]] | None:
        """For each label of the symbol and each context: its slice of the batch and its array."""
        if self.label_shapes is None:
            return None
        return [self._parts(name) for name in self.label_names if name in self.execs[0].arg_dict]

    def _parts(self, name: str) -> list[tuple[slice, NDArray]]:
        return [(part, exe.arg_dict[name]) for part, exe in zip(self.slices, self.execs)]

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """The arrays of each state on all contexts."""
        return [[exe.arg_dict[name] for exe in self.execs] for name in self.state_names]

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """The arrays of each parameter on all contexts."""
        return [[exe.arg_dict[name] for exe in self.execs] for name in self.param_names]

    @property
    def grad_arrays(self) -> list[list[Any]]:
        """The gradients of each parameter on all contexts; None for those without gradient."""
        return [[exe.grad_dict[name] for exe in self.execs] for name in self.param_names]

    @property
    def input_grad_arrays(self) -> list[list[NDArray]] | None:
        """Gradients of each data input on all contexts; None unless inputs_need_grad was set."""
        if not self.inputs_need_grad:
            return None
        return [[exe.grad_dict[name] for exe in self.execs] for name in self.data_names]

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """The auxiliary states on all contexts."""
        return [[exe.aux_dict[name] for exe in self.execs] for name in self.aux_names]

    @property
    def _total_exec_bytes(self) -> int:
        """Number of bytes of the arrays that are bound on all contexts."""
        groups = (
            vars_ for exe in self.execs for vars_ in (exe.arg_dict, exe.grad_dict, exe.aux_dict)
        )
        arrays = (array for group in groups for array in group.values() if array is not None)
        return sum(array.size * np.dtype(array.dtype).itemsize for array in arrays)

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None,
        allow_extra: bool = False,
    ) -> None:
        """Copy parameters to all contexts, see `Module.set_params`."""
        for exe in self.execs:
            exe.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the means over contexts into arrays."""
        groups = (
            (arg_params, self.param_names, self.param_arrays),
            (aux_params, self.aux_names, self.aux_arrays),
        )
        with autograd.pause():
            for targets, names, blocks in groups:
                for name, arrays in zip(names, blocks):
                    target = targets.get(name)
                    if target is not None and len(arrays) == 1 and _alike(arrays[0], target):
                        arrays[0].copyto(target)  # avoids another copy of the parameter
                        continue
                    copies = [array.copyto(cpu()) for array in arrays]
                    mean = copies[0] if len(copies) == 1 else nd.add_n(*copies) / len(copies)
                    if target is None:
                        targets[name] = mean
                    else:
                        mean.astype(target.dtype).copyto(target)

    # -- running ---------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, see `Module.forward`."""
        self._load(self.data_shapes, data_batch.data, "data")
        if self.label_shapes is not None and getattr(data_batch, "label", None):
            self._load(self.label_shapes, data_batch.label, "label")
        for exe in self.execs:
            exe.forward(is_train=self.for_training if is_train is None else is_train)

    def _load(self, entries: Sequence[DataDesc], arrays: Sequence[Any], kind: str) -> None:
        if len(arrays) != len(entries):
            names = [entry.name for entry in entries]
            raise ValueError_(
                f"Module.forward: number of {kind} arrays must be {len(names)}, got "
                f"{len(arrays)}; the names are {names}"
            )
        with autograd.pause():
            for entry, array in zip(entries, arrays):
                axis = DataDesc.get_batch_axis(entry.layout)
                for i, exe in enumerate(self.execs):
                    target = exe.arg_dict.get(entry.name)
                    if target is None:  # the symbol does not use this label
                        continue
                    if isinstance(array, (list, tuple)):  # one array per context
                        part = array[i]
                    else:
                        part = self._slice(array, axis, i)
                    target[:] = part

    def _slice(self, array: Any, axis: int, i: int) -> Any:
        if len(self.execs) == 1 or axis < 0:
            return array
        part = self.slices[i]
        if axis == 0:
            return array[part]
        return nd.slice_axis(array, axis=axis, begin=part.start, end=part.stop)

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients, see `Module.backward`."""
        if isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        for i, exe in enumerate(self.execs):
            if out_grads is None:
                exe.backward()
                continue
            parts = [
                self._slice(grad, axis, i).as_in_context(self.contexts[i])
                for grad, axis in zip(out_grads, self.output_layouts)
            ]
            exe.backward(out_grads=parts)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (name, shape) of the outputs for the whole batch."""
        found = []
        outputs = zip(self.output_names, self.execs[0].outputs, self.output_layouts)
        for name, array, axis in outputs:
            shape = list(array.shape)
            if axis >= 0 and len(self.execs) > 1 and shape:
                shape[axis] = self.batch_size
            found.append((name, tuple(shape)))
        return found

    def get_outputs(
        self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
    ) -> list[Any]:
        """Return outputs ``begin`` to ``end`` of the last forward, see `Module.get_outputs`."""
        chosen = range(len(self.output_names))[begin:end]
        outputs = [[exe.outputs[i] for exe in self.execs] for i in chosen]
        if not merge_multi_context:
            return outputs
        return [_merged(arrays, self.output_layouts[i]) for i, arrays in zip(chosen, outputs)]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the data, see `Module.get_input_grads`."""
        grads = [[exe.grad_dict[e.name] for exe in self.execs] for e in self.data_shapes]
        if not merge_multi_context:
            return grads
        axes = [DataDesc.get_batch_axis(entry.layout) for entry in self.data_shapes]
        return [_merged(arrays, axis) for arrays, axis in zip(grads, axes)]

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the states, see `Module.get_states`."""
        states = [[exe.arg_dict[name] for exe in self.execs] for name in self.state_names]
        return [_merged(arrays, 0) for arrays in states] if merge_multi_context else states

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to one value, or as `get_states` returns them without merging."""
        if (states is None) == (value is None):
            raise ValueError_("set_states: states or value must be None, got both or neither")
        for i, arrays in enumerate(self.get_states(merge_multi_context=False)):
            for k, array in enumerate(arrays):
                array[:] = value if states is None else states[i][k]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with outputs and labels, see `Module.update_metric`."""
        entries = self.label_shapes or []
        for i, exe in enumerate(self.execs):
            if pre_sliced:
                parts = list(labels[i])
            else:
                axes = [DataDesc.get_batch_axis(entry.layout) for entry in entries]
                axes += [0] * (len(labels or ()) - len(axes))
                parts = [self._slice(label, axis, i) for label, axis in zip(labels or (), axes)]
            names = [entry.name for entry in entries]
            names += [f"label{k}" for k in range(len(names), len(parts))]
            eval_metric.update_dict(
                dict(zip(names, parts)), dict(zip(self.output_names, exe.outputs))
            )

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor in all executors, see `Module.install_monitor`."""
        self._monitors.append(mon)
        for execs in self._kept.values():
            for exe in execs:
                mon.install(exe)


def _merged(arrays: list[NDArray], axis: int) -> NDArray:
    if len(arrays) == 1 or axis < 0:
        return arrays[0]
    if any(array is None for array in arrays):
        raise MXNetError("get_input_grads: there are no gradients, bind with inputs_need_grad=True")
    context = arrays[0].ctx
    return nd.concat(*(array.as_in_context(context) for array in arrays), dim=axis)


def _group_contexts(given: Any, count: int) -> list[Any]:
    """Return ``group2ctx`` for each of ``count`` contexts."""
    if given is None:
        return [None] * count
    if isinstance(given, Mapping):
        given = {k: list(v) if isinstance(v, (list, tuple)) else [v] for k, v in given.items()}
        sizes = {name: len(contexts) for name, contexts in given.items()}
        if any(size not in (1, count) for size in sizes.values()):
            raise ValueError_(
                f"group2ctxs: number of contexts of each group must be 1 or {count}, got {sizes}"
            )
        return [{k: v[i % len(v)] for k, v in given.items()} for i in range(count)]
    if len(given) != count:
        raise ValueError_(f"group2ctxs: list must have {count} entries, got {len(given)}")
    return list(given)


def _alike(array: NDArray, target: NDArray) -> bool:
    return array.dtype == target.dtype and array.stype == target.stype
