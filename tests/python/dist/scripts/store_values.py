"""A `dist_sync` store on every worker, with servers or without; the same checks for both.

The keys, shapes and values are those of MXNet's own nightly tests of the store.
"""

from __future__ import annotations

import sys
from typing import Any

import mxlite as mx
import numpy as np
from rank_checks import fails, pulled, rounded

SHAPE, BIG, IRREGULAR = (2, 3), (1200, 1200), (1211, 1211)
REPEATS = 2
RATE = 2  # rate of the optimizer 'test': weight += rate * gradient


def equal(array: Any, expected: Any) -> None:
    found = array.asnumpy()
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


def total(store: Any) -> int:
    """Return 1 + 2 + ... + number of workers."""
    return store.num_workers * (store.num_workers + 1) // 2


def check_first_values(store: Any) -> None:
    """Rank 0 decides; a list gives each key its own."""
    keys = ["i0", "i1", "i2"]
    store.init(keys, [mx.nd.full(SHAPE, i + 10 * store.rank) for i in range(3)])
    for i, key in enumerate(keys):
        equal(pulled(store, key, SHAPE), i)
    store.init("big", mx.nd.full(BIG, 3 + store.rank))
    equal(pulled(store, "big", BIG), 3)
    out = [mx.nd.zeros(SHAPE), mx.nd.zeros(SHAPE, ctx=mx.cpu(1))]
    store.broadcast("b", mx.nd.full(SHAPE, 5 - store.rank), out=out)
    for array in out:
        equal(array, 5)
    fails(lambda: store.init("i0", mx.nd.ones(SHAPE)))
    fails(lambda: store.push("nothing", mx.nd.ones(SHAPE)))
    fails(lambda: store.pull("nothing", out=mx.nd.ones(SHAPE)))
    fails(lambda: store.push("i0", mx.nd.ones((3, 2))))


def check_sums_replace(store: Any) -> None:
    """A push without an optimizer stores the sum of all workers and devices."""
    store.init(
        ["s", "sb", "sh"], [mx.nd.ones(SHAPE), mx.nd.ones(BIG), mx.nd.ones(SHAPE, dtype="float16")]
    )
    for step in range(1, REPEATS + 1):
        mine = (store.rank + 1) * step
        devices = [mx.nd.full(SHAPE, mine, ctx=mx.cpu(d)) for d in range(2)]
        store.push("s", devices, priority=step)
        equal(pulled(store, "s", SHAPE), 2 * step * total(store))
        store.push("sb", mx.nd.full(BIG, mine))
        equal(pulled(store, "sb", BIG), step * total(store))
        store.push("sh", mx.nd.full(SHAPE, mine, dtype="float16"))
        equal(pulled(store, "sh", SHAPE, "float16"), step * total(store))
        array = mx.nd.full(SHAPE, mine)
        store.pushpull("s", array)
        equal(array, step * total(store))
        outputs = [mx.nd.zeros(SHAPE), mx.nd.zeros(SHAPE)]
        store.pushpull("s", devices, out=outputs)
        for output in outputs:
            equal(output, 2 * step * total(store))
    store.barrier()


def check_optimizer(store: Any) -> None:
    """Optimizer 'test' adds what is pushed, times its rate."""
    dense = (("float32", ("3", "5", "7", "99")), ("float16", ("4", "6", "8", "100")))
    rows = (("float32", ("9", "11", "13", "97")), ("float16", ("10", "12", "14", "98")))
    for stype, keys in (("default", dense), ("row_sparse", rows)):
        for dtype, (*small, big) in keys:
            store.init(small, [mx.nd.ones(SHAPE, dtype=dtype).tostype(stype) for _ in small])
            store.init(big, mx.nd.ones(BIG, dtype=dtype).tostype(stype))
    store.set_optimizer(mx.optimizer.create("test", rescale_grad=RATE, multi_precision=True))
    for dtype, names in dense:
        for name in names:
            shape = BIG if name in ("99", "100") else SHAPE
            for step in range(1, REPEATS + 1):
                store.push(name, mx.nd.full(shape, store.rank + 1, dtype=dtype))
                equal(pulled(store, name, shape, dtype), 1 + RATE * step * total(store))
    for dtype, (small, zero, _, big) in rows:
        check_rows(store, dtype, small, SHAPE)
        check_rows(store, dtype, big, BIG)
        check_no_rows(store, dtype, zero)


