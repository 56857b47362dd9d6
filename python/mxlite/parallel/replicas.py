"""Ranks that hold the same shard of sharded parameters, and therefore sum its gradients."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from ..base import NotSupportedError, ShapeError, ValueError_
from ..comm.buckets import GradientBuckets
from ..comm.groups import Group, exchange_texts, find_process_set, group_of, ranks_text
from ..comm.submitting import run_in_place
from ..optimizer import Optimizer

if TYPE_CHECKING:
    from ..gluon.parameter import Parameter

__all__ = ["Replicas", "check_same_loss", "shard_groups", "tell_shards"]

# All ranks make replicas in the same order, so these numbers make tensor names unique.
_numbers = itertools.count()


class Replicas:
    """The ranks of a group that hold the same shard of each parameter."""

    def __init__(self, who: str, group: Group, params: Sequence[Parameter]) -> None:
        self.group = group
        self._who = who
        self._buckets: dict[Group, GradientBuckets] = {}
        self._prefix = f"replicas.{next(_numbers)}."
        self._groups: dict[str, Group] = {}
        # By name and rank: the ranks among which that rank's parameter is divided.
        self._sets: dict[str, dict[int, list[int]]] = {}
        sharded = [param for param in params if param.shard is not None]
        self._is_compared = group.size == 1
        if not sharded or group.size == 1:
            return
        mine = {param.name: _described(param) for param in sharded}
        all_ranks = self._exchange(mine)
        for param in sharded:
            _check_same(who, param.name, group, all_ranks)
            self._sets[param.name] = {
                rank: theirs[param.name]["ranks"] for rank, theirs in zip(group.ranks, all_ranks)
            }
            for index in range(len(mine[param.name]["ranks"])):
                ranks = [
                    rank
                    for rank, theirs in zip(group.ranks, all_ranks)
                    if theirs[param.name]["index"] == index
                ]
                number = find_process_set(ranks)
                if len(ranks) > 1 and number is None:
                    raise ValueError_(
                        f"{who}: the job must have a process set of {ranks_text(ranks)}, which sum "
                        f"the gradients of their common shard of Parameter {param.name!r}, got "
                        f"none; give mxlite.horovod.ProcessSet({ranks}) to "
                        "init(process_sets=[...])"
                    )
                if index == mine[param.name]["index"]:
                    at = ranks.index(group.ranks[group.index])
                    # A group of one rank needs no process set.
                    self._groups[param.name] = Group(number or 0, tuple(ranks), at)

    def _exchange(self, mine: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the description of sharded parameters of each rank of the group."""
        self._is_compared = True
        texts = exchange_texts(self.group, json.dumps(mine), f"{self._who}: sharded parameters")
        return [json.loads(text) for text in texts]

    def compare(self) -> None:
        """Raise on all ranks if only some ranks of the group have sharded parameters.

        All ranks of the group call this. It does nothing on ranks with sharded parameters, which
        have exchanged their descriptions already.
        """
        if self._is_compared:
            return
        all_ranks = self._exchange({})
        for name in {name: None for theirs in all_ranks for name in theirs}:
            _check_same(self._who, name, self.group, all_ranks)

    @property
    def differ(self) -> bool:
        """Whether ranks of the group hold different shards of a parameter."""
        return bool(self._groups)

    def is_sharded(self, param: Parameter) -> bool:
        """Return whether ranks of the group hold different shards of this parameter."""
        return param.name in self._groups

    def sum_gradients(self, params: Sequence[Parameter]) -> None:
        """Replace the gradients of shards by their sums over contexts and replicas."""
        by_group: dict[Group, list[Parameter]] = {}
        for param in params:
            by_group.setdefault(self.of(param), []).append(param)
        for group, members in by_group.items():
            grads = [param.list_grad() for param in members]
            if group.size == 1:
                for first, *others in grads:
                    if others:
                        first[:] = nd.add_n(first, *(a.as_in_context(first.ctx) for a in others))
                    for other in others:
                        first.copyto(other)
                continue
            if group not in self._buckets:
                self._buckets[group] = GradientBuckets(f"{self._who}: shards")
            self._buckets[group].sum([param.name for param in members], grads, group)

    def send_first(self, param: Parameter, root_rank: int | None = None) -> None:
        """Overwrite a shard on all contexts with the shard of one replica."""
        group = self.of(param)
        first, *others = param._arrays()
        if group.size > 1:
            held = self._sets[param.name]
            source = held[group.ranks[0] if root_rank is None else root_rank]
            root = next((r for r in group.ranks if r in source), group.ranks[0])
            name = f"broadcast.{self._prefix}{param.name}"
            run_in_place("broadcast", [name], [first], set=group.number, root=root)
        for other in others:
            first.copyto(other)

    def check_places(self, who: str, param: Parameter) -> None:
        """Raise if the process sets that hold shards do not have their ranks in the same order.

        With zero=1, this order decides which rank updates a parameter; all shards of the parameter
        must be updated by the same process set.
        """
        sets = list({tuple(ranks) for ranks in self._sets.get(param.name, {}).values()})
        count = len(sets[0]) if sets else 0
        orders = {tuple(sorted(sets, key=lambda ranks: ranks[at])) for at in range(count)}
        if len(orders) > 1:
            raise NotSupportedError(
                f"{who}: the process sets {', '.join(str(list(ranks)) for ranks in sorted(sets))} "
                f"that hold shards of Parameter {param.name!r} must have their ranks in the same "
                "order shard by shard, as those of mxlite.parallel.mesh; other sets need zero=0"
            )

    def of(self, param: Parameter) -> Group:
        """Return the ranks that hold the same shard as this one, or the same whole parameter."""
        return self._groups.get(param.name, self.group)


