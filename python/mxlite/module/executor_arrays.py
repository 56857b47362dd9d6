"""The arrays of an executor group by device, under their names of 1.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..io import DataDesc
from ..ndarray import NDArray


class ExecutorArrays:
    """Base of `DataParallelExecutorGroup`."""

    execs: list[Any]
    slices: list[slice]
    param_names: list[str]
    aux_names: list[str]
    state_names: list[str]
    output_names: list[str]
    inputs_need_grad: bool
    data_shapes: list[DataDesc]
    label_shapes: list[DataDesc] | None

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
        """For each data array and each context: its slice of the batch and its array."""
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
        """The gradients of each parameter on all contexts; None where there is none."""
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
        """Bytes of the arrays bound on all contexts."""
        groups = (
            vars_ for exe in self.execs for vars_ in (exe.arg_dict, exe.grad_dict, exe.aux_dict)
        )
        arrays = (array for group in groups for array in group.values() if array is not None)
        return sum(array.size * np.dtype(array.dtype).itemsize for array in arrays)
