"""Frequent mistakes: the message names what was meant."""

from __future__ import annotations

import pickle
import re

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


def loaded(samples, **options):
    return list(gluon.data.DataLoader(samples, 2, **options))


def no_init(base, **members):
    """Make an object whose __init__ forgets super().__init__()."""
    return type("Mine", (base,), {"__init__": lambda self: None, **members})()


X = nd.ones((2, 3))
IMAGE = nd.ones((3, 8, 8))
BATCH = r"; add a batch dimension: data.expand_dims\(0\)"
UNEQUAL = (
    r"DataLoader: all samples .* \(2,\) like sample 0, got \(3,\) for sample 1; make them equal"
)
SUPER = "has not called super"

MISTAKES = {
    "conv_batch": (lambda: layer(nn.Conv2D(4, 3))(IMAGE), r"shape \(N, C, H, W\) .*" + BATCH),
    "conv1d_batch": (lambda: layer(nn.Conv1D(4, 3))(X), BATCH),
    "pool_batch": (lambda: nn.MaxPool2D()(IMAGE), r"shape \(N, C, H, W\) .*" + BATCH),
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
    "symbol_concat": (lambda: mx.sym.concat(mx.sym.var("a"), axis=0), "'axis'; did you mean 'dim'"),
    "stack": (lambda: nd.stack(X, X, dim=0), "'dim'; did you mean 'axis'"),
    "float64": (
        lambda: layer(nn.Dense(2, in_units=3))(X.astype("float64")),
        r"convert data with astype\('float32'\) or the network with cast\('float64'\)",
    ),
    "swapped": (
        lambda: gluon.loss.SoftmaxCrossEntropyLoss()(nd.array([1, 0]), X),
        "label must have pred's shape .*the arguments seem to be swapped",
    ),
    "one_hot": (
        lambda: gluon.loss.SoftmaxCrossEntropyLoss()(X, X),
        "for one-hot labels or probabilities use sparse_label=False",
    ),
    "unequal": (lambda: loaded([np.ones(2), np.ones(3)]), UNEQUAL),
    "unequal_arrays": (lambda: loaded([nd.ones(2), nd.ones(3)]), UNEQUAL),
    "unequal_in_a_worker": (lambda: loaded([np.ones(2), np.ones(3)], num_workers=1), UNEQUAL),
    "super_of_block": (lambda: no_init(gluon.Block).collect_params(), SUPER),
    "super_of_hybrid_block": (lambda: no_init(gluon.HybridBlock)(X), SUPER),
    "super_of_metric": (lambda: no_init(mx.metric.EvalMetric).sum_metric, SUPER),
    "super_of_iterator": (lambda: no_init(mx.io.DataIter).batch_size, SUPER),
    "super_of_optimizer": (lambda: no_init(mx.optimizer.Optimizer).rescale_grad, SUPER),
    "numpy_into_layer": (
        lambda: layer(nn.Dense(1, in_units=3))(np.ones((2, 3), "float32")),
        r"got ndarray; mx.nd.array\(...\) makes an NDArray",
    ),
    "metric": (lambda: mx.metric.create("zzz"), "'zzz' is not registered. Known: acc"),
    "optimizer": (lambda: mx.optimizer.create("zzz"), "'zzz'. Known: .*adadelta, adagrad, adam, "),
    "attribute": (lambda: nn.Dense(1).hidden, "'Dense' object has no attribute 'hidden'$"),
    "temperature": (lambda: nd.softmax(X, temperature=0.0), "^softmax: temperature must not be 0"),
    "two_variables": (
        lambda: (mx.sym.var("a") + mx.sym.var("a")).simple_bind(mx.cpu(), a=(2,)),
        "names of variables must be .*got 'a' for several",
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


def test_no_cuda_says_where_to_look():
    if mx.num_gpus() == 0 and not mx.runtime.Features().is_enabled("CUDA"):
        with pytest.raises(mx.MXNetError, match="cmake.define.MXLITE_CUDA=ON"):
            nd.ones(1, ctx=mx.gpu(0))


@pytest.mark.parametrize("kind", [ValueError_, TypeError_, IndexError_])
def test_classes_have_the_names_of_the_builtins(kind):
    assert kind.__name__ in {base.__name__ for base in kind.__mro__[1:]}
    again = pickle.loads(pickle.dumps(kind("text")))
    assert type(again) is kind and str(again) == "text"
    assert not mx.base.AxisError.__name__.endswith("_")
    assert issubclass(mx.base.DeviceError, ValueError)
    assert not issubclass(mx.base.DeviceError, kind)
    assert not issubclass(mx.base.FileFormatError, kind)


class _Foreign:
    """An object of a library that knows nothing of NDArrays."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(2, dtype)


class _Friend(_Foreign):
    def __radd__(self, other):
        return "friend", other


@pytest.mark.parametrize(
    "value, kind", [("a", "str"), (None, "NoneType"), (1j, "complex"), (_Foreign(), "_Foreign")]
)
def test_arithmetic_with_what_is_no_number(value, kind):
    x = nd.array([1, 2])
    hint = "; convert it with mx.nd.array" if kind == "_Foreign" else f"{kind}$"
    for method, act in (
        ("__add__", lambda: x + value),
        ("__radd__", lambda: value + x),
        ("__rtruediv__", lambda: value / x),
        ("__pow__", lambda: x**value),
    ):
        given = f"{method}: .* operand of an NDArray must be an NDArray or a number, got {kind}"
        with pytest.raises(TypeError, match=given) as caught:
            act()
        assert re.search(hint, str(caught.value))
    with pytest.raises(TypeError, match=f"__add__: .*, got {kind}"):
        x += value
    assert (x == value) is False or kind == "_Foreign"


def test_objects_that_know_ndarrays_compute_with_them():
    x = nd.array([1, 2])
    name, other = x + _Friend()
    assert name == "friend" and other is x
    assert (x * nd.array([2, 2]) + np.float32(1)).asnumpy().tolist() == [3, 5]


def test_inference_names_what_is_no_shape_or_dtype():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    for dtype in ((2, 3), "foo", 7):
        with pytest.raises(TypeError, match=r"data must be a dtype such as"):
            net.infer_type(data=dtype)
    for shape in (3, "ab", 2.5):
        with pytest.raises((TypeError, ValueError), match="infer_shape: data: .* a tuple of int"):
            net.infer_shape(data=shape)
    with pytest.raises(ValueError, match=r"infer_shape: data: shape must have .*got \(-2, 3\)"):
        net.infer_shape(data=(-2, 3))
    assert net.infer_shape(data=[2, 3])[1] == [(2, 3)]


def test_attributes_of_operators_are_their_parameters():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    with pytest.raises(TypeError, match="FullyConnected of 'fc' has no parameter 'num_hiden'; did"):
        net._set_attr(num_hiden="5")
    with pytest.raises(ValueError, match="num_hidden"):
        net._set_attr(num_hidden="many")
    with pytest.raises(ValueError, match="only accepts string values, got num_hidden=5"):
        net._set_attr(num_hidden=5)
    assert net.infer_shape(data=(2, 4))[1] == [(2, 3)]
    net._set_attr(num_hidden="5", lr_mult="2", __mine__="1")
    assert net.infer_shape(data=(2, 4))[1] == [(2, 5)]
    assert mx.sym.load_json(net.tojson()).infer_shape(data=(2, 4))[1] == [(2, 5)]
    assert net.attr("lr_mult") == "2" and net.attr("__mine__") == "1"
    variable = mx.sym.var("x")
    variable._set_attr(anything="1")
    assert variable.attr("anything") == "1"


@pytest.mark.parametrize("key", [True, False, (True,), (0, True)])
def test_a_bool_is_no_place_to_write_to(key):
    x = nd.zeros((2, 2))
    with pytest.raises(TypeError, match="the index must not be a bool; x.:. fills the array"):
        x[key] = 5
    assert x.asnumpy().sum() == 0


def test_summaries_tell_what_shapes_they_need():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    with pytest.warns(UserWarning, match="parameters are not counted without the shapes"):
        mx.viz.print_summary(net)
    with pytest.raises(TypeError, match=r"shape must be .*got \(1, 2\)"):
        mx.viz.print_summary(net, shape=(1, 2))
    with pytest.raises(ValueError, match="the symbol has no input 'dat'; did you mean 'data'"):
        mx.viz.print_summary(net, shape={"dat": (1, 2)})
