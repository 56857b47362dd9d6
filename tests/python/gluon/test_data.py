"""Data sets, samplers and loaders."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from mxlite import nd
from mxlite.base import MXNetError
from mxlite.gluon import data


def test_arrays_give_tuples_and_labels_stay_numpy_numbers() -> None:
    pairs = data.ArrayDataset(nd.array([[1, 2], [3, 4]]), nd.array([5, 6], dtype="int32"))
    assert len(pairs) == 2
    image, label = pairs[1]
    np.testing.assert_array_equal(image.asnumpy(), [3, 4])
    assert label == 6
    assert label.dtype == np.int32
    assert data.ArrayDataset([1, 2, 3])[2] == 3


def test_a_dataset_can_be_changed() -> None:
    numbers = data.SimpleDataset(range(10))
    assert list(numbers.filter(lambda n: n % 3 == 0)) == [0, 3, 6, 9]
    shards = [list(numbers.shard(3, index)) for index in range(3)]
    assert shards == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert list(numbers.take(2)) == [0, 1]
    assert len(numbers.take(None)) == len(numbers.take(99)) == 10
    assert list(numbers.sample(data.SequentialSampler(2, 5))) == [5, 6]
    assert list(numbers.transform(lambda n: n * n).take(3)) == [0, 1, 4]
    assert list(numbers.transform(lambda n: n + 1, lazy=False).take(2)) == [1, 2]


def test_transform_first_leaves_the_label() -> None:
    pairs = data.SimpleDataset([(1, "a"), (2, "b")])
    assert list(pairs.transform_first(lambda n: -n)) == [(-1, "a"), (-2, "b")]
    assert list(pairs.transform(lambda n, name: name * n)) == ["a", "bb"]


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        (data.SequentialSampler(3), [0, 1, 2]),
        (data.SequentialSampler(2, 5), [5, 6]),
        (data.IntervalSampler(3, 3), [0, 1, 2]),
        (data.IntervalSampler(7, 3), [0, 3, 6, 1, 4, 2, 5]),
        (data.IntervalSampler(7, 3, rollover=False), [0, 3, 6]),
        (data.IntervalSampler(6, 3, rollover=False), [0, 3]),
        (data.FilterSampler(lambda n: n > 1, data.SimpleDataset([3, 0, 2, 1])), [0, 2]),
        (data.BatchSampler(data.SequentialSampler(3), 2), [[0, 1], [2]]),
        (data.BatchSampler(data.SequentialSampler(2), 1), [[0], [1]]),
        (data.BatchSampler(data.SequentialSampler(4), 2, "discard"), [[0, 1], [2, 3]]),
    ],
)
def test_a_sampler_is_as_long_as_its_order_and_starts_again(sampler: Any, order: list[Any]) -> None:
    for _ in range(2):
        assert len(sampler) == len(order)
        assert list(sampler) == order


def test_a_random_order_follows_numpy_s_seed() -> None:
    sampler = data.RandomSampler(20)
    assert len(sampler) == 20 and sorted(sampler) == list(range(20))
    np.random.seed(4)
    first = list(sampler)
    np.random.seed(4)
    assert list(data.RandomSampler(20)) == first
    assert list(sampler) != first


def test_a_sampler_without_an_order_names_its_class() -> None:
    class Unfinished(data.Sampler):
        pass

    with pytest.raises(NotImplementedError, match="^Unfinished does not define __iter__$"):
        iter(Unfinished())
    with pytest.raises(NotImplementedError, match="^Unfinished does not define __len__$"):
        len(Unfinished())


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("keep", [[0, 1, 2], [3, 4]], [[0, 1, 2], [3, 4]]),
        ("discard", [[0, 1, 2]], [[0, 1, 2]]),
        ("rollover", [[0, 1, 2]], [[3, 4, 0], [1, 2, 3]]),
    ],
)
def test_the_last_batch(rule: str, first: Any, second: Any) -> None:
    sampler = data.BatchSampler(data.SequentialSampler(5), 3, rule)
    assert len(sampler) == len(first)
    assert list(sampler) == first
    assert len(sampler) == len(second)
    assert list(sampler) == second


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_loader_gives_all_batches_in_order(workers: int) -> None:
    pairs = data.ArrayDataset(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10))
    loader = data.DataLoader(pairs, batch_size=4, num_workers=workers)
    assert len(loader) == 3
    for _ in range(2):
        batches = list(loader)
        assert [batch[0].shape for batch in batches] == [(4, 2), (4, 2), (2, 2)]
        assert np.concatenate([batch[1].asnumpy() for batch in batches]).tolist() == list(range(10))
        assert batches[0][0].dtype == np.float32
        assert batches[0][1].dtype == np.int64


def test_a_loader_shuffles_each_pass() -> None:
    loader = data.DataLoader(data.SimpleDataset(list(range(50))), 50, shuffle=True)
    orders = [next(iter(loader)).asnumpy().tolist() for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    assert orders[0] != orders[1]


def test_a_loader_takes_samplers_and_a_batch_function() -> None:
    numbers = data.SimpleDataset(list(range(6)))
    batches = data.BatchSampler(data.SequentialSampler(6), 2)
    loader = data.DataLoader(numbers, batch_sampler=batches, batchify_fn=sum)
    assert list(loader) == [1, 5, 9]
    loader = data.DataLoader(numbers, 3, sampler=data.SequentialSampler(3, 3), batchify_fn=list)
    assert list(loader) == [[3, 4, 5]]


def test_an_error_of_a_worker_reaches_the_caller() -> None:
    def broken(number: int) -> int:
        if number == 5:
            raise KeyError("sample 5")
        return number

    samples = data.SimpleDataset(range(8)).transform(broken)
    loader = data.DataLoader(samples, batch_size=2, num_workers=2)
    seen = []
    with pytest.raises(KeyError, match="sample 5"):
        for batch in loader:
            seen.append(batch.asnumpy().tolist())
    assert seen == [[0, 1], [2, 3]]


def test_leaving_the_loop_early_ends_the_threads() -> None:
    before = threading.active_count()
    loader = data.DataLoader(data.SimpleDataset(list(range(1000))), batch_size=1, num_workers=4)
    for _ in loader:
        break
    del _
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_worker_that_hangs_is_named() -> None:
    release = threading.Event()
    loader = data.DataLoader(
        data.SimpleDataset([0]).transform(lambda n: release.wait(10)),
        batch_size=1,
        num_workers=1,
        timeout=0.05,
    )
    try:
        with pytest.raises(TimeoutError, match="within 0.05 seconds") as caught:
            list(loader)
        assert isinstance(caught.value, MXNetError)
    finally:
        release.set()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: data.ArrayDataset([1, 2], [3]), r"array\[0\] has length 2 while array\[1\] has 1"),
        (lambda: data.DataLoader([1, 2]), "batch_size must be specified"),
        (lambda: data.DataLoader([1, 2], 0), "batch_size must be an integer above 0.*, got 0"),
        (lambda: data.DataLoader([1, 2], "4"), "batch_size must be an integer.*, got '4'"),
        (lambda: data.DataLoader([1], 1, True, [0]), "shuffle must not be specified if sampler"),
        (lambda: data.BatchSampler([0], 1, "drop"), "'keep', 'discard', or 'rollover', but got 'd"),
        (lambda: data.IntervalSampler(2, 3), "Interval 3 must be smaller than or equal to"),
        (lambda: data.BatchSampler([0], 0), "^BatchSampler: batch_size must be 1 or more, got 0$"),
        (lambda: data.SimpleDataset([1]).shard(2, 2), "index must be 0 to 1.*, got 2"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError, IndexError))


def test_negative_numbers_of_workers_are_none() -> None:
    assert [len(batch) for batch in data.DataLoader([1, 2, 3], 2, num_workers=-1)] == [2, 1]
