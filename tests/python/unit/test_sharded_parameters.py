"""Sharded parameters in a process that has joined no job: the block is the whole array."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd
from mxlite.gluon import HybridBlock, Parameter, nn


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


def test_other_process_sets_need_a_job() -> None:
    param = Parameter("a_weight", shape=(4, 3), shard=(0, 1))
    with pytest.raises(ValueError, match="'a_weight': 1 given, this process has joined no job"):
        param.initialize()


def test_a_shared_parameter_keeps_its_shard() -> None:
    net = Net()
    assert net.params.get("weight") is net.weight
    assert net.params.get("weight", shard=(0, hvd.global_process_set)) is net.weight
    with pytest.raises(ValueError, match="does not match with stored for attribute 'shard'"):
        net.params.get("weight", shard=(1, None))


def test_the_shard_of_a_layer_may_be_set_before_initialization() -> None:
    layer = nn.Dense(4, in_units=3)
    layer.collect_params(".*weight").setattr("shard", (-1, None))
    assert layer.weight.shard == (-1, None) and layer.bias.shard is None
    layer.initialize()
    with pytest.raises(mx.MXNetError, match="shard cannot be changed"):
        layer.weight.shard = None


@pytest.mark.parametrize(
    ("shard", "kind", "message"),
    [
        (0, TypeError, r"shard is 0, expected a tuple \(axis, process_set\)"),
        ((0,), TypeError, "expected a tuple"),
        (("0", None), TypeError, "axis of shard is '0'"),
        ((0, 1.5), TypeError, "process set of shard is 1.5"),
        ((True, None), TypeError, "axis of shard is True"),
    ],
)
def test_wrong_shards_are_refused(shard, kind, message) -> None:
    with pytest.raises(kind, match=f"Parameter 'a_weight': .*{message}"):
        Parameter("a_weight", shape=(4, 3), shard=shard)
