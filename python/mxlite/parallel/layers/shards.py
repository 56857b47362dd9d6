"""Sizes of the shards that the ranks have, and gathering of shards."""

from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ...comm.groups import Group
from ..shard import Shard

__all__ = ["shard_sizes", "entering", "gathered", "summed"]


def shard_sizes(who: str, what: str, extent: int, group: Group, allow_uneven: bool) -> list[int]:
    """Return the size of each rank's shard of an axis, by the rule of sharded parameters."""
    if extent < group.size or (extent % group.size and not allow_uneven):
        ranks = ", ".join(map(str, group.ranks))
        raise ShapeError(
            f"{who}: {what} is {extent}, which {group.size} ranks ({ranks}) cannot divide"
            + (
                "; each rank needs at least one"
                if extent < group.size
                else f" equally; use a multiple of {group.size}, or allow_uneven=True"
            )
        )
    shard = Shard(who, (0, group.number), allow_uneven)
    bounds = [shard.bounds((extent,), index) for index in range(group.size)]
    return [end - begin for begin, end in bounds]


def entering(F: Any, data: Any, group: Group, sequence_axis: int | None = None) -> Any:  # noqa: N803
    """Return what all ranks compute with; backward sums its gradient over the ranks.

    ``data`` is the same on all ranks, or with ``sequence_axis`` this rank's part along that axis.
    A group of one rank has no collectives, so that an exported graph runs in any job.
    """
    if group.size == 1:
        return data
    if sequence_axis is not None:
        return F.contrib.all_gather(data, axis=sequence_axis, process_set=group.number)
    return F.contrib.sum_gradient(data, process_set=group.number)


def summed(F: Any, part: Any, group: Group, sequence_axis: int | None = None) -> Any:  # noqa: N803
    """Return the sum of all ranks' arrays; all ranks must use the result in the same way.

    With ``sequence_axis`` each rank gets its part of the sum along that axis. A group of one rank
    has no collectives, so that an exported graph runs in any job.
    """
    if group.size == 1:
        return part
    if sequence_axis is not None:
        return F.contrib.reduce_scatter(part, axis=sequence_axis, process_set=group.number)
    return F.contrib.all_reduce(part, process_set=group.number, replicated=True)


def gathered(F: Any, shard: Any, sizes: list[int], group: Group) -> Any:  # noqa: N803
    """Return the shards of all ranks, joined along the last axis.

    All ranks must use the result in the same way, because backward takes this rank's part of the
    gradient without communication. Shards may have different sizes.
    """
    if group.size == 1:
        return shard
    before, after = sum(sizes[: group.index]), sum(sizes[group.index + 1 :])
    column = F.zeros_like(F.slice_axis(shard, axis=-1, begin=0, end=1))
    parts = [
        *([F.repeat(column, repeats=before, axis=-1)] if before else []),
        shard,
        *([F.repeat(column, repeats=after, axis=-1)] if after else []),
    ]
    return summed(F, F.concat(*parts, dim=-1), group)
