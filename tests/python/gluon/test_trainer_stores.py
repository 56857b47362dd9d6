"""Trainer with stores that are distributed or of one's own, array batch sizes and buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from device_training import STEPS, summed_by_key, train
from mxlite import autograd, gluon, nd
from mxlite.kvstore.device_buckets import DeviceBuckets
from mxlite.kvstore.gradients import pushpull_all
from test_trainer import scalar, step


class Remote(mx.kvstore.base.TestStore):
    """A store that claims to be distributed, and records its calls."""

    num_workers = 2
    is_capable = staticmethod(lambda capability: True)

    def __init__(self, name: str = "dist_sync") -> None:
        self._name = name
        self.scales: list[float] = []
        self.optimizer: Any = None

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        if self.optimizer is not None:
            self.scales.append(self.optimizer.rescale_grad)

    def set_optimizer(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @property
    def type(self) -> str:
        return self._name


def test_distributed_stores_keep_the_first_batch_size(tmp_path: Path) -> None:
    param = scalar(1.0)
    store = Remote()
    trainer = gluon.Trainer([param], "sgd", kvstore=store)
    step(trainer, param, batch_size=4)
    assert store.scales == [0.25]
    with pytest.raises(UserWarning, match="Possible change in the `batch_size`"):
        step(trainer, param, batch_size=2)
    step(trainer, param, batch_size=4)
    for method in (trainer.save_states, trainer.load_states):
        (tmp_path / "x").write_bytes(b"")
        with pytest.raises(AssertionError, match="the states are on the servers"):
            method(tmp_path / "x")


def test_asynchronous_stores_update_themselves() -> None:
    param = scalar(1.0)
    trainer = gluon.Trainer([param], "sgd", kvstore=Remote("dist_async"), update_on_kvstore=False)
    with pytest.raises(ValueError, match="update_on_kvstore=True when training in async mode"):
        step(trainer, param)
    trainer = gluon.Trainer([param], "sgd", kvstore=Remote("dist_async"))
    step(trainer, param)
    assert trainer._update_on_kvstore


def test_derived_trainers_may_sum_gradients_themselves() -> None:
    class Doubling(gluon.Trainer):
        def _allreduce_grads(self) -> None:
            for entry in self._params:
                for grad in entry.list_grad():
                    grad *= 2

    param = scalar(1.0)
    step(Doubling([param], "sgd", {"learning_rate": 0.1}), param)
    assert param.data().asscalar() == pytest.approx(1 - 0.1 * 4)


def test_states_as_a_tree() -> None:
    params = [scalar(1.0), scalar(1.0)]
    trainers = [gluon.Trainer([p], "adam", {"learning_rate": 0.1}) for p in params]
    step(trainers[0], params[0])
    trainers[1].load_state_dict(trainers[0].state_dict())
    params[1].set_data(params[0].data())
    for trainer, param in zip(trainers, params):
        step(trainer, param)
    assert params[0].data().asscalar() == params[1].data().asscalar()
    assert trainers[1].optimizer.num_update == 2


def test_a_store_that_begins_while_recording_changes_no_weight() -> None:
    net = mx.gluon.nn.Dense(2)
    contexts = [mx.cpu(0), mx.cpu(1)]
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    with mx.autograd.record():
        outputs = [net(mx.nd.ones((1, 3), ctx=contexts[0]))]
        trainer._ready()
        outputs.append(net(mx.nd.ones((1, 3), ctx=contexts[1])))
    mx.autograd.backward(outputs)
    trainer.step(1)
    for ctx in contexts:
        assert net.weight.data(ctx).asnumpy().tolist() == [[-1] * 3] * 2


@mx.optimizer.register
class ListAdam(mx.optimizer.Optimizer):
    """Updates several weights in a call; `rescale_grad` stays an array on the device."""

    def __init__(self, learning_rate: float = 0.01, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.aggregate_num = 4

    def create_state(self, index: int, weight: Any) -> Any:
        return tuple(nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if not isinstance(index, (tuple, list)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        self._update_count(index)
        if not isinstance(self.rescale_grad, nd.NDArray):
            self.rescale_grad = nd.full((1,), self.rescale_grad)
        mean, var = zip(*state)
        options = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "rescale_grad": self.rescale_grad}
        options |= {"wds": self._get_wds(index), "etas": self._get_lrs(index)}
        options |= {"lrs": [1.0] * len(index), "size": len(index)}
        nd.contrib.multi_adamw_update(weight, grad, mean, var, out=weight, **options)


def _step(params: list[gluon.Parameter], trainer: gluon.Trainer, batch_size: Any) -> None:
    with autograd.record():
        loss = sum((p.data() * (i + 1)).sum() for i, p in enumerate(params))
    loss.backward()
    trainer.allreduce_grads()
    trainer.update(batch_size)


def _params(count: int = 5) -> list[gluon.Parameter]:
    params = [gluon.Parameter(f"p{i}", shape=(3,)) for i in range(count)]
    for p in params:
        p.initialize(init=mx.init.Constant(1.0))
    return params


def test_gradients_are_divided_by_the_array() -> None:
    params = _params()
    trainer = gluon.Trainer(params, "listadam", {"wd": 0.1}, update_on_kvstore=False)
    _step(params, trainer, nd.array([4.0]))
    for i, p in enumerate(params):
        grad = (i + 1) / 4
        mean, var = 0.1 * grad, 0.001 * grad**2
        want = 1 - 0.01 * (mean / (var**0.5 + 1e-6) + 0.1)
        np.testing.assert_allclose(p.data().asnumpy(), want, rtol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_overflow_leaves_a_step_out(bad: float) -> None:
    params = _params()
    trainer = gluon.Trainer(params, "listadam", update_on_kvstore=False)
    size = nd.array([1.0]) / nd.array([0.0]) * (0 if bad != bad else 1)
    assert np.isnan(size.asscalar()) == np.isnan(bad)
    _step(params, trainer, size)
    for p in params:
        np.testing.assert_array_equal(p.data().asnumpy(), np.ones(3, "float32"))
    _step(params, trainer, nd.array([1.0]))
    assert all((p.data().asnumpy() < 1).all() for p in params)


def test_numbers_are_still_checked() -> None:
    params = _params(1)
    trainer = gluon.Trainer(params, "listadam", update_on_kvstore=False)
    with pytest.raises(ValueError, match="batch_size must be a number above 0.*, got nan"):
        _step(params, trainer, float("nan"))


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
    grads = [mx.nd.full((4,), 0.7, ctx=mx.cpu(i)) for i in range(2)]
    pushpull_all(store, [(0, "w", [], grads)], False)
    for grad in grads:
        np.testing.assert_array_equal(grad.asnumpy(), np.full(4, 1.0))  # two codes of 0.5


def test_arrays_that_change_make_a_new_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", "0.0001")
    store = mx.kv.create("device")
    shapes = {"a": (3,), "b": (40, 2), "c": (1,)}
    for key, shape in shapes.items():
        store.init(key, mx.nd.zeros(shape))
    for keys in (("a", "b", "c"), ("a", "c"), ("b",), ("a", "b", "c")):
        grads = {k: [mx.nd.full(shapes[k], i + 1, ctx=mx.cpu(i)) for i in range(3)] for k in keys}
        pushpull_all(store, [(i, key, [], grads[key]) for i, key in enumerate(keys)], False)
        for arrays in grads.values():
            for array in arrays:
                np.testing.assert_array_equal(array.asnumpy(), np.full(array.shape, 6.0))
    wrong = [mx.nd.zeros((4,)), mx.nd.zeros((4,), ctx=mx.cpu(1))]
    with pytest.raises(mx.base.ShapeError, match=r"key a: .*\(3,\), got \(4,\)"):
        pushpull_all(store, [(0, "a", [], wrong)], False)


@pytest.mark.parametrize("optimizer", ["nadam", "sgd"])
def test_row_sparse_gradients_among_dense_ones(optimizer: str) -> None:
    """Optimizers that count the updates of all weights get them in the order of the entries."""
    contexts = [mx.cpu(0), mx.cpu(1)]
    shapes = {"w": (3,), "rows": (4, 2), "b": (5,)}
    results = []
    for sums in (pushpull_all, summed_by_key):
        store = mx.kv.create("device")
        store.set_optimizer(mx.optimizer.create(optimizer, learning_rate=0.1))
        weights = {k: [mx.nd.ones(shape, ctx=c) for c in contexts] for k, shape in shapes.items()}
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
