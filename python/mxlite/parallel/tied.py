"""Parameters that several stages of a pipeline share."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .. import ndarray as nd
from ..comm.groups import Group, group_of
from ..gluon import Block
from ..gluon.parameter import Parameter, ParameterDict
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from .failures import send_failed
from .mesh import Mesh

__all__ = ["TiedParameters", "parameters_of"]


def parameters_of(stage: Block) -> ParameterDict:
    """Return all parameters of a stage, with those that a block has only as an attribute."""
    params = ParameterDict(stage.prefix)
    params.update(stage.collect_params())
    params.update({param.name: param for param in stage._collect_params_with_prefix().values()})
    return params


class TiedParameters:
    """Keeps the copies of each shared parameter equal; every rank whose stage uses it holds a copy.

    The first step gives all copies the values of the first stage. Each step sums the gradients of
    all stages, so that equal optimizers make equal updates.
    """

    def __init__(self, stages: Sequence[Block], mesh: Mesh, axis: str) -> None:
        stages_of: dict[Parameter, list[int]] = {}
        for position, stage in enumerate(stages):
            for param in parameters_of(stage).values():
                if param.grad_req != "null":
                    stages_of.setdefault(param, []).append(position)
        self._shared: list[tuple[Parameter, Group]] = []
        self._are_equal = False
        # Gradients at the start of the step where the user set grad_req='add'; None where the
        # pipeline zeroes them.
        self._before: list[NDArray | None] = []
        for param, positions in stages_of.items():
            if len(positions) > 1:
                group = mesh.part_of_group(axis, positions)
                if group is not None:
                    self._shared.append((param, group_of("Pipeline", group)))
                    param._is_counted = mesh.coordinate(axis) == positions[0]

    def begin_step(self) -> None:
        """Make the copies equal at the first step, and keep gradients to which the user adds.

        Call after the gradients are zeroed.
        """
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
            (total,) = _summed(group, [own])
            grad[:] = total if before is None else before + total

    def fail(self, text: str) -> None:
        """Send failed arrays in place of gradients, because this rank's step has failed."""
        for param, group in self._shared:
            grad = param.grad()
            send = functools.partial(_summed, group)
            send_failed(send, grad.shape, dtype_name(grad.dtype), text)


def _summed(group: Group, arrays: list[NDArray]) -> list[NDArray]:
    return [nd.contrib.all_reduce(array, process_set=group.number) for array in arrays]
