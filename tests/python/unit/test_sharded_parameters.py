"""Sharded parameters in a process that has joined no job: the shard is the whole array."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd, gluon
from mxlite.comm.groups import group_of
from mxlite.gluon import HybridBlock, Parameter, nn
from mxlite.optimizer.shards import whole_squares
from mxlite.parallel.replicas import Replicas


class Net(HybridBlock):
    """A layer with a sharded weight of unknown size."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(4, 0), shard=(0, None), allow_deferred_init=True
            )

    def hybrid_forward(self, F, x, weight):
        return F.FullyConnected(x, weight, no_bias=True, num_hidden=4)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_single_process_has_the_whole_array(hybridize: bool, tmp_path: Path) -> None:
    net = Net()
    net.initialize()
    net.hybridize(hybridize)
    x = mx.nd.ones((2, 3))
    with autograd.record():
        y = net(x)
    y.backward()
    assert net.weight.shape == net.weight.local_shape == (4, 3)
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), 2 * np.ones((4, 3)))
    net.save_parameters(tmp_path / "a")
    other = Net()
    other.load_parameters(tmp_path / "a")
    np.testing.assert_array_equal(other(x).asnumpy(), y.asnumpy())
    np.testing.assert_array_equal(other.weight.full_data().asnumpy(), net.weight.data().asnumpy())


def test_process_sets_need_a_job_and_shards_stay() -> None:
    param = Parameter("a_weight", shape=(4, 3), shard=(0, 1))
    with pytest.raises(ValueError, match="'a_weight': .* as this process has joined no job, got 1"):
        param.initialize()
    net = Net()
    assert net.params.get("weight") is net.weight
    assert net.params.get("weight", shard=(0, hvd.global_process_set)) is net.weight
    with pytest.raises(ValueError, match="does not match with stored for attribute 'shard'"):
        net.params.get("weight", shard=(1, None))
    layer = nn.Dense(4, in_units=3)  # a shard may be set before the layer is initialized
    layer.collect_params(".*weight").setattr("shard", (-1, None))
    assert layer.weight.shard == (-1, None) and layer.bias.shard is None
    layer.initialize()
    with pytest.raises(mx.MXNetError, match="shard cannot be changed"):
        layer.weight.shard = None


@pytest.mark.parametrize(
    ("shard", "kind", "message"),
    [
        (0, TypeError, r"shard must be a tuple \(axis, process_set\), got 0"),
        ((0,), TypeError, r"shard must be a tuple .*, got \(0,\)"),
        (("0", None), TypeError, "axis of shard must be an integer, got '0'"),
        ((0, 1.5), TypeError, "shard: process_set must be .*got 1.5"),
        ((True, None), TypeError, "axis of shard must be an integer, got True"),
    ],
)
def test_wrong_shards_are_refused(shard, kind, message) -> None:
    with pytest.raises(kind, match=f"Parameter 'a_weight': .*{message}"):
        Parameter("a_weight", shape=(4, 3), shard=shard)


@pytest.mark.parametrize("kvstore", ["device", "horovod", None])
def test_a_single_process_keeps_all_states(kvstore, tmp_path: Path) -> None:
    weights = []
    for zero in (0, 1):
        mx.random.seed(2)
        layer = nn.Dense(4, in_units=3, prefix="layer_")  # files have names
        layer.initialize()
        trainer = gluon.Trainer(layer.collect_params(), "adam", kvstore=kvstore, zero=zero)
        for _ in range(3):
            with autograd.record():
                loss = (layer(mx.nd.ones((2, 3))) ** 2).sum()
            loss.backward()
            trainer.step(2)
        assert trainer.zero == zero
        trainer.save_states(tmp_path / f"{zero}")
        weights.append(layer.weight.data().asnumpy())
    np.testing.assert_array_equal(weights[0], weights[1])
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"zero": 2}, ValueError, "zero must be 0 .*, got 2"),
        ({"zero": True}, TypeError, "zero must be 0 or 1, got True"),
        ({"zero": 1, "update_on_kvstore": True}, ValueError, "use update_on_kvstore=False"),
        ({"zero": 1, "optimizer": "nadam"}, NotImplementedError, "divide the states of Nadam"),
    ],
)
def test_trainers_refuse_what_cannot_be_divided(options, kind, message) -> None:
    params = nn.Dense(4, in_units=3).collect_params()
    with pytest.raises(kind, match=message):
        gluon.Trainer(params, **{"optimizer": "adam", **options})


def test_states_of_a_job_that_was_formed_again_must_be_loaded(tmp_path: Path) -> None:
    layer = nn.Dense(4, in_units=3)
    layer.initialize()
    trainer = gluon.Trainer(layer.collect_params(), "adam", zero=1)
    trainer._ready()
    trainer.save_states(tmp_path / "states")
    trainer._lost_states = True  # what _forget_groups notes if states were divided
    with autograd.record():
        loss = (layer(mx.nd.ones((2, 3))) ** 2).sum()
    loss.backward()
    with pytest.raises(mx.MXNetError, match="call load_states or load_state_dict"):
        trainer.step(2)
    trainer.load_states(tmp_path / "states")
    trainer.step(2)


