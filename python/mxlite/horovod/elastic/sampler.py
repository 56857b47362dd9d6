"""Divides samples among ranks, whose number may change within an epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from ...base import TypeError_, ValueError_
from ...comm import basics
from ...gluon.data.sampler import Sampler


class ElasticSampler(Sampler):
    """Distributes the samples of an epoch to the ranks in round-robin order.

    Parameters
    ----------
    dataset : sized or int
        Data set, or the number of samples.
    shuffle : bool
        Use a different random order in each epoch, the same on all ranks.
    seed : int

    Notes
    -----
    Matches ``horovod.torch.elastic.ElasticSampler``. Samples that
    `record_batch` recorded are not used again after a change of the job. If the number of samples
    is not a multiple of the number of ranks, the last ranks get samples from the front again.
    """

    def __init__(self, dataset: Sized | int, shuffle: bool = True, seed: int = 0) -> None:
        length = dataset if isinstance(dataset, int) else len(dataset)
        if length < 1:
            raise ValueError_(f"ElasticSampler: number of samples must be 1 or more, got {length}")
        self._length = length
        self.shuffle = bool(shuffle)
        self.seed = int(seed)
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch processed by all ranks
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch with all samples."""
        self.epoch = int(epoch)
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Record that every rank has trained on its next ``batch_size`` samples.

        Parameters
        ----------
        batch_idx : int
            Not used; accepted because callers of Horovod pass it.
        batch_size : int
            Batch size of this rank; all ranks have the same.
        """
        self.record_indices(range(batch_size))

    def record_indices(self, indices: Sized) -> None:
        """Record that every rank has trained on ``len(indices)`` further samples."""
        self.processed_num = min(
            self._length, self.processed_num + len(indices) * self.num_replicas
        )

    def reset(self) -> None:
        """Divide the rest of the epoch among the current ranks."""
        joined = basics.is_initialized()
        self.num_replicas = basics.size() if joined else 1
        self.rank = basics.rank() if joined else 0
        order = list(range(self._length))
        if self.shuffle:
            random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        left = order[self.processed_num :]
        self.num_samples = -(-len(left) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        while left and len(left) < self.total_size:
            left += left[: self.total_size - len(left)]
        self.remaining_indices = left

    def state_dict(self) -> dict[str, Any]:
        """Return epoch and position."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        if set(state) != {"epoch", "processed_num"}:
            raise TypeError_(
                "ElasticSampler: state must have the keys ['epoch', 'processed_num'], got "
                f"{sorted(state)}"
            )
        self.epoch = int(state["epoch"])
        self.processed_num = int(state["processed_num"])
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(self.remaining_indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
