"""ShardedEmbedding on one process: values, updates, growth, files, errors."""

import sys
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd
from mxlite.gluon.contrib.parallel import ShardedEmbedding

OPTIMIZERS = [
    ("sgd", {"learning_rate": 0.1, "wd": 0.01}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "clip_gradient": 0.5}),
    ("adagrad", {"learning_rate": 0.1}),
    ("adam", {"learning_rate": 0.01, "wd": 0.1}),
    ("ftrl", {"learning_rate": 0.1, "lamda1": 0.001}),
]

DEVICE = mx.gpu(0) if mx.num_gpus() else mx.cpu(0)  # a GPU, real or simulated, if there is one


def rows_of(table, ids):
    return table(mx.nd.array(ids, dtype="int64")).asnumpy()


def train(table, ids, grads, batch_size=1):
    """Make one step whose gradient of the looked-up rows is ``grads``."""
    with autograd.record():
        rows = table(mx.nd.array(ids, dtype="int64"))
    rows.backward(mx.nd.array(grads))
    table.step(batch_size)


@pytest.mark.parametrize(("name", "params"), OPTIMIZERS)
def test_updates_equal_those_of_the_optimizer(name, params):
    """Bit for bit, with duplicates; other rows and moments stay."""
    rows, dim, random = 50, 6, np.random.RandomState(0)
    table = ShardedEmbedding(rows, dim, optimizer=name, optimizer_params=params, init_scale=0.5)
    start = rows_of(table, range(rows))
    assert len(np.unique(start)) > 290 and abs(start).max() < 0.5 and abs(start.mean()) < 0.06
    optimizer = mx.optimizer.create(name, **params, rescale_grad=1 / 4)
    weight = mx.nd.array(start)
    if name == "ftrl":
        weight = weight.tostype("row_sparse")
    state = optimizer.create_state(0, weight)
    used = set()
    for _ in range(4):
        ids = random.randint(0, 20, (4, 5))
        grads = random.randn(4, 5, dim).astype("float32")
        train(table, ids, grads, batch_size=4)
        sums = {}
        for i, g in zip(ids.ravel(), grads.reshape(-1, dim)):
            sums[i] = sums[i] + g if i in sums else g
        touched = sorted(sums)
        grad = mx.nd.sparse.row_sparse_array(
            (np.stack([sums[i] for i in touched]), touched), shape=(rows, dim)
        )
        optimizer.update(0, weight, grad, state)
        used |= set(touched)
    found = rows_of(table, range(rows))
    np.testing.assert_array_equal(found, weight.tostype("default").asnumpy())
    others = [i for i in range(rows) if i not in used]
    np.testing.assert_array_equal(found[others], start[others])
    assert (found[sorted(used)] != start[sorted(used)]).any(axis=1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_round_rows_only(dtype):
    table = ShardedEmbedding(20, 7, optimizer="adam", dtype=dtype, seed=3)
    exact = ShardedEmbedding(20, 7, optimizer="adam", seed=3)
    ids = [[1, 2, 2], [19, 1, 0]]
    for step in range(3):
        grads = np.random.RandomState(step).randn(2, 3, 7)
        train(table, ids, grads)
        train(exact, ids, grads)
    assert rows_of(table, ids).dtype == np.float32
    np.testing.assert_allclose(rows_of(table, ids), rows_of(exact, ids), atol=1e-3)
    assert (table.row_bytes, exact.row_bytes) == (16 + 56, 84)


def test_initial_values_are_those_of_the_benchmark():
    """Files depend on the formula: rows that were never updated are not saved."""
    sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
    from dlperf.wide_deep import recipe

    table = ShardedEmbedding(None, 21, seed=6)
    ids = [0, 1, 5, 2**40 + 3]
    np.testing.assert_array_equal(rows_of(table, ids), recipe.initial_rows(ids, 21, 6))


def test_memory_of_a_row():
    """Adam at dimension 16 and at dimension 1: 204 bytes."""
    tables = [ShardedEmbedding(3, dim, optimizer="adam") for dim in (16, 1)]
    assert sum(table.row_bytes for table in tables) == 204


@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_bags(combiner):
    table = ShardedEmbedding(
        9, 3, optimizer="sgd", optimizer_params={"learning_rate": 1}, combiner=combiner
    )
    plain = ShardedEmbedding(9, 3, optimizer="sgd", optimizer_params={"learning_rate": 1})
    start = rows_of(plain, range(9))
    ids, offsets = mx.nd.array([4, 4, 1, 8, 0]), mx.nd.array([0, 3, 4])
    bags = [[4, 4, 1], [8], [0]]
    with autograd.record():
        result = table(ids, offsets)
    expected = np.stack([getattr(start[bag], combiner)(axis=0) for bag in bags])
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)
    grad = np.random.RandomState(1).randn(3, 3).astype("float32")
    result.backward(mx.nd.array(grad))
    table.step(1)
    for bag, g in zip(bags, grad):
        for i in bag:
            start[i] -= g / (len(bag) if combiner == "mean" else 1)
    found = table(mx.nd.arange(9), mx.nd.arange(9)).asnumpy()
    np.testing.assert_allclose(found, start, rtol=1e-5, atol=1e-6)


