"""Typical mistakes of new users: each gives an error of the right type that says what to do."""

from __future__ import annotations

import traceback

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn, rnn


def called(block: gluon.Block, *args: nd.NDArray):
    block.initialize()
    return block(*args)


class Pair(gluon.Block):
    def forward(self, x, y):
        return x + y


class NoArgument(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.scale = self.params.get("scale", shape=(2,))

    def hybrid_forward(self, F, x):  # noqa: N803
        return x


X = nd.ones((2, 3))
COUNTS = [
    (nn.Dense(3), (X, X), r"Dense '\w+': the number of inputs must be 1 \(x\), got 2"),
    (nn.Dense(3), (), "inputs must be 1 .*, got 0"),
    (nn.HybridSequential(), (), "inputs must be at least 1 .*, got 0"),
    (
        gluon.loss.SoftmaxCrossEntropyLoss(),
        (X,),
        r"inputs must be 2 to 3 \(pred, label, sample_weight=None\), got 1",
    ),
    (rnn.LSTMCell(4), (X,), r"inputs must be 2 \(inputs, states\), got 1"),
    (Pair(), (X,), r"Pair '\w+': the number of inputs must be 2 \(x, y\), got 1"),
    (NoArgument(), (X,), "no argument for the parameter 'scale'"),
]


@pytest.mark.parametrize(("block", "args", "text"), COUNTS)
@pytest.mark.parametrize("hybrid", [False, True])
def test_the_number_of_inputs_is_checked(block, args, text, hybrid):
    block.initialize(force_reinit=True)
    block.hybridize(hybrid)
    with pytest.raises(TypeError, match=text):
        block(*args)


@pytest.mark.parametrize("kind", [rnn.RNN, rnn.LSTM, rnn.GRU])
@pytest.mark.parametrize("count", [0, 7])
def test_rnn_layers_name_themselves_with_a_wrong_number_of_inputs(kind, count):
    words = rf"{kind.__name__} '.*': the number of inputs must be 1 to 3 .*, got {count}"
    with pytest.raises(TypeError, match=words):
        called(kind(3), *[nd.ones((5, 2, 3))] * count)


def test_the_layer_inside_a_network_is_named():
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.Dense(2))
    with pytest.raises(TypeError, match=r"in HybridSequential\.0 \(Dense "):
        called(net, X, X)


def test_type_errors_of_a_users_forward_stay_as_they_are():
    class Own(gluon.Block):
        def forward(self, x):
            return len(x, x)

    with pytest.raises(TypeError, match=r"^len\(\) takes exactly one argument"):
        Own()(X)


def gradient_of(function: type[autograd.Function]) -> np.ndarray:
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = function()(x)
    y.backward()
    return x.grad.asnumpy()


def function(result, forward=None) -> type[autograd.Function]:
    class Made(autograd.Function):
        def forward(self, x):
            return x * 2 if forward is None else forward

        def backward(self, dy):
            return result(dy)

    return Made


def test_gradients_of_a_function_have_the_shape_and_type_of_its_inputs():
    with pytest.raises(ValueError, match=r"Made.backward: gradient 0 must have .* got \(5,\)"):
        gradient_of(function(lambda dy: nd.ones(5)))
    with pytest.raises(TypeError, match="Made.backward must return NDArrays, got 3"):
        gradient_of(function(lambda dy: 3))
    with pytest.raises(TypeError, match="Made.forward must return NDArrays, got 3"):
        gradient_of(function(lambda dy: dy, forward=3))
    with pytest.raises(
        ValueError, match="must return a gradient for each of the 1 inputs of forward, got 2"
    ):
        gradient_of(function(lambda dy: (dy, dy)))
    row = gradient_of(function(lambda dy: nd.array([1, 2, 3], dtype="float64")))
    assert row.dtype == np.float32
    np.testing.assert_array_equal(row, [[1, 2, 3], [1, 2, 3]])


def test_a_function_without_super_init_says_so():
    class Forgetful(autograd.Function):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match=r"Forgetful.__init__ has not called super\(\)"):
        Forgetful()(X)


def custom(name: str, **methods) -> nd.NDArray:
    inside = {key: methods.pop(key) for key in ("forward", "backward") if key in methods}
    operator = type("Operator", (mx.operator.CustomOp,), inside)
    methods.setdefault("create_operator", lambda *_: operator())
    mx.operator.register(name)(type("Prop", (mx.operator.CustomOpProp,), methods))
    x = nd.ones(2)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type=name)
    y.backward()
    return x.grad.asnumpy()


def twice(self, is_train, req, in_data, out_data, aux):
    self.assign(out_data[0], req[0], in_data[0] * 2)


def test_parts_that_a_custom_operator_lacks_are_named():
    with pytest.raises(mx.MXNetError, match="Operator does not define forward"):
        custom("misuse_without_forward")
    with pytest.raises(mx.MXNetError, match="Operator does not define backward"):
        custom("misuse_without_backward", forward=twice)
    with pytest.raises(TypeError, match="infer_shape of 'misuse_shape' must return a list for"):
        custom("misuse_shape", forward=twice, infer_shape=lambda self, shapes: 3)
    with pytest.raises(TypeError, match="create_operator of 'misuse_op' must return a CustomOp"):
        custom("misuse_op", create_operator=lambda *_: 3)


