"""Gradients of several CPU contexts: bucket by bucket, with the bits of sums key by key."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from device_training import STEPS, summed_by_key, train
from mxlite.kvstore.device_buckets import DeviceBuckets

OPTIMIZERS = [
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
    ("adam", {"learning_rate": 0.01}),
    ("lamb", {"learning_rate": 0.01}),
    ("nadam", {"learning_rate": 0.01}),  # its schedule counts the updates of all weights
]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("on_store", [True, False])
@pytest.mark.parametrize("store", ["device", "local"])
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_training_has_the_bits_of_sums_by_key(
    monkeypatch: pytest.MonkeyPatch,
    optimizer: str,
    options: dict[str, Any],
    store: str,
    on_store: bool,
    count: int,
) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", "0.001")  # several buckets
    contexts = [mx.cpu(i) for i in range(count)]
    keywords = {"kvstore": store, "update_on_kvstore": on_store}
    got = train(contexts, optimizer, options, **keywords)
    monkeypatch.setattr("mxlite.gluon.trainer.trainer.pushpull_all", summed_by_key)
    wanted = train(contexts, optimizer, options, **keywords)
    assert len(got) == len(wanted) > 10
    for one, other in zip(got, wanted):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(got[0], np.zeros_like(got[0]))


def test_a_bucket_is_updated_before_the_next_one_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", "0.001")
    events: list[str] = []
    inner = DeviceBuckets.sum

    def noting_sum(self: DeviceBuckets, keys: Any, *args: Any, **keywords: Any) -> Any:
        for positions, sums in inner(self, keys, *args, **keywords):
            events.append(f"sum {[keys[i] for i in positions]}")
            yield positions, sums

    call = mx.optimizer.Updater.__call__

    def noting_update(self: Any, index: Any, *args: Any) -> None:
        events.append(f"update {list(index)}")
        call(self, index, *args)

    monkeypatch.setattr(DeviceBuckets, "sum", noting_sum)
    monkeypatch.setattr(mx.optimizer.Updater, "__call__", noting_update)
    train([mx.cpu(0), mx.cpu(1)], "sgd", {"learning_rate": 0.1}, update_on_kvstore=True)
    sums, updates = events[::2], events[1::2]
    assert len(sums) >= 3 * STEPS
    for one, other in zip(sums, updates):
        assert one.startswith("sum") and other == one.replace("sum", "update")
    # In the last step backward's order is known: the last layer's parameters come first.
    last = [int(i) for event in sums[-len(sums) // STEPS :] for i in event[5:-1].split(",")]
    assert last == sorted(last, reverse=True) or last[0] > last[-1]


def test_other_values_of_a_store_take_the_path_of_their_own() -> None:
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init("w", mx.nd.zeros((4,)))
    from mxlite.kvstore.gradients import pushpull_all

    grads = [mx.nd.full((4,), 0.7, ctx=mx.cpu(i)) for i in range(2)]
    pushpull_all(store, [(0, "w", [], grads)], False)
    for grad in grads:
        np.testing.assert_array_equal(grad.asnumpy(), np.full(4, 1.0))  # two codes of 0.5


def test_arrays_that_change_make_a_new_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", "0.0001")
    from mxlite.kvstore.gradients import pushpull_all

    store = mx.kv.create("device")
    shapes = {"a": (3,), "b": (40, 2), "c": (1,)}
    for key, shape in shapes.items():
        store.init(key, mx.nd.zeros(shape))
    for keys in (("a", "b", "c"), ("a", "c"), ("b",), ("a", "b", "c")):
        grads = {
            key: [mx.nd.full(shapes[key], i + 1, ctx=mx.cpu(i)) for i in range(3)] for key in keys
        }
        pushpull_all(store, [(i, key, [], grads[key]) for i, key in enumerate(keys)], False)
        for arrays in grads.values():
            for array in arrays:
                np.testing.assert_array_equal(array.asnumpy(), np.full(array.shape, 6.0))
    wrong = [mx.nd.zeros((4,)), mx.nd.zeros((4,), ctx=mx.cpu(1))]
    with pytest.raises(mx.base.ShapeError, match=r"key a: .*\(4,\).*\(3,\)"):
        pushpull_all(store, [(0, "a", [], wrong)], False)


@pytest.mark.parametrize("optimizer", ["nadam", "sgd"])
def test_row_sparse_gradients_among_dense_ones(optimizer: str) -> None:
    """Optimizers that count the updates of all weights get them in the order of the entries."""
    from mxlite.kvstore.gradients import pushpull_all

    contexts = [mx.cpu(0), mx.cpu(1)]
    shapes = {"w": (3,), "rows": (4, 2), "b": (5,)}
    results = []
    for sums in (pushpull_all, summed_by_key):
        store = mx.kv.create("device")
        store.set_optimizer(mx.optimizer.create(optimizer, learning_rate=0.1))
        weights = {
            key: [mx.nd.ones(shape, ctx=ctx) for ctx in contexts] for key, shape in shapes.items()
        }
        for key, arrays in weights.items():
            store.init(key, arrays[0])
        rng = np.random.default_rng(2)
        for _ in range(3):
            entries = []
            for position, (key, shape) in enumerate(shapes.items()):
                values = [rng.standard_normal(shape).astype("float32") for _ in contexts]
                grads = [mx.nd.array(v, ctx=ctx) for v, ctx in zip(values, contexts)]
                if key == "rows":
                    grads = [grad.tostype("row_sparse") for grad in grads]
                entries.append((position, key, weights[key], grads))
            sums(store, entries, True)
        results.append([array.asnumpy() for arrays in weights.values() for array in arrays])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert not np.array_equal(got, np.ones_like(got))