def test_views_are_looked_up():
    table, ids = ShardedEmbedding(12, 3), mx.nd.arange(12).reshape((3, 4))
    whole = table(ids).asnumpy()
    np.testing.assert_array_equal(table(ids.T).asnumpy(), whole.transpose(1, 0, 2))
    np.testing.assert_array_equal(table(ids[:, 1:3]).asnumpy(), whole[:, 1:3])
    np.testing.assert_array_equal(table(ids[2:]).asnumpy(), whole[2:])
    assert table(mx.nd.zeros((0, 2))).shape == (0, 2, 3)


def test_several_look_ups_are_one_update():
    tables = [ShardedEmbedding(9, 3, optimizer="adam") for _ in range(2)]
    grads = np.random.RandomState(2).randn(6, 3)
    train(tables[0], [1, 2, 2, 7, 1, 0], grads)
    with autograd.record():
        first = tables[1](mx.nd.array([1, 2, 2]))
        second = tables[1](mx.nd.array([7, 1, 0]))
    autograd.backward([first, second], [mx.nd.array(grads[:3]), mx.nd.array(grads[3:])])
    tables[1].step(1)
    np.testing.assert_allclose(*(rows_of(t, range(9)) for t in tables), rtol=1e-6)
    tables[1].step(1)  # nothing to do
    assert tables[1].optimizer.num_update == 1


@pytest.mark.parametrize(
    ("policy", "ids", "expected"),
    [
        ("clip", [-5, 3, 10], [0, 3, 9]),
        ("error", [[0, 9], [12, 3]], "ids must be from 0 to 9, got 12 at position \\(1, 0\\)"),
        ("error", [0, -1, 30, -7], "got -7 at position 3"),
    ],
)
def test_policies(policy, ids, expected):
    table = ShardedEmbedding(10, 2, policy=policy)
    if isinstance(expected, str):
        with pytest.raises(IndexError, match=expected):
            rows_of(table, ids)
        expected = ids = [1]
    np.testing.assert_array_equal(rows_of(table, ids), rows_of(ShardedEmbedding(10, 2), expected))


def test_hashed_ids_spread():
    table = ShardedEmbedding(1000, 1, policy="hash")
    values = rows_of(table, np.arange(-500, 500) * 10**12)[:, 0]
    assert 560 < len(set(values)) < 700  # 632 of random ids
    np.testing.assert_array_equal(values, rows_of(table, np.arange(-500, 500) * 10**12)[:, 0])


def test_a_table_that_grows():
    table = ShardedEmbedding(None, 4, optimizer="sgd", optimizer_params={"learning_rate": 1})
    fixed = ShardedEmbedding(100, 4, optimizer="sgd", optimizer_params={"learning_rate": 1})
    np.testing.assert_array_equal(rows_of(table, range(100)), rows_of(fixed, range(100)))
    assert table.size == 0  # a look-up outside of training inserts nothing
    big = [2**62, 7, 2**62, 3]
    train(table, big, np.ones((4, 4)))
    train(fixed, [7, 3], np.ones((2, 4)))
    assert table.size == 3
    np.testing.assert_array_equal(rows_of(table, [3, 7]), rows_of(fixed, [3, 7]))
    random = np.random.RandomState(0)
    for _ in range(5):  # beyond the first sizes of the index
        ids = random.randint(0, 2**60, 1000)
        before = rows_of(table, ids)
        train(table, ids, np.ones((1000, 4)))
        np.testing.assert_array_equal(rows_of(table, ids), before - 1)
    assert table.size == 5003
    with pytest.raises(IndexError, match="ids must be 0 or more, got -1 at position 0"):
        rows_of(table, [-1])


