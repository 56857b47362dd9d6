"""Samples that a DataLoader must not turn into a shorter pass or into wrong batches."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon.data import DataLoader, Dataset


class Numbers(Dataset):
    """Eight samples, of which number 3 is what ``odd`` returns."""

    def __init__(self, odd):
        self.odd = odd

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.odd() if index == 3 else np.float32(index)


def ended():
    return next(iter(()))


@pytest.mark.parametrize(("workers", "threads"), [(0, False), (2, False), (2, True)])
def test_a_dataset_that_raises_stop_iteration_does_not_end_the_pass(workers, threads):
    loader = DataLoader(Numbers(ended), batch_size=2, num_workers=workers, thread_pool=threads)
    with pytest.raises(mx.MXNetError, match=r"samples \[2, 3\] raised StopIteration"):
        list(loader)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (lambda: None, "sample 1 of a batch is None"),
        (lambda: (1, 2), "must be a float32 like sample 0, got a tuple of 2 for sample 1"),
    ],
)
def test_samples_of_other_parts_are_refused(odd, words):
    with pytest.raises(TypeError, match=words) as caught:
        list(DataLoader(Numbers(odd), batch_size=2))
    assert isinstance(caught.value, mx.MXNetError)


def test_longer_samples_are_not_cut():
    with pytest.raises(TypeError, match="must be a tuple of 2 like sample 0, got a tuple of 3"):
        list(DataLoader([(1, 2), (3, 4, 5)], batch_size=2))