METRICS = [
    (mx.metric.Accuracy(), X, nd.array([0, 1]), "update takes labels first"),
    (mx.metric.CrossEntropy(), nd.array([0, 5]), X, "labels must be classes from 0 .*got 5"),
    (mx.metric.NegativeLogLikelihood(), nd.array([0, -1]), X, "labels must be .*got -1"),
    (mx.metric.Perplexity(None), nd.array([0, 3]), X, "Perplexity: labels must be .*got 3"),
    (mx.metric.MSE(), nd.ones(4), X, "MSE: labels and predictions must"),
    (
        mx.metric.MAE(),
        nd.ones((2, 2)),
        X,
        "MAE: labels and predictions must have .*shapes that broadcast, got",
    ),
]


@pytest.mark.parametrize(("metric", "labels", "predictions", "text"), METRICS)
def test_metrics_refuse_what_they_would_count_wrong(metric, labels, predictions, text):
    kind = ValueError if isinstance(metric, (mx.metric.MSE, mx.metric.MAE)) else IndexError
    with pytest.raises(kind, match=text):
        metric.update([labels], [predictions])


def test_ignored_labels_may_lie_outside_of_the_classes():
    metric = mx.metric.Perplexity(-1)
    metric.update([nd.array([0, -1])], [nd.array([[0.5, 0.5], [0.1, 0.9]])])
    np.testing.assert_allclose(metric.get()[1], 2, rtol=1e-6)


SYMBOL = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
BOOLS = nd.ones(2, dtype="bool")
TYPES = {
    "optimizer_params must be a dict.*, got 0.1": lambda: gluon.Trainer({}, "sgd", 0.1),
    "a Dataset .*without __len__": lambda: gluon.data.DataLoader(iter([1]), 1),
    "mean must be .*got '0.5'": lambda: gluon.data.vision.transforms.Normalize("0.5", 1),
    "size must be .*got '8'": lambda: gluon.data.vision.transforms.Resize("8"),
    "imdecode: buf must be .*got str": lambda: mx.image.imdecode("abc"),
    "symbol must be a Symbol.*, got 3": lambda: mx.mod.Module(3),
    "context must be mx.*, got 'cpu'": lambda: mx.mod.Module(SYMBOL, context="cpu"),
    "train_data must be a DataIter.*, got ndarray": lambda: mx.mod.Module(
        SYMBOL, label_names=None
    ).fit(np.zeros((4, 2)), num_epoch=1),
    "updater must be a function, got 3": lambda: mx.kv.create("local").set_updater(3),
    r"_ones: ctx must be a context .*, got 3": lambda: nd.ones(2, 3),
    r"ctx must be a context .*, got 1.5": lambda: nd.random.normal(shape=(2,), ctx=1.5),
    r"ctx_list must be a list of contexts such as \[cpu\(0\)\], got cpu\(0\)": lambda: (
        gluon.utils.split_and_load(X, mx.cpu())
    ),
    r"nd.where\(mask, values": lambda: X[np.array([True, False])],
    r"foreach: body must return a tuple \(output, states\), got NDArray": lambda: (
        nd.contrib.foreach(lambda x, states: x, nd.ones((2, 2)), nd.ones(2))
    ),
    "DataLoader: sample must be .*got a dict": lambda: next(
        iter(gluon.data.DataLoader([{"x": 1}], 1))
    ),
    r"sum: data must have a numeric dtype, got bool; convert.* astype\('int64'\)": BOOLS.sum,
    "mean: data must": BOOLS.mean,
    "prod: data must": lambda: nd.prod(BOOLS),
    "norm: data must": lambda: nd.norm(BOOLS),
    "cumsum: data must .*, got bool": lambda: nd.cumsum(BOOLS),
    "seed_state must be a number.*, got 'a'": lambda: mx.random.seed("a"),
}
VALUES = {
    "LSTMCell: states must have 2 entries, got 1": lambda: called(rnn.LSTMCell(4), X, [X]),
    r"data_shape must be .*got \(4, 4\)": lambda: mx.image.CreateAugmenter((4, 4)),
    "number of samples must be at least 1, got 0": lambda: mx.io.NDArrayIter(np.zeros((0, 2))),
    "batch_size must be at most the number of samples, 2, .*, got 5": lambda: mx.io.NDArrayIter(
        X, batch_size=5, last_batch_handle="discard"
    ),
    "samples along axis 0": lambda: mx.io.NDArrayIter(np.array(3.0)),
    "ImageRecordIter: batch_size must be 1 or more, got 0": lambda: mx.io.ImageRecordIter(
        path_imgrec="x", data_shape=(3, 4, 4), batch_size=0
    ),
}
CASES = [
    *((TypeError, *case) for case in TYPES.items()),
    *((ValueError, *case) for case in VALUES.items()),
    (IndexError, "moveaxis: axis 5 is out of", lambda: nd.moveaxis(X, 0, 5)),
]


@pytest.mark.parametrize(("kind", "text", "make"), CASES)
def test_an_error_says_what_was_given_and_expected(kind, text, make):
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, mx.MXNetError)
    (line,) = traceback.format_exception_only(caught.type, caught.type("text"))
    name = line.partition(":")[0].rpartition(".")[2]
    assert not name.startswith("_") and not name.endswith("_"), line
