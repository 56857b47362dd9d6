"""Parameters that several stages of a pipeline share."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from .. import _core
from .. import ndarray as nd
from ..base import MXNetError
from ..comm.groups import Group, group_of
from ..gluon import Block
from ..gluon.parameter import Parameter, ParameterDict
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from .mesh import Mesh

__all__ = ["TiedParameters", "parameters_of"]


def parameters_of(stage: Block) -> ParameterDict:
    """Return all parameters of a stage, with those that a block has only as an attribute."""
    params = ParameterDict(stage.prefix)
    params.update(stage.collect_params())
    params.update({param.name: param for param in stage._collect_params_with_prefix().values()})
    return params


class TiedParameters:
    """Keeps the copies of shared parameters equal, which the ranks of their stages hold.

    Copies are equal from the first step on: it takes the values of the first stage, and each step
    sums the gradients of all stages, so that equal optimizers make equal updates.
    """

    def __init__(self, stages: Sequence[Block], mesh: Mesh, axis: str) -> None:
        stages_of: dict[Parameter, list[int]] = {}
        for position, stage in enumerate(stages):
            for param in parameters_of(stage).values():
                if param.grad_req != "null":
                    stages_of.setdefault(param, []).append(position)
        self._shared: list[tuple[Parameter, Group]] = []
        self._are_equal = False
        self._before: list[NDArray | None] = []  # gradients to which the user adds
        for param, positions in stages_of.items():
            if len(positions) > 1:
                group = mesh.part_of_group(axis, positions)
                if group is not None:
                    self._shared.append((param, group_of("Pipeline", group)))
                    param._is_counted = mesh.coordinate(axis) == positions[0]

    def begin_step(self) -> None:
        """Make the copies equal at the first step; call after the gradients are zeroed."""
        for param, group in self._shared:
            if not self._are_equal:
                data = param.data()
                data[:] = nd.contrib.broadcast(data, root=group.ranks[0], process_set=group.number)
        self._are_equal = True
        self._before = [
            None if param._cleared_by_pipelines else param.grad().copy()
            for param, _ in self._shared
        ]

    def sum_gradients(self) -> None:
        """Add up the gradients that the stages have computed in this step."""
        for (param, group), before in zip(self._shared, self._before):
            grad = param.grad()
            own = grad if before is None else grad - before
            total = nd.contrib.all_reduce(own, process_set=group.number)
            grad[:] = total if before is None else before + total

    def fail(self, text: str) -> None:
        """Send failed arrays in place of gradients, because this rank's step has failed."""
        for param, group in self._shared:
            grad = param.grad()
            failed = _core.AwaitedArray(grad.shape, dtype_name(grad.dtype), "Pipeline")
            result = nd.contrib.all_reduce(failed.array, process_set=group.number)
            failed.fail(text)
            for array in (failed.array, result):  # read, so that waitall does not raise it again
                with contextlib.suppress(MXNetError):
                    array.wait_to_read()
