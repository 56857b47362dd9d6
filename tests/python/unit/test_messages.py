"""Frequent mistakes: the message names what was meant."""

from __future__ import annotations

import pickle

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite.base import IndexError_, TypeError_, ValueError_
from mxlite.gluon import nn


def layer(block):
    block.initialize()
    return block


def dense_params():
    return layer(nn.Dense(1, in_units=3)).collect_params()


def no_init(base, **members):
    """Make an object whose __init__ forgets super().__init__()."""
    return type("Mine", (base,), {"__init__": lambda self: None, **members})()


X = nd.ones((2, 3))
IMAGE = nd.ones((3, 8, 8))
BATCH = r"; add a batch dimension: data.expand_dims\(0\)"
UNEQUAL = r"DataLoader: sample 1 of a batch has shape \(3,\), sample 0 \(2,\); make them equal"
SUPER = "has not called super"

MISTAKES = {
    "conv_batch": (lambda: layer(nn.Conv2D(4, 3))(IMAGE), r"expected \(N, C, H, W\)" + BATCH),
    "conv1d_batch": (lambda: layer(nn.Conv1D(4, 3))(X), BATCH),
    "pool_batch": (lambda: nn.MaxPool2D()(IMAGE), r"expected \(N, C, H, W\)" + BATCH),
    "global_pool_batch": (lambda: nn.GlobalAvgPool2D()(IMAGE), BATCH),
    "lr": (
        lambda: gluon.Trainer(dense_params(), "sgd", {"lr": 0.1}),
        r"SGD\(\) got an unexpected keyword argument 'lr'; did you mean 'learning_rate'",
    ),
    "weight_decay": (lambda: mx.optimizer.Adam(weight_decay=0.1), "did you mean 'wd'"),
    "momentun": (lambda: mx.optimizer.SGD(momentun=0.1), "did you mean 'momentum'"),
    "hidden": (
        lambda: nn.Dense(3, hidden=4),
        r"Dense\(\) got an unexpected keyword argument 'hidden'; did you mean 'units'",
    ),
    "pad": (lambda: nn.Conv2D(3, 3, pad=1), r"Conv2D\(\) .* did you mean 'padding'"),
    "eps": (lambda: nn.BatchNorm(eps=1e-3), "did you mean 'epsilon'"),
    "nothing_near": (lambda: nn.Flatten(zzz=1), "'zzz'; known: prefix, params"),
    "concat": (lambda: nd.concat(X, X, axis=0), "'axis'; did you mean 'dim'"),
    "symbol_concat": (
        lambda: mx.sym.concat(mx.sym.var("a"), mx.sym.var("b"), axis=0),
        "'axis'; did you mean 'dim'",
    ),
    "stack": (lambda: nd.stack(X, X, dim=0), "'dim'; did you mean 'axis'"),
    "float64": (
        lambda: layer(nn.Dense(2, in_units=3))(X.astype("float64")),
        r"convert data with astype\('float32'\) or the network with cast\('float64'\)",
    ),
    "swapped": (
        lambda: gluon.loss.SoftmaxCrossEntropyLoss()(nd.array([1, 0]), X),
        r"expected loss\(pred, label\).*the arguments seem to be swapped",
    ),
    "one_hot": (
        lambda: gluon.loss.SoftmaxCrossEntropyLoss()(X, X),
        "for one-hot labels or probabilities use sparse_label=False",
    ),
    "unequal": (
        lambda: list(gluon.data.DataLoader([np.ones(2), np.ones(3)], 2)),
        UNEQUAL,
    ),
    "unequal_arrays": (lambda: list(gluon.data.DataLoader([nd.ones(2), nd.ones(3)], 2)), UNEQUAL),
    "unequal_in_a_worker": (
        lambda: list(gluon.data.DataLoader([np.ones(2), np.ones(3)], 2, num_workers=1)),
        UNEQUAL,
    ),
    "super_of_block": (lambda: no_init(gluon.Block).collect_params(), SUPER),
    "super_of_hybrid_block": (lambda: no_init(gluon.HybridBlock)(X), SUPER),
    "super_of_metric": (lambda: no_init(mx.metric.EvalMetric).sum_metric, SUPER),
    "super_of_iterator": (lambda: no_init(mx.io.DataIter).batch_size, SUPER),
    "super_of_optimizer": (lambda: no_init(mx.optimizer.Optimizer).rescale_grad, SUPER),
    "numpy_into_layer": (
        lambda: layer(nn.Dense(1, in_units=3))(np.ones((2, 3), "float32")),
        r"a ndarray given; mx.nd.array\(...\) makes an NDArray",
    ),
    "metric": (lambda: mx.metric.create("zzz"), "'zzz' is not registered. Known: acc"),
    "optimizer": (
        lambda: mx.optimizer.create("zzz"),
        "optimizer 'zzz'. Known: .*adadelta, adagrad, adam, ",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_says_what_to_do(name):
    call, expected = MISTAKES[name]
    with pytest.raises((mx.MXNetError, AttributeError), match=expected):
        call()


def test_a_label_that_a_module_takes_for_a_parameter():
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(data, name="out"))
    batches = mx.io.NDArrayIter(np.ones((4, 3)), np.ones(4), 2)
    with pytest.raises(ValueError, match=r"label_names=\['out_label'\]"):
        module.fit(batches, num_epoch=1)


def test_an_attribute_that_a_finished_block_lacks():
    with pytest.raises(AttributeError, match="'Dense' object has no attribute 'hidden'$"):
        _ = nn.Dense(1).hidden


def test_no_cuda_says_where_to_look():
    if mx.num_gpus() == 0 and not mx.runtime.Features().is_enabled("CUDA"):
        with pytest.raises(mx.MXNetError, match="docs/gpus.md"):
            nd.ones(1, ctx=mx.gpu(0))


@pytest.mark.parametrize("kind", [ValueError_, TypeError_, IndexError_])
def test_classes_have_the_names_of_the_builtins(kind):
    assert kind.__name__ in {base.__name__ for base in kind.__mro__[1:]}
    again = pickle.loads(pickle.dumps(kind("text")))
    assert type(again) is kind and str(again) == "text"
    assert not mx.base.AxisError.__name__.endswith("_")


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(ValueError, match="^softmax: temperature must not be 0"):
        mx.nd.softmax(mx.nd.ones((2, 3)), temperature=0.0)


def test_the_module_of_errors_has_its_own_builtins():
    assert issubclass(mx.base.DeviceError, ValueError)
    assert not issubclass(mx.base.DeviceError, ValueError_)
    assert not issubclass(mx.base.FileFormatError, ValueError_)
