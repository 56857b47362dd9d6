"""Optimizer states that are divided among the ranks which train the same parameters (ZeRO)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import NotSupportedError, TypeError_, ValueError_
from ..comm.groups import Group, exchange_bytes, exchange_texts, group_of
from ..comm.submitting import run_in_place
from ..ndarray import NDArray
from ..optimizer import Optimizer
from ..optimizer.states import bytes_of_tree, tree_of_bytes
from .replicas import Replicas

if TYPE_CHECKING:
    from ..gluon.parameter import Parameter

__all__ = ["StateShards", "checked_stage"]

# Each trainer has a number, which makes its tensor names unique. This rank has used all lower ones.
# Ranks may belong to different trainers, so a trainer takes the highest number of its ranks.
_next_number = 0
# Size of the buckets in which weights are sent.
_BUCKET_BYTES = 4 << 20


def checked_stage(stage: Any, update_on_kvstore: bool | None, optimizer: Optimizer) -> int:
    """Return the stage of ZeRO, 0 or 1; raise if the trainer does not support it."""
    if isinstance(stage, bool) or not isinstance(stage, (int, np.integer)):
        raise TypeError_(f"Trainer: zero must be 0 or 1, got {stage!r}")
    if stage not in (0, 1):
        raise ValueError_(
            "Trainer: zero must be 0 (every rank has all optimizer states) or 1 (states are "
            f"divided among the ranks), got {stage}"
        )
    if stage and update_on_kvstore:
        raise ValueError_(
            "Trainer: zero=1 divides the updates among the workers, but update_on_kvstore=True "
            "lets the store update; use update_on_kvstore=False"
        )
    if stage and not (optimizer._same_everywhere and optimizer._by_weight):
        raise NotSupportedError(
            f"Trainer: zero=1 cannot divide the states of {type(optimizer).__name__}: its updates "
            "depend on more than a weight and its gradient"
        )
    return int(stage)


def store_group(store: Any, stage: int, params: Sequence[Parameter]) -> Group:
    """Return the ranks whose gradients a store sums; one rank if nothing is divided."""
    spans = store is not None and store._spans_processes
    divides = stage or (spans and any(param.shard is not None for param in params))
    group = group_of("Trainer", None) if divides else Group(0, (0,), 0)
    if not divides or (not spans and group.size == 1):
        return group
    if not spans:
        raise ValueError_(
            f"Trainer: zero=1 divides the optimizer's states among the {group.size} processes of "
            "the job, but the kvstore does not sum their gradients; use kvstore='dist_sync' or "
            "'horovod', or mxlite.horovod.DistributedTrainer"
        )
    if stage and store.num_workers != group.size:
        raise NotSupportedError(
            "Trainer: zero=1 needs the processes of mpirun or mxlite-run, the kvstore "
            f"{store.type!r} has {store.num_workers} workers of parameter servers"
        )
    return group


class StateShards:
    """Assigns each parameter to a rank, which keeps its optimizer state and updates it.

    Parameters are assigned whole, the largest first, each to the rank with the fewest elements so
    far. So norms of weights need no communication, and results have the bits of zero=0.
    """

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._owners: dict[int, int] = {}  # index of the rank in the parameter's group
        self._loads: dict[tuple[int, ...], list[int]] = {}
        self._prefix = ""

    def assign(self, params: Sequence[tuple[int, Parameter]]) -> None:
        """Assign ranks to parameters that have none; all ranks must pass the same parameters."""
        fresh = [(i, param) for i, param in params if i not in self._owners]
        # Uses whole shapes, so that ranks with other shards of a parameter get the same result.
        sizes = {i: math.prod(param.shape or ()) for i, param in fresh}
        for i, param in sorted(fresh, key=lambda entry: (-sizes[entry[0]], entry[0])):
            group = self._replicas.of(param)
            # Counts loads separately by number of replicas, and for whole and sharded parameters.
            loads = self._loads.setdefault((group.size, param.shard is not None), [0] * group.size)
            owner = loads.index(min(loads))
            loads[owner] += sizes[i]
            self._owners[i] = owner

    def owns(self, index: int, param: Parameter) -> bool:
        """Return whether this rank updates a parameter."""
        return self._owners[index] == self._replicas.of(param).index

    def send_weights(self, params: Sequence[tuple[int, Parameter]]) -> None:
        """Send each weight from the rank that updated it to all other ranks."""
        if not self._prefix:
            self._prefix = f"zero.{self._agreed_number()}."
        batches: dict[tuple[Group, int], list[tuple[str, NDArray]]] = {}
        for i, param in params:
            group = self._replicas.of(param)
            if group.size > 1:
                entries = batches.setdefault((group, self._owners[i]), [])
                entries.append((f"broadcast.{self._prefix}{i}", param._arrays()[0]))
        for (group, owner), entries in batches.items():
            for bucket in _buckets(entries):
                run_in_place(
                    "broadcast",
                    [name for name, _ in bucket],
                    [array for _, array in bucket],
                    set=group.number,
                    root=group.ranks[owner],
                )
        for _, param in params:
            first, *others = param._arrays()
            for other in others:
                first.copyto(other)

    def _agreed_number(self) -> int:
        """Return a number that no rank has used; all ranks call this."""
        global _next_number
        texts = exchange_texts(
            self._replicas.group, str(_next_number), "first step of a Trainer with zero=1"
        )
        number = max(map(int, texts))
        _next_number = number + 1
        return number

    def merged(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Return the states of all parameters; all ranks call this."""
        trees = [
            tree_of_bytes(content, "states of another rank")
            for content in exchange_bytes(
                self._replicas.group, bytes_of_tree(tree), "states of a Trainer with zero=1"
            )
        ]
        merged = trees[0]
        states: dict[Any, Any] = {}
        for theirs in trees:
            states.update(theirs["states"])
        merged["states"] = {i: states[i] for i in sorted(states)}
        if merged["optimizer"] is not None:
            attributes = merged["optimizer"]["attributes"]
            for theirs in trees:
                for key, value in theirs["optimizer"]["attributes"].items():
                    if isinstance(value, dict) and key != "_all_index_update_counts":
                        # Joins dictionaries by weight, such as the last rates of LARS.
                        own = {i: value[i] for i in value if i in theirs["states"]}
                        attributes[key].update(own)
        return merged

    def own_states(
        self, states: dict[Any, Any], params: Sequence[tuple[int, Parameter]]
    ) -> dict[Any, Any]:
        """Return the states that this rank keeps."""
        foreign = {i for i, param in params if not self.owns(i, param)}
        return {i: state for i, state in states.items() if i not in foreign}


def _buckets(entries: list[tuple[str, NDArray]]) -> list[list[tuple[str, NDArray]]]:
    """Split a list into buckets of about ``_BUCKET_BYTES``."""
    buckets: list[list[tuple[str, NDArray]]] = [[]]
    size = 0
    for entry in entries:
        if size >= _BUCKET_BYTES:
            buckets.append([])
            size = 0
        buckets[-1].append(entry)
        size += entry[1].size * np.dtype(entry[1].dtype).itemsize
    return buckets