def test_sync_batch_norm_of_a_single_process_is_batch_norm() -> None:
    x = mx.nd.array(np.random.RandomState(4).normal(2, 3, (5, 3, 4)))
    results = []
    for process_set in (None, 0):
        gamma, beta = mx.nd.ones(3) * 2, mx.nd.ones(3)
        moving = [mx.nd.zeros(3), mx.nd.ones(3)]
        for array in (x, gamma, beta):
            array.attach_grad()
        with autograd.record():
            y = mx.nd.contrib.SyncBatchNorm(
                x, gamma, beta, *moving, fix_gamma=False, key="bn", process_set=process_set
            )
            loss = (y * y * y).sum()
        loss.backward()
        arrays = [y, x.grad, gamma.grad, beta.grad, *moving]
        results.append([array.asnumpy() for array in arrays])
    for mine, wanted in zip(*results):
        limit = 2e-5 * max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=limit)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lamb", {"wd": 0.01, "clip_gradient": 0.2}),
        ("lamb", {"lower_bound": 0.5, "upper_bound": 0.9, "bias_correction": False}),
        ("lars", {"momentum": 0.9, "wd": 0.01, "eta": 0.5}),
        ("lars", {"clip_gradient": 0.2, "eta": 0.5}),
        ("lbsgd", {"momentum": 0.9, "warmup_strategy": "lars"}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("dtype", "limit"), [("float32", 1e-6), ("float64", 1e-6), ("float16", 2e-3)]
)
def test_norms_over_process_sets_change_no_update(
    name: str, options: dict[str, object], dtype: str, limit: float
) -> None:
    random = np.random.RandomState(2)
    shapes = [(4, 3), (7,), (5, 2)]
    values = [random.normal(size=shape) for shape in shapes]
    gradients = [[random.normal(size=shape) for shape in shapes] for _ in range(3)]
    results = []
    # The process set of this process alone: its shard is the whole weight.
    for shards in ({}, {0: 0, 2: 0}, {0: 0, 1: 0, 2: 0}):
        optimizer = mx.optimizer.create(
            name, learning_rate=0.1, multi_precision=dtype == "float16", **options
        )
        optimizer._shards = shards
        assert optimizer._takes_shards()
        updater = mx.optimizer.get_updater(optimizer)
        weights = [mx.nd.array(value, dtype=dtype) for value in values]
        for step in gradients:
            arrays = [mx.nd.array(gradient, dtype=dtype) for gradient in step]
            updater([0, 1, 2], arrays, weights)
        results.append([weight.asnumpy() for weight in weights])
    for other in results[1:]:
        for got, want, before in zip(other, results[0], values):
            np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
            assert np.abs(want - before).max() > 10 * limit


def test_squares_of_whole_arrays_are_those_of_numpy() -> None:
    random = np.random.RandomState(3)
    dtypes = ["float32", "float64", "float16", "float64"]
    values = [random.normal(size=(n, 3)).astype(d) for n, d in zip((4, 1, 7, 50), dtypes)]
    arrays = [mx.nd.array(value, dtype=value.dtype) for value in values]
    got = whole_squares(["a", "b", "c", "d"], arrays, {"b": 0, "c": 0})
    want = [np.square(value.astype("float64")).sum() for value in values]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6)


def test_subclasses_with_norms_of_their_own_take_no_shards() -> None:
    class Own(mx.optimizer.LARS):
        pass

    def update(self, index, weight, grad, state):
        """Do nothing."""

    group = mx.optimizer.contrib.GroupAdaGrad
    other = type("Other", (mx.optimizer.LAMB,), {"_sums_shards": True, "update": update})
    for kind in (Own, other, type("Rows", (group,), {"update": update})):
        assert not kind()._takes_shards()
    for kind in (mx.optimizer.Adam, group):
        assert kind()._takes_shards()


def test_updates_are_divided_only_where_ranks_have_one_order() -> None:
    replicas = Replicas("Trainer", group_of("test", None), [])
    param = Parameter("a_weight", shape=(4, 3))
    for sets in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], []):
        replicas._sets = {"a_weight": {rank: ranks for ranks in sets for rank in ranks}}
        replicas.check_places("Trainer", param)
    replicas._sets = {"a_weight": {rank: ranks for ranks in ([0, 3], [1, 2]) for rank in ranks}}
    with pytest.raises(NotImplementedError, match=r"process sets \[0, 3\], \[1, 2\] that hold"):
        replicas.check_places("Trainer", param)
