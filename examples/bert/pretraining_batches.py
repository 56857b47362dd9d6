"""Batches of pre-training samples: buckets of similar lengths, the same order on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pretraining_samples import Samples

MULTIPLE = 8  # lengths are padded to a multiple


def padded(samples: Samples, rows: np.ndarray, length: int, masks: int) -> dict[str, np.ndarray]:
    """Return samples as arrays of one shape.

    Parameters
    ----------
    samples : Samples
        All samples.
    rows : numpy.ndarray
        Indices of the batch's samples.
    length, masks : int
        Numbers of columns for tokens and masks; unused columns hold 0 and have the weight 0.

    Returns
    -------
    dict of numpy.ndarray
        Arrays by the keys of gluon-nlp's files: int32, except for float32 ``masked_lm_weights``.
    """
    count = len(rows)
    batch = {
        "input_ids": np.zeros((count, length), "int32"),
        "segment_ids": np.zeros((count, length), "int32"),
        "valid_lengths": samples.valid_lengths[rows].astype("int32"),
        "masked_lm_positions": np.zeros((count, masks), "int32"),
        "masked_lm_ids": np.zeros((count, masks), "int32"),
        "masked_lm_weights": np.zeros((count, masks), "float32"),
        "next_sentence_labels": samples.next_sentence_labels[rows].astype("int32"),
    }
    for line, row in enumerate(rows):
        used = samples.valid_lengths[row]
        for key in ("input_ids", "segment_ids"):
            batch[key][line, :used] = getattr(samples, key)[row][:used]
        for key in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            values = getattr(samples, key)[row]
            batch[key][line, : len(values)] = values
    return batch


def _up(value: int, multiple: int = MULTIPLE) -> int:
    return -(-value // multiple) * multiple


class Batches:
    """Endless batches of this rank, whose position can be saved and restored.

    Samples are sorted into buckets with equally many samples. Every batch is of one bucket and has
    the bucket's greatest length, so that there are as many shapes as buckets. An epoch shuffles the
    samples of each bucket and the order of the batches.

    Parameters
    ----------
    samples : Samples
        All samples, the same on all ranks.
    batch_size : int
        Samples of a batch of this rank.
    buckets : int
        Number of buckets; fewer if a bucket would have no batch.
    max_length : int
        Longest sequence of the model.
    seed : int
        Determines the order.
    rank, ranks : int
        This process and the number of processes.
    """

    def __init__(
        self,
        samples: Samples,
        batch_size: int,
        buckets: int,
        max_length: int,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self.samples, self.batch_size = samples, batch_size
        self._seed, self._rank, self._ranks = seed, rank, ranks
        total = batch_size * ranks
        if len(samples) < total:
            raise SystemExit(
                f"bert: samples must fill at least one batch of {total}, got {len(samples)}: use "
                "a smaller --total_batch_size or more data"
            )
        buckets = max(1, min(buckets, len(samples) // total))
        order = np.argsort(samples.valid_lengths, kind="stable")
        self._buckets = np.array_split(order, buckets)
        lengths, masks = samples.valid_lengths, [len(row) for row in samples.masked_lm_ids]
        self.shapes = [
            (min(_up(int(lengths[rows].max())), max_length), _up(max(masks[row] for row in rows)))
            for rows in self._buckets
        ]
        self.epoch = self.position = 0
        self._plan = self._new_plan()

    def _new_plan(self) -> list[tuple[int, np.ndarray]]:
        """Return bucket and samples of each batch of all ranks together in this epoch."""
        random = np.random.RandomState((self._seed * 1_000_003 + self.epoch) % 2**32)
        total = self.batch_size * self._ranks
        plan = []
        for number, rows in enumerate(self._buckets):
            rows = random.permutation(rows)
            plan += [
                (number, rows[begin : begin + total])
                for begin in range(0, len(rows) - total + 1, total)
            ]
        return [plan[i] for i in random.permutation(len(plan))]

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self._plan)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        if self.position == len(self._plan):
            self.epoch, self.position = self.epoch + 1, 0
            self._plan = self._new_plan()
        bucket, rows = self._plan[self.position]
        self.position += 1
        mine = rows[self._rank * self.batch_size : (self._rank + 1) * self.batch_size]
        return padded(self.samples, mine, *self.shapes[bucket])

    def state_dict(self) -> dict[str, int]:
        """Return the position, for a checkpoint."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "seed": self._seed,
            "samples": len(self.samples),
            "batch_size": self.batch_size,
            "ranks": self._ranks,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue at a saved position of an equal loader; raise ValueError for another one."""
        for key in ("seed", "samples", "batch_size", "ranks"):
            if state[key] != self.state_dict()[key]:
                raise ValueError(
                    f"bert: {key} must be that of the checkpoint, {state[key]}, got "
                    f"{self.state_dict()[key]}"
                )
        self.epoch, self.position = state["epoch"], state["position"]
        self._plan = self._new_plan()


def evaluation_batches(
    samples: Samples, batch_size: int, max_length: int, rank: int = 0, ranks: int = 1
) -> Iterator[dict[str, np.ndarray]]:
    """Yield every sample of this rank's part once, those of similar lengths together.

    Parameters
    ----------
    samples : Samples
        All samples.
    batch_size, max_length, rank, ranks : int
        As in :class:`Batches`.

    Yields
    ------
    dict of numpy.ndarray
        As in :func:`padded`.
    """
    order = np.argsort(samples.valid_lengths, kind="stable")[rank::ranks]
    for begin in range(0, len(order), batch_size):
        rows = order[begin : begin + batch_size]
        length = min(_up(int(samples.valid_lengths[rows].max())), max_length)
        masks = _up(max(len(samples.masked_lm_ids[row]) for row in rows))
        yield padded(samples, rows, length, masks)
