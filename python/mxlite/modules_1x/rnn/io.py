"""Sentences in buckets of similar length."""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import ValueError_
from ...io import DataBatch, DataDesc, DataIter
from ...ndarray import NDArray, array

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(
    sentences: Sequence[Sequence[Any]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Any = "\n",
    start_label: int = 0,
    unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """Replace words by numbers.

    Matches ``mxnet.rnn.encode_sentences``.

    Parameters
    ----------
    sentences : list of list of str
    vocab : dict of str to int, optional
        Without one, each new word gets the next number.
    invalid_label : int
        Number of padding, given to no word.
    invalid_key : str
        Word of padding in a new vocabulary.
    start_label : int
        First number.
    unknown_token : str, optional
        Replacement of words that a given vocabulary lacks. It is added to the vocabulary if it is
        missing there.

    Returns
    -------
    encoded : list of list of int
    vocab : dict of str to int

    Raises
    ------
    ValueError
        For a word that a given vocabulary lacks, without unknown_token.
    """
    grows = vocab is None
    known: dict[Any, int] = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label

    def number(word: Any) -> int:
        nonlocal following
        if word not in known:
            if not grows:
                if unknown_token is None:
                    raise ValueError_(
                        f"encode_sentences: word {word!r} is not in vocab and unknown_token is None"
                    )
                word = unknown_token
                if word in known:
                    return known[word]
            if following == invalid_label:
                following += 1
            known[word] = following
            following += 1
        return known[word]

    return [[number(word) for word in sentence] for sentence in sentences], known


class BucketSentenceIter(DataIter):
    """Batches of sentences of similar length; labels are the following words.

    Matches ``mxnet.rnn.BucketSentenceIter``; batches carry their ``bucket_key``.

    Parameters
    ----------
    sentences : list of list of int
        Encoded, see `encode_sentences`.
    batch_size : int
    buckets : list of int, optional
        Lengths; by default those of at least ``batch_size`` sentences. Longer ones are discarded.
    invalid_label : int
        Fills sentences up to their bucket's length, and the label after the last word.
    data_name, label_name : str
    dtype : str or type
    layout : {'NT', 'TN'}

    Raises
    ------
    ValueError
        For another layout.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        if layout not in ("NT", "TN"):
            raise ValueError_(
                f"BucketSentenceIter: layout must be 'NT' (batch first) or 'TN', got {layout!r}"
            )
        lengths = [len(sentence) for sentence in sentences]
        if not buckets:
            counts = np.bincount(np.asarray(lengths, dtype=int))
            buckets = [n for n, count in enumerate(counts) if n > 0 and count >= batch_size]
        if not buckets:
            raise ValueError_(
                f"BucketSentenceIter: no length has {batch_size} sentences; give buckets"
            )
        self.buckets = sorted(buckets)
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.invalid_label, self.layout = dtype, invalid_label, layout
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)

        rows: list[list[np.ndarray]] = [[] for _ in self.buckets]
        discarded = 0
        for sentence in sentences:
            place = bisect.bisect_left(self.buckets, len(sentence))
            if place == len(self.buckets):
                discarded += 1
                continue
            row = np.full((self.buckets[place],), invalid_label, dtype=dtype)
            row[: len(sentence)] = sentence
            rows[place].append(row)
        # As in 1.x, prints the number even if it is 0.
        print(f"WARNING: discarded {discarded} sentences longer than the largest bucket.")
        self.data = [
            np.asarray(bucket, dtype=dtype).reshape(-1, n) for bucket, n in zip(rows, self.buckets)
        ]
        self.idx = [
            (i, first)
            for i, bucket in enumerate(self.data)
            for first in range(0, len(bucket) - batch_size + 1, batch_size)
        ]
        self.provide_data = [self._describe(data_name, self.default_bucket_key)]
        self.provide_label = [self._describe(label_name, self.default_bucket_key)]
        self.reset()

    def _describe(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.layout == "NT" else (length, self.batch_size)
        return DataDesc(name, shape, np.dtype(self.dtype).type, self.layout)

    def reset(self) -> None:
        """Shuffle sentences and batches, and begin again."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata: list[NDArray] = []
        self.ndlabel: list[NDArray] = []
        for bucket in self.data:
            np.random.shuffle(bucket)
            label = np.full_like(bucket, self.invalid_label)
            label[:, :-1] = bucket[:, 1:]
            self.nddata.append(array(bucket, dtype=self.dtype))
            self.ndlabel.append(array(label, dtype=self.dtype))

    def next(self) -> DataBatch:
        """Return the next batch; see `DataIter.next`."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, first = self.idx[self.curr_idx]
        self.curr_idx += 1
        arrays = [
            values[bucket][first : first + self.batch_size]
            for values in (self.nddata, self.ndlabel)
        ]
        if self.layout == "TN":
            arrays = [a.T for a in arrays]
        length = self.buckets[bucket]
        return DataBatch(
            [arrays[0]],
            [arrays[1]],
            pad=0,
            bucket_key=length,
            provide_data=[self._describe(self.data_name, length)],
            provide_label=[self._describe(self.label_name, length)],
        )
