"""Process meshes: the ranks of a job as an array with named axes."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError, TypeError_, ValueError_
from ..comm import basics
from ..comm.groups import Group, exchange_texts, group_of
from ..comm.process_sets import (
    ProcessSet,
    global_process_set,
    process_set_of_axis,
    provide_process_set,
)

__all__ = ["Mesh", "MeshError", "mesh"]


class MeshError(ValueError_):
    """A mesh does not fit the job, or the ranks give different meshes."""


class Mesh:
    """The ranks of a job as an array with named axes; made by `mesh`.

    Inside ``with mesh:`` and after ``mesh.use()`` it is the current mesh of the process: layers,
    parameters and trainers accept the name of an axis as a process set. The name is resolved
    when they are made.

    Attributes
    ----------
    axes : dict of str to int
        Size of each axis, in order; ranks that follow each other differ in the last axis first.
    ranks : numpy.ndarray
        Ranks of the job, one dimension for each axis.
    rank : int
        This process's rank in the job.
    coordinates : dict of str to int
        Position of this process along each axis.
    """

    def __init__(self, axes: dict[str, int], rank: int, groups: dict[str, ProcessSet]) -> None:
        self.axes = dict(axes)
        self.rank = rank
        self.ranks = np.arange(math.prod(axes.values())).reshape(tuple(axes.values()))
        position = np.unravel_index(rank, self.ranks.shape)
        self.coordinates = {axis: int(at) for axis, at in zip(axes, position)}
        self._groups = groups
        self._outer: list[Mesh | None] = []  # meshes to restore at the end of each with statement

    def use(self) -> Mesh:
        """Make this the current mesh until another mesh becomes current; see the class.

        Returns
        -------
        Mesh
            This mesh.
        """
        global _current
        _current = self
        return self

    def __enter__(self) -> Mesh:
        self._outer.append(_current)
        return self.use()

    def __exit__(self, *exc: Any) -> None:
        global _current
        _current = self._outer.pop()

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self.ranks.size)

    def axis_size(self, axis: str) -> int:
        """Return the size of an axis.

        Raises
        ------
        ValueError
            If the mesh has no such axis; all methods raise this.
        """
        return self.axes[self._known(axis)]

    def coordinate(self, axis: str) -> int:
        """Return the position of this process along an axis, from 0."""
        return self.coordinates[self._known(axis)]

    def group(self, axis: str) -> ProcessSet:
        """Return the process set of the ranks that share this process's position on all other axes.

        Returns
        -------
        ProcessSet
            For the parameter ``process_set`` of layers, trainers and `mxlite.horovod`; its
            ``process_set_id`` is the number that collective operators take.
        """
        return self._groups[self._known(axis)]

    def part_of_group(self, axis: str, positions: Sequence[int]) -> ProcessSet | None:
        """Return the process set of some positions along an axis; all ranks call it.

        Parameters
        ----------
        axis : str
        positions : sequence of int
            Positions along the axis, in ascending order.

        Returns
        -------
        ProcessSet or None
            The ranks that share this process's position on all other axes and have one of these
            positions along the axis; None if this process has another position.
        """
        return _group_along(self.axes, self._known(axis), self.rank, positions)

    def peer(self, axis: str, offset: int) -> int | None:
        """Return the rank at an offset from this process along an axis.

        Parameters
        ----------
        axis : str
        offset : int
            1 for the next rank, -1 for the one before.

        Returns
        -------
        int or None
            None if the position is beyond an end of the axis.
        """
        at = self.coordinate(axis) + operator.index(offset)
        if not 0 <= at < self.axes[axis]:
            return None
        position = {**self.coordinates, axis: at}
        return int(self.ranks[tuple(position.values())])

    def barrier(self) -> None:
        """Wait for all ranks of the mesh.

        No barrier is needed at the end of a program: a rank that ends waits for the other ranks.

        Raises
        ------
        MXNetError
            If a rank is lost, or does not call this before the deadline.
        """
        exchange_texts(group_of("mesh", global_process_set), "", "Mesh.barrier")

    def _known(self, axis: str) -> str:
        if axis not in self.axes:
            raise MeshError(
                f"mesh: axis must be one of the mesh's axes, {', '.join(self.axes)}, got {axis!r}"
            )
        return axis

    def __repr__(self) -> str:
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.axes.items())
        return f"Mesh({sizes}, rank={self.rank}, coordinates={self.coordinates})"


_current: Mesh | None = None


@process_set_of_axis.provide
def _of_current(axis: str) -> ProcessSet | None:
    return None if _current is None else _current.group(axis)


def mesh(**axes: int) -> Mesh:
    """Arrange the ranks of the job as an array with named axes; all ranks call it.

    Joins the job (``mxlite.horovod.init``) if this process has not joined it.

    Parameters
    ----------
    **axes : int
        Names and sizes, for example ``data=2, tensor=2``. Their product is the number of ranks; one
        of them may be -1 and is computed from the others. Consecutive ranks differ in the last
        axis, so the axis that communicates most should be the last one.

    Raises
    ------
    ValueError
        If the sizes do not multiply to the number of ranks, or the ranks give different axes; all
        ranks raise.
    TypeError
        If a size is not an integer.
    MXNetError
        If a rank is lost, or does not call this before the deadline.
    """
    basics.init()
    rank, size = basics.rank(), basics.size()
    everyone = group_of("mesh", global_process_set)
    failure: MXNetError | None = None
    sizes: dict[str, int] = {}
    try:
        sizes = _sizes(axes, size)
    except MXNetError as error:
        failure = error
    _agree(everyone, axes, failure)
    groups = {axis: _group_along(sizes, axis, rank, range(sizes[axis])) for axis in sizes}
    return Mesh(sizes, rank, {axis: group for axis, group in groups.items() if group is not None})


def _sizes(axes: dict[str, Any], size: int) -> dict[str, int]:
    """Return the sizes of all axes; raise if their product is not the number of ranks."""
    if not axes:
        raise MeshError("mesh: axes must be names and sizes such as data=2, tensor=2, got none")
    sizes: dict[str, int] = {}
    for axis, extent in axes.items():
        if isinstance(extent, bool) or not hasattr(extent, "__index__"):
            raise TypeError_(f"mesh: the size of axis {axis} must be an integer, got {extent!r}")
        sizes[axis] = operator.index(extent)
        if sizes[axis] < 1 and sizes[axis] != -1:
            raise MeshError(
                f"mesh: the size of axis {axis} must be at least 1, or -1 for all ranks left, got "
                f"{extent}"
            )
    free = [axis for axis, extent in sizes.items() if extent == -1]
    if len(free) > 1:
        raise MeshError(f"mesh: at most one axis must have size -1, got {' and '.join(free)}")
    product = math.prod(extent for extent in sizes.values() if extent != -1)
    if free and size % product == 0:
        sizes[free[0]] = size // product
        product = size
    if product != size:
        raise MeshError(
            f"mesh: {_text(axes)} given, {' x '.join(str(e) for e in axes.values())} does not "
            f"{'divide' if free else 'make'} the {size} ranks of this job; start "
            f"another number of processes (-np) or change a size"
        )
    return sizes


def _text(axes: dict[str, Any]) -> str:
    return ", ".join(f"{axis}={extent}" for axis, extent in axes.items()) or "no axis"


def _agree(everyone: Group, axes: dict[str, Any], failure: MXNetError | None) -> None:
    """Raise on all ranks if the ranks gave different axes, or ``failure`` is set on one."""
    mine = {"axes": _text(axes), "failure": None if failure is None else str(failure)}
    texts = exchange_texts(everyone, json.dumps(mine), "mesh")
    theirs = [json.loads(text) for text in texts]
    by_axes: dict[str, list[int]] = {}
    for rank, entry in enumerate(theirs):
        by_axes.setdefault(entry["axes"], []).append(rank)
    if len(by_axes) > 1:
        given = "; ".join(
            f"{text} on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
            for text, ranks in by_axes.items()
        )
        raise MeshError(f"mesh: the ranks give different axes: {given}")
    if failure is not None:
        raise failure
    for rank, entry in enumerate(theirs):
        if entry["failure"] is not None:
            raise MeshError(f"mesh: rank {rank} cannot take part: {entry['failure']}")


def _group_along(
    sizes: dict[str, int], axis: str, rank: int, positions: Sequence[int]
) -> ProcessSet | None:
    """Return the set of this rank's line along an axis; all ranks make all sets in one order."""
    ranks = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    lines = np.moveaxis(ranks, list(sizes).index(axis), -1).reshape(-1, sizes[axis])
    own: ProcessSet | None = None
    for line in lines[:, list(positions)]:
        group = provide_process_set([int(r) for r in line])
        if rank in line:
            own = group
    return own
