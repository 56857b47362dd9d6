"""Shards of parameters: each rank of a process set holds one along an axis."""

from __future__ import annotations

import json
import operator
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from .. import ndarray as nd
from ..base import AxisError, FileFormatError, MXNetError, ShapeError, TypeError_, ValueError_
from ..comm.groups import Group, exchange_texts, group_of, ranks_text
from ..comm.process_sets import ProcessSet, resolved_process_set
from ..ndarray import NDArray

__all__ = ["SHARD_ATTRIBUTE", "Shard", "options_of_attribute", "shard_bounds"]

SHARD_ATTRIBUTE = "__shard__"
"""Attribute of variables that stand for sharded parameters."""

_Shape = tuple[int, ...]

# Number of elements that are sent or added to a checksum at a time.
_PIECE = 1 << 18


def shard_bounds(extent: int, count: int, index: int) -> tuple[int, int]:
    """Return the first index of one of ``count`` shards of an axis, and the index after its last.

    If the axis does not divide evenly, the first shards have one index more.
    """
    least, more = divmod(extent, count)
    return index * least + min(index, more), (index + 1) * least + min(index + 1, more)


class Shard:
    """Division of an array among the ranks of a process set.

    Rank i of the set holds the i-th shard along the axis. If the axis does not divide evenly, the
    first ranks have one index more.
    """

    def __init__(self, who: str, given: Any, allow_uneven: bool) -> None:
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise TypeError_(f"{who}: shard must be a tuple (axis, process_set), got {given!r}")
        axis, process_set = given
        if isinstance(axis, bool) or not hasattr(axis, "__index__"):
            raise TypeError_(f"{who}: the axis of shard must be an integer, got {axis!r}")
        self._who = who
        self._axis = operator.index(axis)
        self.process_set: ProcessSet | int | None = (
            None if process_set is None else resolved_process_set(f"{who}: shard", process_set)
        )
        self.allow_uneven = bool(allow_uneven)
        # Index of the rank that exported the graph, if only that rank can run it; else None.
        self.exported_by: int | None = None

    @property
    def given(self) -> tuple[int, Any]:
        """Axis as the user gave it, and the process set; a name is replaced by the set it names."""
        return self._axis, self.process_set

    def is_given_by(self, given: Any) -> bool:
        """Return whether axis and process set equal those of this shard; -1 equals only -1."""
        axis, process_set = given
        return bool(axis == self._axis and _number(process_set) == _number(self.process_set))

    def group(self) -> Group:
        """Return the process set; raise if this process does not belong to it."""
        return group_of(self._who, self.process_set)

    def attribute(self, shape: _Shape | None, graph_of_rank: bool = False) -> str | None:
        """Return the attribute for a symbol's variable; None if one rank has the whole array."""
        group = self.group()
        if group.size == 1:
            return None
        axis = self.axis(shape) if shape else self._axis
        described = [axis, group.number, group.size, self.allow_uneven, shape]
        if graph_of_rank or (shape and shape[axis] > 0 and shape[axis] % group.size):
            described.append(group.index)
        return json.dumps(described)

    def axis(self, shape: Sequence[int]) -> int:
        """Return the axis as a number from 0."""
        ndim = len(shape)
        if not -ndim <= self._axis < ndim:
            raise AxisError(
                f"{self._who}: the axis of shard must be {-ndim} to {ndim - 1} for shape "
                f"{tuple(shape)}, got {self._axis}"
            )
        return self._axis % ndim

    def bounds(self, shape: Sequence[int], index: int | None = None) -> tuple[int, int]:
        """Return the first index of a rank's shard along the axis, and the index after its last."""
        group = self.group()
        axis = self.axis(shape)
        extent, count = shape[axis], group.size
        if extent < count or (extent % count and not self.allow_uneven):
            raise ShapeError(
                f"{self._who}: axis {axis} of shape {tuple(shape)} does not divide into {count} "
                + (
                    "shards, each rank needs at least one index"
                    if extent < count
                    else f"equal shards for the {ranks_text(group.ranks)}; use a multiple of "
                    f"{count}, or allow_uneven=True to give the first ranks one index more"
                )
            )
        return shard_bounds(extent, count, group.index if index is None else index)

    def local_shape(self, shape: _Shape) -> _Shape:
        """Return the shape of this rank's shard of an array; unknown extents stay unknown."""
        axis = self.axis(shape)
        if shape[axis] <= 0:
            return shape
        begin, end = self.bounds(shape)
        return (*shape[:axis], end - begin, *shape[axis + 1 :])

    def whole_shape(self, local: _Shape, known: _Shape | None) -> _Shape:
        """Return the shape of the whole array from that of this rank's shard."""
        axis = self.axis(local)
        if known and known[axis] > 0:
            extent = known[axis]
        elif self.allow_uneven and self.group().size > 1:
            raise ShapeError(
                f"{self._who}: the size of axis {axis} is unknown and shards may be uneven; give "
                "the whole shape where the parameter is declared"
            )
        else:
            extent = local[axis] * self.group().size
        return (*local[:axis], extent, *local[axis + 1 :])

    def part(self, whole: Any) -> Any:
        """Return this rank's shard of an array of NumPy or mxlite, as a copy."""
        axis = self.axis(whole.shape)
        begin, end = self.bounds(whole.shape)
        if isinstance(whole, NDArray):
            return nd.slice_axis(whole, axis=axis, begin=begin, end=end)
        index = (slice(None),) * axis + (slice(begin, end),)
        return whole[index].copy()

    def gather(self, shard: NDArray, shape: _Shape) -> NDArray:
        """Return the whole array; all ranks of the set call this."""
        group = self.group()
        if group.size == 1:
            return shard
        axis = self.axis(shape)
        sizes = [end - begin for begin, end in (self.bounds(shape, i) for i in range(group.size))]
        missing = sizes[0] - sizes[group.index]
        if missing:
            filling = (*shape[:axis], missing, *shape[axis + 1 :])
            shard = nd.concat(shard, nd.zeros(filling, ctx=shard.ctx, dtype=shard.dtype), dim=axis)
        joined = nd.contrib.all_gather(shard, axis=axis, process_set=group.number)
        if sizes[0] == sizes[-1]:
            return joined
        begins = [i * sizes[0] for i in range(group.size)]
        parts = [
            nd.slice_axis(joined, axis=axis, begin=begin, end=begin + size)
            for begin, size in zip(begins, sizes)
        ]
        return nd.concat(*parts, dim=axis)

    def draw(self, shape: _Shape, dtype: str, fill: Callable[[], NDArray]) -> NDArray:
        """Return this rank's shard of an array that every rank fills; all ranks call this.

        Every rank makes the whole array, so that it gets the same random numbers as in one process.
        If the arrays differ, all ranks use the array of the first rank of the set. The peak memory
        is the whole array and one shard; the whole array is freed at the end.
        """
        group = self.group()
        failure: Exception | None = None
        values = 0
        try:
            whole = fill()
            if group.size > 1:
                values = _checksum(whole)
        except Exception as error:
            failure = error
        checks = self.check_ranks(shape, dtype, failure, values)
        if group.size == 1:
            return whole
        if len(set(checks)) == 1:
            return self.part(whole)
        return self._part_of_first(whole)

    def _part_of_first(self, whole: NDArray) -> NDArray:
        """Return this rank's shard of the first rank's array; all ranks of the set call this."""
        group, axis = self.group(), self.axis(whole.shape)
        own_begin, own_end = self.bounds(whole.shape)
        own = nd.empty(self.local_shape(whole.shape), ctx=whole.ctx, dtype=whole.dtype)
        extent = whole.shape[axis]
        step = max(1, _PIECE * extent // whole.size)
        for begin in range(0, extent, step):
            part = nd.slice_axis(whole, axis=axis, begin=begin, end=min(begin + step, extent))
            sent = nd.contrib.broadcast(part, root=group.ranks[0], process_set=group.number)
            low, high = max(begin, own_begin), min(begin + step, own_end)
            if low < high:
                place = (slice(None),) * axis + (slice(low - own_begin, high - own_begin),)
                own[place] = nd.slice_axis(sent, axis=axis, begin=low - begin, end=high - begin)
            sent.wait_to_read()  # at most one piece is in flight
        return own

    def check_ranks(
        self, shape: _Shape, dtype: str, failure: Exception | None = None, values: int = 0
    ) -> list[int]:
        """Raise if the ranks of the set have different arrays or divide them differently."""
        group = self.group()
        ndim = len(shape)
        axis = self._axis % ndim if -ndim <= self._axis < ndim else self._axis
        exporter = group.index if self.exported_by is None else self.exported_by
        if failure is None and exporter != group.index:
            failure = ValueError_(
                f"{self._who}: the symbol was exported by rank {group.ranks[exporter]} of process "
                f"set {group.number} and computes with the shard of that rank; let each "
                "rank export to a path of its own and import from it, or load the parameters into "
                "the network with load_parameters"
            )
        uneven = ", allow_uneven=True" if self.allow_uneven else ""
        mine = {
            "what": f"{self._who} of shape {shape} and dtype {dtype}, shard axis {axis}{uneven}",
            "failure": None if failure is None else str(failure)[:1000],
            "values": values,
        }
        texts = exchange_texts(group, json.dumps(mine), "initialize or load a sharded Parameter")
        all_ranks = [json.loads(text) for text in texts]
        if failure is not None:
            raise failure
        for rank, theirs in zip(group.ranks, all_ranks):
            if theirs["failure"] is not None:
                raise MXNetError(
                    f"{self._who}: rank {rank} cannot make its shard: {theirs['failure']}"
                )
        if any(theirs["what"] != mine["what"] for theirs in all_ranks):
            described = "; ".join(
                f"{theirs['what']} on rank {rank}" for rank, theirs in zip(group.ranks, all_ranks)
            )
            raise ShapeError(
                f"{self._who}: the ranks of process set {group.number} disagree about a sharded "
                f"parameter: {described}"
            )
        return [int(theirs["values"]) for theirs in all_ranks]


def options_of_attribute(name: str, attribute: str) -> tuple[dict[str, Any], int | None]:
    """Parse the shard attribute of a symbol's variable into arguments of Parameter.

    Also return the position of the exporting rank if the symbol runs only on that rank, else None.
    """
    try:
        axis, number, size, allow_uneven, shape, *rest = json.loads(attribute)
        if not all(type(value) is int for value in (axis, number, size, *(shape or ()), *rest)):
            raise ValueError
        exported_by = rest[0] if rest else None
        if len(rest) > 1 or (exported_by is not None and not 0 <= exported_by < size):
            raise ValueError
    except (TypeError, ValueError):
        raise FileFormatError(
            f"variable {name!r}: {SHARD_ATTRIBUTE} must be axis, process set, number of ranks, a "
            f"boolean, a shape and perhaps the position of a rank, got {attribute[:100]!r}"
        ) from None
    found = group_of(f"variable {name!r}", number).size
    if found != size:
        raise ValueError_(
            f"variable {name!r}: exported as one of {size} shards over process set {number}, which "
            f"has {found} ranks here; load the parameters into the network with load_parameters "
            "instead, files hold them whole"
        )
    options: dict[str, Any] = {"shard": (axis, number), "allow_uneven": bool(allow_uneven)}
    if shape:
        options["shape"] = tuple(shape)
    return options, exported_by


def _checksum(array: NDArray) -> int:
    """Return a checksum of an array's bytes, which are read in pieces."""
    flat = array.reshape((-1,))
    checksum = 0
    for begin in range(0, flat.shape[0], _PIECE):
        piece = flat[begin : begin + _PIECE].asnumpy()
        checksum = zlib.crc32(piece.tobytes(), checksum)
    return checksum


def _number(process_set: Any) -> Any:
    """Return the number of a process set, by which sets are compared."""
    found = resolved_process_set("shard", process_set)
    return found.process_set_id if isinstance(found, ProcessSet) else found
