"""Iterators over arrays: order, tails, names, threads."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_raises_regex


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.stack([np.arange(count), 10 * np.arange(count)], axis=1).astype(np.float32)


def epoch(batches: mx.io.DataIter) -> list[tuple[list[int], int | None]]:
    return [(b.data[0].asnumpy().reshape(-1, 2)[:, 0].astype(int).tolist(), b.pad) for b in batches]


def test_pad_wraps_to_the_first_samples() -> None:
    batches = mx.io.NDArrayIter(rows(7), batch_size=3)
    for _ in range(2):
        assert epoch(batches) == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]
        batches.reset()
    assert epoch(mx.io.NDArrayIter(rows(2), batch_size=5)) == [([0, 1, 0, 1, 0], 3)]


def test_discard_and_roll_over() -> None:
    batches = mx.io.NDArrayIter(rows(7), batch_size=3, last_batch_handle="discard")
    for _ in range(2):
        assert epoch(batches) == [([0, 1, 2], 0), ([3, 4, 5], 0)]
        batches.reset()
    batches = mx.io.NDArrayIter(rows(7), batch_size=3, last_batch_handle="roll_over")
    assert epoch(batches) == [([0, 1, 2], 0), ([3, 4, 5], 0)]
    batches.reset()
    assert epoch(batches) == [([6, 0, 1], 1), ([2, 3, 4], 0)]
    batches.reset()
    assert epoch(batches)[0] == ([5, 6, 0], 2)
    batches.hard_reset()
    assert epoch(batches)[0] == ([0, 1, 2], 0)


def test_what_is_written_to_the_arrays_is_delivered() -> None:
    batches = mx.io.NDArrayIter({"x": rows(4)}, {"y": np.zeros((4, 2))}, batch_size=2)
    assert batches.num_source == 2
    assert [array.shape for array in batches.data_list] == [(4, 2), (4, 2)]
    batches.data_list[1][:] = rows(4) + 1
    labels = [batch.label[0].asnumpy() for batch in batches]
    np.testing.assert_array_equal(np.concatenate(labels), rows(4) + 1)


def test_labels_follow_shuffled_data() -> None:
    batches = mx.io.NDArrayIter(rows(20), rows(20)[:, 1], batch_size=4, shuffle=True)
    orders = []
    for _ in range(2):
        seen = []
        for batch in batches:
            np.testing.assert_array_equal(batch.data[0].asnumpy()[:, 1], batch.label[0].asnumpy())
            seen += batch.data[0].asnumpy()[:, 0].astype(int).tolist()
        assert sorted(seen) == list(range(20))
        orders.append(seen)
        batches.reset()
    assert orders[0] != orders[1] != list(range(20))


def test_names_and_descriptions() -> None:
    batches = mx.io.NDArrayIter(rows(4), np.arange(4), 2)
    assert [tuple(d) for d in batches.provide_data] == [("data", (2, 2))]
    assert [tuple(d) for d in batches.provide_label] == [("softmax_label", (2,))]
    assert batches.provide_data[0].dtype == np.float32 and batches.provide_data[0].layout == "NCHW"
    many = mx.io.NDArrayIter([rows(4), rows(4)], {"a": np.arange(4), "b": rows(4)}, 2)
    assert [d.name for d in many.provide_data] == ["_0_data", "_1_data"]
    assert [d.name for d in many.provide_label] == ["a", "b"]
    ints = mx.io.NDArrayIter(mx.nd.array([[1], [2]], dtype="int32"), batch_size=1)
    assert ints.provide_data[0].dtype == np.int32 and ints.next().data[0].dtype == np.int32
    time_major = mx.io.NDArrayIter(np.arange(10).reshape(2, 5), batch_size=2, layout="TN")
    assert [b.data[0].asnumpy()[0].tolist() for b in time_major] == [[0, 1], [2, 3], [4, 0]]


def test_wrong_input() -> None:
    with pytest.raises(ValueError, match="same number of samples, got .*5.*4"):
        mx.io.NDArrayIter(rows(5), np.arange(4), 2)
    with pytest.raises(ValueError, match="last_batch_handle must be .*got 'drop'"):
        mx.io.NDArrayIter(rows(4), last_batch_handle="drop")
    assert_raises_regex(TypeError, "data must be given", mx.io.NDArrayIter, None)
    assert_raises_regex(
        ValueError, "batch_size must be at least 1, got 0", mx.io.NDArrayIter, rows(4), batch_size=0
    )


def test_resize_iter_begins_again_as_often_as_needed() -> None:
    inner = mx.io.NDArrayIter(rows(4), batch_size=2)
    assert [b[0] for b in epoch(mx.io.ResizeIter(inner, 5))] == [[0, 1], [2, 3]] * 2 + [[0, 1]]
    short = mx.io.ResizeIter(inner, 1)
    for _ in range(2):
        short.reset()
        assert epoch(short) == [([0, 1], 0)]
    inner.reset()
    going_on = mx.io.ResizeIter(inner, 1, reset_internal=False)
    assert epoch(going_on) == [([0, 1], 0)]
    going_on.reset()
    assert epoch(going_on) == [([2, 3], 0)]


def test_prefetching_joins_and_renames() -> None:
    parts = [mx.io.NDArrayIter(rows(5), np.arange(5), 2) for _ in range(2)]
    data_names, label_names = [{"data": "left"}, {"data": "right"}], ["l", "r"]
    label_names = [{"softmax_label": name} for name in label_names]
    both = mx.io.PrefetchingIter(parts, rename_data=data_names, rename_label=label_names)
    assert [d.name for d in both.provide_data] == ["left", "right"]
    assert [d.name for d in both.provide_label] == ["l", "r"]
    for _ in range(3):
        found = list(both)
        assert [b.pad for b in found] == [0, 0, 1]
        assert all(len(b.data) == 2 and len(b.label) == 2 for b in found)
        with pytest.raises(StopIteration):
            both.next()
        both.reset()
    both.next()
    both.reset()  # in the middle of an epoch
    assert len(list(both)) == 3


class Failing(mx.io.DataIter):
    provide_data = [mx.io.DataDesc("data", (2, 2))]
    provide_label: list[mx.io.DataDesc] = []

    def next(self) -> mx.io.DataBatch:
        raise OSError("disk failed")


def test_prefetching_raises_what_its_iterator_raised() -> None:
    batches = mx.io.PrefetchingIter(Failing())
    assert_raises_regex(OSError, "disk failed", batches.next)
    with pytest.raises(StopIteration):
        batches.next()


def test_labels_behind_the_last_sample_are_left_out() -> None:
    with pytest.warns(UserWarning, match="different numbers of samples.*after the first 4") as seen:
        batches = list(mx.io.NDArrayIter(np.arange(4.0), np.arange(6.0) * 10, batch_size=2))
    assert seen[0].filename == __file__
    assert [b.label[0].asnumpy().tolist() for b in batches] == [[0, 10], [20, 30]]


def test_sparse_matrices_of_scipy_are_data() -> None:
    matrix = scipy.sparse.coo_matrix(np.float32([[1, 0, 2], [0, 3, 0]]))
    batch = mx.io.NDArrayIter(matrix, batch_size=2, last_batch_handle="discard").next()
    assert batch.data[0].stype == "csr"
    np.testing.assert_array_equal(batch.data[0].asnumpy(), matrix.toarray())


def test_rows_of_csr_arrays_are_shuffled() -> None:
    dense = np.float32([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 0, 0], [0, 5, 6]])
    np.random.seed(3)
    csr = mx.nd.array(dense).tostype("csr")
    batches = mx.io.NDArrayIter(csr, np.arange(5), 2, True, last_batch_handle="discard")
    orders = []
    for _ in range(2):
        for batch in batches:
            rows = batch.label[0].asnumpy().astype(int)
            orders.append(rows.tolist())
            assert batch.data[0].stype == "csr"
            np.testing.assert_array_equal(batch.data[0].asnumpy(), dense[rows])
        batches.reset()
    assert len(orders) == 4 and orders[:2] != orders[2:]
    with pytest.raises(
        NotImplementedError,
        match="last_batch_handle must be 'discard' for sparse arrays, got 'pad'",
    ):
        mx.io.NDArrayIter(mx.nd.array(dense).tostype("csr"), batch_size=2)


def test_arrays_given_by_name_come_in_the_order_of_their_names() -> None:
    data = {"user": np.zeros((4, 1)), "item": np.ones((4, 2))}
    batches = mx.io.NDArrayIter(data, {"z": np.zeros(4), "y": np.ones(4)}, batch_size=2)
    assert [desc.name for desc in batches.provide_data] == ["item", "user"]
    assert [desc.name for desc in batches.provide_label] == ["y", "z"]
    assert [array.shape for array in next(batches).data] == [(2, 2), (2, 1)]
