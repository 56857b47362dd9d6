"""Division of a trainer's parameters and optimizer states among ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base import NotSupportedError
from ..comm.groups import Group
from ..ndarray import NDArray
from ..optimizer import Optimizer
from .replicas import Replicas, check_same_loss, tell_shards
from .zero import StateShards

if TYPE_CHECKING:
    from ..gluon.parameter import Parameter

__all__ = ["Division", "own_state", "whole_state"]


class Division:
    """The division of parameters, gradients and the optimizer's states among the ranks of a group.

    Attributes
    ----------
    replicas : Replicas
        The ranks that hold the same shards, and sum their gradients.
    states : StateShards or None
        The ranks that keep states and update weights; None if all ranks do.
    """

    def __init__(
        self,
        who: str,
        group: Group,
        params: Sequence[Parameter],
        optimizer: Optimizer,
        zero: int,
    ) -> None:
        self.replicas = Replicas(who, group, params)
        tell_shards(params, optimizer)
        check_same_loss(who, params, group)
        self.states: StateShards | None = None
        if zero and group.size > 1:
            for i in optimizer._shards if not optimizer._by_element else ():
                self.replicas.check_places("Trainer: zero=1", params[i])
            self.states = StateShards(self.replicas)

    @property
    def differs(self) -> bool:
        """Whether ranks hold or update different parts of the parameters."""
        return self.states is not None or self.replicas.differ


def whole_state(param: Parameter, state: Any, by_row: bool) -> Any:
    """Return the state of a whole parameter from that of this rank's shard."""
    shard = param._shard
    if shard is None or shard.group().size == 1 or state is None:
        return state
    if isinstance(state, (tuple, list)):
        # With multi_precision, the state is a pair: the float32 copy of the weight, and the array
        # with one value per row.
        ways = [False, True] if by_row else [False] * len(state)
        return tuple(whole_state(param, part, way) for part, way in zip(state, ways, strict=True))
    if not isinstance(state, NDArray):
        return state
    local, whole = param.local_shape or (), param.shape or ()
    if by_row:
        if shard.axis(whole) != 0:
            return state  # every rank has the values of all rows
        local, whole = (local[0], 1), (whole[0], 1)
    if tuple(state.shape) != local:
        raise NotSupportedError(
            f"Trainer: the optimizer's state of sharded Parameter {param.name!r} must have the "
            f"shape of its shard, {local}, to be saved as a whole, got {tuple(state.shape)}"
        )
    return shard.gather(state, whole)


def own_state(param: Parameter, state: Any, by_row: bool) -> Any:
    """Return the state of this rank's shard of a parameter from that of the whole one."""
    shard = param._shard
    if isinstance(state, (tuple, list)):
        ways = [False, True] if by_row else [False] * len(state)
        return tuple(own_state(param, part, way) for part, way in zip(state, ways, strict=True))
    if shard is None or not isinstance(state, NDArray):
        return state
    whole = param.shape or ()
    if by_row:
        if shard.axis(whole) != 0:
            return state
        whole = (whole[0], 1)
    return shard.part(state) if tuple(state.shape) == whole else state
