"""Stores of one process: values, updaters, compression, plug-ins, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import MXNetError, NotSupportedError

SHAPE = (2, 3)


def ones(shape: tuple[int, ...] = SHAPE) -> Any:
    return mx.nd.ones(shape)


def pulled(store: Any, key: Any, shape: tuple[int, ...] = SHAPE) -> Any:
    out = mx.nd.zeros(shape)
    store.pull(key, out=out)
    return out.asnumpy()


def test_nccl_needs_a_build_with_cuda() -> None:
    if mx.runtime.Features().is_enabled("NCCL"):
        assert mx.kv.create("nccl").type == "nccl"
        return
    with pytest.raises(NotSupportedError, match="'nccl' is not supported.*'device'"):
        mx.kv.create("nccl")


@pytest.mark.parametrize(
    "name",
    ["local", "Device", "local_allreduce_cpu", "local_update_cpu", "allreduce_local_device"],
)
def test_names_in_any_case_and_order(name: str) -> None:
    store = mx.kv.create(name)
    assert (store.type, store.rank, store.num_workers) == (name.lower(), 0, 1)
    assert isinstance(store, mx.kvstore.KVStore)
    assert store.is_capable("optimizer")


def test_a_push_replaces_by_the_sum() -> None:
    store = mx.kv.create("local")
    store.init(3, ones())
    np.testing.assert_array_equal(pulled(store, 3), np.ones(SHAPE))
    store.push(3, [ones() * 2, ones() * 3])
    np.testing.assert_array_equal(pulled(store, 3), np.full(SHAPE, 5))
    store.push(3, ones())
    np.testing.assert_array_equal(pulled(store, 3), np.ones(SHAPE))


def test_the_store_keeps_its_own_copies() -> None:
    store, first, pushed = mx.kv.create("device"), ones(), ones() * 4
    store.init("a", first)
    first[:] = 9
    np.testing.assert_array_equal(pulled(store, "a"), np.ones(SHAPE))
    store.push("a", pushed)
    pushed[:] = 9
    np.testing.assert_array_equal(pulled(store, "a"), np.full(SHAPE, 4))


@pytest.mark.parametrize("keys", [[5, 7], ["x", "y"]])
def test_lists_of_keys(keys: list[Any]) -> None:
    store = mx.kv.create("local")
    store.init(keys, [ones((2,)), ones((3,))])
    store.push(keys, [[ones((2,)), ones((2,))], [ones((3,))] * 3])
    out = [[mx.nd.zeros((2,)), mx.nd.zeros((2,))], [mx.nd.zeros((3,))]]
    store.pull(keys, out=out)
    assert [a.asnumpy().tolist() for group in out for a in group] == [[2, 2], [2, 2], [3, 3, 3]]
    # The same key twice in a list is summed, too.
    store.push([keys[0]] * 2, [ones((2,)), ones((2,)) * 5])
    assert pulled(store, keys[0], (2,)).tolist() == [6, 6]


def test_devices_are_summed_and_get_their_copies() -> None:
    store = mx.kv.create("device")
    contexts = [mx.cpu(0), mx.cpu(1), mx.cpu(2)]
    grads = [mx.nd.ones((4,), ctx=ctx) * (i + 1) for i, ctx in enumerate(contexts)]
    store.init("w", mx.nd.zeros((4,)))
    store.pushpull("w", grads)
    assert [grad.ctx for grad in grads] == contexts
    assert [grad.asnumpy().tolist() for grad in grads] == [[6] * 4] * 3
    out = [mx.nd.zeros((4,), ctx=ctx) for ctx in contexts]
    store.broadcast("b", mx.nd.full((4,), 7.0), out=out)
    assert [array.asnumpy().tolist() for array in out] == [[7] * 4] * 3


def test_many_pushes_and_pulls_stay_in_order() -> None:
    store = mx.kv.create("local")
    store.init(0, mx.nd.zeros((1000,)))
    store._set_updater(lambda key, grad, weight: weight.__iadd__(grad))
    value, seen = mx.nd.ones((1000,)), []
    for _ in range(200):
        store.push(0, value)
        seen.append(mx.nd.zeros((1000,)))
        store.pull(0, out=seen[-1])
    assert [array[7].asscalar() for array in seen] == list(range(1, 201))


@pytest.mark.parametrize("key", [9, "w"])
def test_an_updater_gets_key_sum_and_value(key: Any) -> None:
    calls = []

    def update(name: Any, grad: Any, weight: Any) -> None:
        calls.append((name, grad.asnumpy().tolist(), weight.asnumpy().tolist()))
        weight += grad * 2

    store = mx.kv.create("local")
    store.init(key, mx.nd.full((2,), 7.0))
    store.set_updater(update)
    store.push(key, [ones((2,)), ones((2,)) * 4])
    assert calls == [(key, [5, 5], [7, 7])]
    assert pulled(store, key, (2,)).tolist() == [17, 17]
    out = mx.nd.zeros((2,))
    store.pushpull(key, ones((2,)), out=out)
    assert out.asnumpy().tolist() == [19, 19]


def test_an_optimizer_and_its_states(tmp_path: Path) -> None:
    def make() -> Any:
        store = mx.kv.create("local")
        store.init("w", ones((2,)))
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
        return store

    store, path = make(), tmp_path / "a.states"
    store.push("w", [ones((2,)), ones((2,)) * 11])
    np.testing.assert_allclose(pulled(store, "w", (2,)), [-0.2, -0.2], rtol=1e-6)
    store.save_optimizer_states(path)
    other = make()
    other.load_optimizer_states(path)
    for each in (store, other):
        each.push("w", ones((2,)) * 12)
    # 1.9.1: -2.48; the other began at 1 instead of -0.2.
    np.testing.assert_allclose(pulled(store, "w", (2,)), [-2.48] * 2, rtol=1e-6)
    np.testing.assert_allclose(pulled(other, "w", (2,)), [-1.28] * 2, rtol=1e-6)


def test_two_bits_with_error_feedback_as_in_1x() -> None:
    store = compressed(threshold=0.5)
    store.init("w", mx.nd.zeros((4,)))
    first, second = mx.nd.array([0.3, 0.6, -0.7, 2.0]), mx.nd.array([0.3, -0.1, -0.7, 0.0])
    seen = []
    for grad in (first, first, second):
        store.push("w", grad)
        seen.append(pulled(store, "w", (4,)).tolist())
    assert seen == [[0, 0.5, -0.5, 0.5], [0.5, 0.5, -0.5, 0.5], [0, 0, -0.5, 0.5]]  # 1.9.1
    assert first.asnumpy().tolist() == pytest.approx([0.3, 0.6, -0.7, 2.0])
    # Every device has a rest of its own.
    store.init("v", mx.nd.zeros((4,)))
    seen = []
    for _ in range(4):
        store.push("v", [first.as_in_context(mx.cpu(0)), second.as_in_context(mx.cpu(1))])
        seen.append(pulled(store, "v", (4,)).tolist())
    assert seen == [[0, 0.5, -1, 0.5], [1, 0.5, -1, 0.5]] * 2  # 1.9.1


@pytest.mark.parametrize("kind", ["2bit", "1bit"])
def test_compression_loses_nothing_in_the_long_run(kind: str) -> None:
    rng = np.random.default_rng(3)
    store = compressed(type=kind, threshold=0.5 if kind == "2bit" else 0)
    store.init(0, mx.nd.zeros((50,)))
    sent, wanted = np.zeros(50), np.zeros(50)
    values = {-0.5, 0.0, 0.5} if kind == "2bit" else {-1.0, 1.0}
    for _ in range(100):
        grad = rng.uniform(-0.4, 0.4, 50).astype(np.float32)
        store.push(0, mx.nd.array(grad))
        got = pulled(store, 0, (50,))
        assert set(got.tolist()) <= values
        sent, wanted = sent + got, wanted + grad
    assert np.abs(sent - wanted).max() <= 1.5  # the remainder is at most one step


def test_rows_of_sparse_arrays() -> None:
    def rows(values: list[list[float]], numbers: list[int]) -> Any:
        pair = mx.nd.array(values), mx.nd.array(numbers)
        return mx.nd.sparse.row_sparse_array(pair, shape=(4, 2))

    store = mx.kv.create("local")
    store.init("e", mx.nd.ones((4, 2)).tostype("row_sparse"))
    store.push("e", [rows([[1, 2]], [1]), rows([[10, 20], [3, 4]], [1, 3])])
    out, dense = mx.nd.sparse.zeros("row_sparse", (4, 2)), mx.nd.zeros((4, 2))
    store.pull("e", out=out)  # ignores sparse outputs
    assert out.asnumpy().sum() == 0
    store.row_sparse_pull("e", out=out, row_ids=mx.nd.array([3, 2, 3]))
    assert out.asnumpy().tolist() == [[0, 0], [0, 0], [0, 0], [3, 4]]
    store.pull("e", out=dense)
    assert dense.asnumpy().tolist() == [[0, 0], [11, 22], [0, 0], [3, 4]]


def test_rows_of_several_keys_and_devices() -> None:
    store = mx.kv.create("local")
    dense = np.arange(8, dtype=np.float32).reshape(4, 2)
    for key, factor in (("a", 1), ("b", 10)):
        store.init(key, mx.nd.array(dense * factor).tostype("row_sparse"))
    outs = [[mx.nd.sparse.zeros("row_sparse", (4, 2)) for _ in range(2)] for _ in range(2)]
    ids = [[mx.nd.array([0]), mx.nd.array([1, 3])], [mx.nd.array([2]), mx.nd.array([])]]
    store.row_sparse_pull(["a", "b"], out=outs, row_ids=ids)
    found = [[array.indices.asnumpy().tolist() for array in pair] for pair in outs]
    assert found == [[[0], [1, 3]], [[2], []]]
    assert outs[1][0].data.asnumpy().tolist() == [[40, 50]]
    store.row_sparse_pull(["a", "b"], out=outs, row_ids=mx.nd.array([3]))
    assert all(o.indices.asnumpy().tolist() == [3] for pair in outs for o in pair)
    with pytest.raises(ValueError, match="3 row_ids given for 2 arrays"):
        store.row_sparse_pull("a", out=outs[0], row_ids=[mx.nd.array([0])] * 3)
    with pytest.raises(ValueError, match="entry for each of the 1 keys, got 2"):
        store.row_sparse_pull("a", out=outs[0], row_ids=ids)
    with pytest.raises(IndexError, match=r"row ids must be in \[0, 3\], got 4"):
        store.row_sparse_pull("a", out=outs[0], row_ids=mx.nd.array([4]))


def test_a_store_of_ones_own() -> None:
    @mx.kv.KVStoreBase.register
    class HalfStore(mx.kv.KVStoreBase):
        def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
            for array in out:
                value.copyto(array)

        def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
            total = sum(array.asnumpy() for array in value) / 2
            for array in value if out is None else out:
                array[:] = total

        @staticmethod
        def is_capable(capability: str) -> bool:
            return False

        type, rank, num_workers = "halfstore", 0, 1

    try:
        store = mx.kv.create("HalfStore")
        assert isinstance(store, HalfStore)
        with pytest.raises(NotImplementedError, match="does not define set_optimizer"):
            store.set_optimizer(mx.optimizer.SGD())
        param = mx.gluon.Parameter("x", shape=(1,))
        param.initialize(init="zeros", ctx=[mx.cpu(0), mx.cpu(1)])
        trainer = mx.gluon.Trainer([param], "sgd", {"learning_rate": 1.0}, kvstore="halfstore")
        with mx.autograd.record():
            losses = [(param.data(mx.cpu(i)) * (i + 3)).sum() for i in range(2)]
        mx.autograd.backward(losses)
        trainer.step(1)
        assert [array.asscalar() for array in param.list_data()] == [-3.5, -3.5]
    finally:
        del mx.kv.KVStoreBase.kv_registry["halfstore"]


def test_the_store_for_tests_of_plugins() -> None:
    store, out = mx.kv.create("teststore"), ones((2,))
    store.broadcast("a", ones((2,)) * 3, out=[out])
    assert out.asnumpy().tolist() == [3, 3]
    grads = [ones((2,)), ones((2,)) * 11]
    store.pushpull("a", grads, out=out)
    assert out.asnumpy().tolist() == [12, 12]
    store.pushpull("a", grads)
    assert grads[0].asnumpy().tolist() == grads[1].asnumpy().tolist() == [12, 12]
    assert not store.is_capable("optimizer")


def filled() -> Any:
    store = mx.kv.create("device")
    store.init([3, 5], [ones(), ones((2,))])
    return store


def compressed(name: str = "device", **options: Any) -> Any:
    store = mx.kv.create(name)
    store.set_gradient_compression({"type": "2bit", **options})
    return store


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: mx.kv.create(3), TypeError, "name must be a string, got 3"),
        (lambda: mx.kv.create("devise"), ValueError, "got 'devise'.*did you mean 'device'"),
        (lambda: mx.kv.create("dist_snyc"), ValueError, "did you mean 'dist_sync'"),
        (lambda: mx.kv.create("dist_sync_async"), ValueError, "got 'dist_sync_async'"),
        (lambda: mx.kv.create("horovot"), ValueError, "did you mean 'horovod'"),
        (lambda: mx.kv.create("byteps"), NotSupportedError, "'horovod' or 'dist_sync'"),
        (lambda: filled().init(3, ones()), KeyError, "duplicate init of key 3"),
        (lambda: filled().init("a", ones()), ValueError, "Mixed key types are not allowed"),
        (lambda: filled().init([8, "a"], [ones(), ones()]), ValueError, "Mixed key types"),
        (
            lambda: filled().init(8, [ones(), ones()]),
            KeyError,
            "number of values must be 1 for key 8, got 2",
        ),
        (lambda: filled().push(4, ones()), KeyError, "push: key 4 has not been inited"),
        (lambda: filled().pull(4, out=ones()), KeyError, "pull: key 4 has not been inited"),
        (lambda: filled().pull(3), ValueError, "out must be NDArrays, got None"),
        (
            lambda: filled().push([3, 5], [ones()]),
            ValueError,
            "entry for each of the 2 keys, got 1",
        ),
        (lambda: filled().push(3, 7), TypeError, "value must be an NDArray .*got int"),
        (lambda: filled().push(3, []), ValueError, "push: value must be .*got an empty list"),
        (lambda: filled().pull(3, out=[]), ValueError, "pull: value must be .*got an empty list"),
        (lambda: filled().push(3.5, ones()), TypeError, "unexpected type for keys.*float"),
        (lambda: filled().push(True, ones()), TypeError, "unexpected type for keys.*bool"),
        (lambda: filled().push(5, ones()), ValueError, r"shape, \(2,\), got \(2, 3\)"),
        (lambda: filled().pull(5, out=ones()), ValueError, r"shape, \(2,\), got \(2, 3\)"),
        (lambda: filled().is_capable("flying"), ValueError, "Unknown capability: flying"),
        (lambda: filled().set_optimizer("sgd"), TypeError, "must be an .*Optimizer, got str"),
        (lambda: filled().save_optimizer_states("x"), AssertionError, "Cannot save states"),
        (lambda: filled().load_optimizer_states("x"), AssertionError, "Cannot load states"),
        (
            lambda: compressed("local"),
            NotSupportedError,
            "compression is not supported for this ty",
        ),
        (lambda: filled().set_gradient_compression(3), TypeError, "unexpected type for param_dict"),
        (
            lambda: filled().set_gradient_compression({}),
            ValueError,
            "type must be '2bit' or '1bit', got no type",
        ),
        (lambda: compressed(type="9bit"), ValueError, "compression 9bit"),
        (lambda: compressed(threshold=-1), ValueError, "must be greater than 0, got -1.0"),
        (lambda: compressed(treshold=1), ValueError, "did you mean 'threshold'"),
        (
            lambda: filled().row_sparse_pull(3, ones(), row_ids=ones()),
            ValueError,
            "row_sparse stor",
        ),
    ],
)
def test_errors_say_what_was_given(act: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        act()
    assert isinstance(caught.value, MXNetError)


def test_an_updater_gets_a_single_array_without_a_copy() -> None:
    store, seen = mx.kv.create("local"), []
    store.init(3, mx.nd.zeros((2,)))
    store.set_updater(lambda key, total, stored: seen.append(total))
    value = mx.nd.array([1, 2])
    store.push(3, value)
    assert seen[0] is value
    store.push(3, [value, value])
    assert seen[1].asnumpy().tolist() == [2, 4]
    assert value.asnumpy().tolist() == [1, 2]