def shard_groups(params: Sequence[Parameter]) -> list[Group]:
    """Return the groups that skip a step together: of sharded parameters, then of stages."""
    groups = [param._shard.group() for param in params if param._shard is not None]
    stages = {param._stages for param in params if param._stages not in (None, -1)}
    groups += [group_of("Trainer", number) for number in stages]
    return list(dict.fromkeys(group for group in groups if group.size > 1))


def tell_shards(params: Sequence[Parameter], optimizer: Optimizer) -> None:
    """Tell an optimizer which ranks hold the other shards of the sharded parameters."""
    groups = {i: param._shard.group() for i, param in enumerate(params) if param._shard is not None}
    shards = {i: group.number for i, group in groups.items() if group.size > 1}
    if shards and not optimizer._takes_shards():
        raise NotSupportedError(
            f"Trainer: {type(optimizer).__name__} needs whole arrays, but each rank holds a "
            f"shard of Parameter {params[next(iter(shards))].name!r}; use an optimizer that "
            "updates elements by themselves, such as Adam, or LAMB, LARS, LBSGD or GroupAdaGrad, "
            "whose norms are those of whole parameters"
        )
    if optimizer._shards and optimizer._shards != shards:
        raise NotSupportedError(
            f"Trainer: this {type(optimizer).__name__} updates the shards of another trainer; give "
            "each trainer an optimizer of its own"
        )
    optimizer._shards = shards


def check_same_loss(who: str, params: Sequence[Parameter], group: Group) -> None:
    """Raise if a trainer would sum gradients over ranks that have shards of a parallel layer."""
    for param in params:
        if param._same_loss and param._shard is not None:
            both = set(param._shard.group().ranks) & set(group.ranks)
            if len(both) > 1:
                raise ValueError_(
                    f"{who}: Parameter {param.name!r} belongs to a layer of gluon.contrib.parallel "
                    f"that is divided among {ranks_text(sorted(both))}; they compute the same "
                    "loss, so gradients must not be averaged over them: use "
                    "mxlite.horovod.DistributedTrainer(process_set=mesh.group('data'))"
                )


def _described(param: Parameter) -> dict[str, Any]:
    shard = param._shard
    assert shard is not None
    group, shape = shard.group(), param.shape or ()
    return {
        "layout": f"shape {shape}, shard axis {shard.axis(shape) if shape else shard.given[0]}, "
        f"{group.size} shards",
        "ranks": group.ranks,
        "index": group.index,
    }


def _check_same(
    who: str, name: str, group: Group, all_ranks: Sequence[dict[str, dict[str, Any]]]
) -> None:
    layouts = [theirs[name]["layout"] if name in theirs else "not sharded" for theirs in all_ranks]
    if len(set(layouts)) > 1:
        described = "; ".join(f"{text} on rank {r}" for r, text in zip(group.ranks, layouts))
        raise ShapeError(f"{who}: the ranks disagree about Parameter {name!r}: {described}")