def check_rows(store: Any, dtype: str, key: str, shape: tuple[int, int]) -> None:
    """Each worker pushes rows of its own; ids of pulls come several times and in any order."""
    random = np.random.RandomState(123)
    chosen = np.flatnonzero(random.rand(shape[0]) < 0.3)
    rows = [chosen[:: 2 * (r + 1)] for r in range(store.num_workers)]
    if shape == SHAPE:
        rows = [np.array([r % shape[0]]) for r in range(store.num_workers)]
    mine = np.zeros(shape, dtype)
    mine[rows[store.rank]] = store.rank + 1
    gradient = mx.nd.array(mine, dtype=dtype).tostype("row_sparse")
    expected = np.ones(shape, dtype)
    own = np.random.RandomState(store.rank)
    for _ in range(REPEATS):
        store.push(key, gradient)
        for r, some in enumerate(rows):
            expected[some] += (r + 1) * RATE
        ids = own.randint(shape[0], size=shape[0])
        out = mx.nd.sparse.zeros("row_sparse", shape, dtype=dtype)
        store.row_sparse_pull(key, out=out, row_ids=mx.nd.array(ids).reshape((-1, 2)))
        visible = np.zeros(shape, dtype)
        visible[ids] = expected[ids]
        equal(out, visible)


def check_no_rows(store: Any, dtype: str, key: str) -> None:
    """Pushes without rows change nothing; pulls without ids give nothing."""
    for _ in range(2):
        store.push(key, mx.nd.sparse.zeros("row_sparse", SHAPE, dtype=dtype))
        out = mx.nd.sparse.zeros("row_sparse", SHAPE, dtype=dtype)
        store.row_sparse_pull(key, out=out, row_ids=mx.nd.arange(SHAPE[0]))
        equal(out, 1)
        store.row_sparse_pull(key, out=out, row_ids=mx.nd.array([]))
        equal(out, 0)


def check_compression(store: Any, kind: str) -> None:
    """The sums are those of the rounded gradients of all workers, to the last bit."""
    threshold = 0.5
    shapes = {"1000": SHAPE, "1200": IRREGULAR, "1300": BIG}
    store.set_gradient_compression({"type": kind, "threshold": threshold})
    for key, shape in shapes.items():
        store.init(key, mx.nd.ones(shape))
        equal(pulled(store, key, shape), 1)  # first values are not rounded
    store.set_optimizer(mx.optimizer.create("test", rescale_grad=RATE))
    for key, shape in shapes.items():
        expected = np.ones(shape, "float32")
        randoms = [np.random.RandomState(r) for r in range(store.num_workers)]
        residuals = [np.zeros(shape, "float32") for _ in randoms]
        for _ in range(REPEATS):
            before = sent_bytes(store)
            gradients = [r.uniform(-1, 1, shape).astype("float32") for r in randoms]
            store.push(key, mx.nd.array(gradients[store.rank]))
            arrived = [rounded(g, r, kind, threshold) for g, r in zip(gradients, residuals)]
            # A multiple of the threshold: exact in any order.
            expected += np.float32(RATE) * sum(arrived)
            equal(pulled(store, key, shape), expected)
            assert sent_bytes(store) - before < expected.nbytes / 15 + 4096


def sent_bytes(store: Any) -> int:
    """Return what this worker has sent to servers, 0 if there are none."""
    return store.report()["worker"]["sent_bytes"] if hasattr(store, "report") else 0


def check_updater(store: Any) -> None:
    """A user-defined updater gets the sum; only stores without servers call it here."""
    store.init("u", mx.nd.ones(SHAPE))

    def updater(key: Any, summed: Any, stored: Any) -> None:
        stored += summed * 2

    store._set_updater(updater)
    store.push("u", mx.nd.full(SHAPE, store.rank + 1))
    equal(pulled(store, "u", SHAPE), 1 + 2 * total(store))


store, check = mx.kv.create("dist_sync"), sys.argv[1]
assert store.type == "dist_sync"
if check == "values":
    check_first_values(store)
    check_sums_replace(store)
elif check == "optimizer":
    check_optimizer(store)
elif check == "updater":
    check_updater(store)
else:
    check_compression(store, check)
print("done", flush=True)