def test_eviction_by_frequency():
    options = {"optimizer": "sgd", "optimizer_params": {"learning_rate": 1}, "capacity": 8}
    table = ShardedEmbedding(None, 2, evict=True, **options)
    fresh = rows_of(table, range(20))
    for ids in ([0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7], [0, 10, 11]):
        train(table, ids, np.ones((len(ids), 2)))
    # 4 and 5, used once and with the smallest ids, made room for 10 and 11.
    assert table.size == 8
    after = fresh.copy()
    after[[0, 1, 2, 3]] -= [[3], [2], [2], [2]]
    after[[6, 7, 10, 11]] -= 1
    np.testing.assert_allclose(rows_of(table, range(20)), after, atol=1e-6)
    with pytest.raises(MemoryError, match="the 9 distinct ids of a batch exceed the 8 rows"):
        train(table, range(9), np.ones((9, 2)))
    full = ShardedEmbedding(None, 2, **options)
    with pytest.raises(MemoryError, match="memory for 8 rows of 8 bytes, .* exceed by 1;"):
        train(full, range(9), np.ones((9, 2)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [300, None])
def test_files(tmp_path, rows, dtype):
    def make():
        return ShardedEmbedding(rows, 5, optimizer="adam", dtype=dtype, seed=4)

    tables = [make(), make()]
    ids = np.random.RandomState(0).randint(0, 300, (3, 40))
    for batch in ids[:2]:
        train(tables[0], batch, np.ones((40, 5)))
    tables[0].save(tmp_path / "t")
    train(tables[1], [1, 2], np.ones((2, 5)))
    tables[1].load(tmp_path / "t")
    for table in tables:
        train(table, ids[2], np.ones((40, 5)))
    np.testing.assert_array_equal(*(rows_of(table, range(300)) for table in tables))
    other = ShardedEmbedding(rows, 5, optimizer="sgd", dtype=dtype)
    with pytest.raises(
        mx.MXNetError, match="must be those of the table in .*, operator='adam_update', seed=4;"
    ):
        other.load(tmp_path / "t")
    next((tmp_path / "t").iterdir()).rename(tmp_path / "t" / "0-of-2.0-of-1.params")
    with pytest.raises(mx.MXNetError, match="must have the files of one saved table"):
        make().load(tmp_path / "t")


def bags(offsets):
    table = ShardedEmbedding(4, 2, combiner="sum")
    return table(mx.nd.array([1, 2]), mx.nd.array(offsets))


@pytest.mark.parametrize(
    ("make", "kind", "problem"),
    [
        (lambda: ShardedEmbedding(10**12, 16, prefix="deep_"), MemoryError,
         "ShardedEmbedding deep: 10+ rows of 192 bytes do not fit .* [0-9]+ rows fit"),
        (lambda: ShardedEmbedding(4, 2, optimizer="rmsprop"), mx.MXNetError,
         "optimizer must be SGD, AdaGrad, Adam or Ftrl"),
        (lambda: ShardedEmbedding(4, 2, policy="skip"), ValueError, "policy must be one of"),
        (lambda: ShardedEmbedding(4, 2, dtype="int8"), ValueError, "dtype must be one of"),
        (lambda: ShardedEmbedding(None, 2, policy="hash"), ValueError, "policy must be 'error'"),
        (lambda: ShardedEmbedding(4, 2, evict=True), ValueError, "for tables that grow"),
        (lambda: ShardedEmbedding(0, 2), ValueError, "rows"),
        (lambda: ShardedEmbedding(4, 2).step(0), ValueError, "batch_size"),
        (lambda: ShardedEmbedding(4, 2)([1]), TypeError, "ids must be an NDArray"),
        (lambda: ShardedEmbedding(4, 2)(mx.nd.array([1]), mx.nd.array([0])), ValueError,
         "if and only if there is a combiner"),
        (lambda: bags([0, 1, 1]), ValueError, "bag 1 is empty"),
        (lambda: bags([1]), ValueError, "offsets must begin with 0, got 1"),
        (lambda: bags([0, 3]), ValueError, "offsets must ascend to at most 2"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, kind, problem):
    with pytest.raises(kind, match=problem):
        make()


def losses_of(table: ShardedEmbedding, steps: int) -> list[np.ndarray]:
    """Train with ids that come back after a while; return the rows of each step."""
    found = []
    for step in range(steps):
        random = np.random.RandomState(step)
        ids = random.randint(12 * (step % 5), 12 * (step % 5) + 20, (8, 2))
        with mx.autograd.record():
            rows = table(mx.nd.array(ids, dtype="int64"))
            loss = (rows * mx.nd.array(random.randn(*rows.shape), ctx=rows.context)).sum()
        loss.backward()
        table.step(8)
        found.append(rows.asnumpy())
    return found


@pytest.mark.parametrize(
    ("optimizer", "options", "dtype"),
    [
        ("adam", {"wd": 0.01}, "float32"),
        ("sgd", {"momentum": 0.9}, "float32"),
        ("sgd", {}, "bfloat16"),
        ("adagrad", {}, "float32"),
        ("ftrl", {}, "float32"),
    ],
)
def test_a_cache_on_a_device_gives_the_same_rows(tmp_path, optimizer, options, dtype):
    options = {"learning_rate": 0.1, **options}
    plain = ShardedEmbedding(
        100, 3, optimizer=optimizer, optimizer_params=dict(options), dtype=dtype, seed=5
    )
    cached = ShardedEmbedding(
        100, 3, optimizer=optimizer, optimizer_params=dict(options), dtype=dtype, seed=5,
        ctx=DEVICE, cache_rows=22,
    )  # fmt: skip
    assert cached.row_bytes == plain.row_bytes or dtype == "bfloat16"
    tolerance = 1e-6 if dtype == "float32" else 0.02
    for ours, theirs in zip(losses_of(cached, 12), losses_of(plain, 12)):
        np.testing.assert_allclose(ours, theirs, atol=tolerance)
    assert cached(mx.nd.array([1])).context == DEVICE
    cached.save(tmp_path / "cached")
    plain.load(tmp_path / "cached")
    every = mx.nd.arange(100)
    parts = [cached(every[i : i + 20]).asnumpy() for i in range(0, 100, 20)]
    # The device's rows are float32 until they return to the host.
    rounding = 0 if dtype == "float32" else 1 / 256
    np.testing.assert_allclose(plain(every).asnumpy(), np.concatenate(parts), rtol=rounding)
    again = losses_of(plain, 6)
    cached.load(tmp_path / "cached")
    for ours, theirs in zip(losses_of(cached, 6), again):
        np.testing.assert_allclose(ours, theirs, atol=tolerance)


def test_a_cache_has_bags_and_several_lookups_in_a_step():
    tables = [
        ShardedEmbedding(50, 2, optimizer_params={"learning_rate": 0.1}, combiner="mean", **more)
        for more in ({}, {"ctx": DEVICE, "cache_rows": 12})
    ]
    found = []
    for table in tables:
        for step in range(4):
            with mx.autograd.record():
                ids = mx.nd.array([3 * step, 7, 3 * step, 9]), mx.nd.array([40 + step, 7])
                loss = table(ids[0], mx.nd.array([0, 1])) ** 2
                more = table(ids[1], mx.nd.array([0])) ** 2
            mx.autograd.backward([loss, more])
            table.step(1)
        found.append(table(mx.nd.arange(10), mx.nd.arange(10)).asnumpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_wrong_caches_are_refused():
    with pytest.raises(ValueError, match="cache_rows must be None if rows is None, got"):
        ShardedEmbedding(None, 2, cache_rows=4)
    with pytest.raises(ValueError, match="cache_rows must be"):
        ShardedEmbedding(9, 2, cache_rows=0)
    table = ShardedEmbedding(9, 2, cache_rows=4, prefix="t_")
    words = "t: the cache must hold all rows that wait for an update, got 2 rows more than its 4"
    with pytest.raises(MemoryError, match=words):
        table(mx.nd.arange(6))
    with mx.autograd.record():
        table(mx.nd.arange(3))
        with pytest.raises(MemoryError, match="got 1 rows more"):
            table(mx.nd.array([5, 6]))
    table.step(1)
    assert table(mx.nd.array([5, 6, 7, 8])).shape == (4, 2)
