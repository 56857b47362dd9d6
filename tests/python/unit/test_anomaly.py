"""The search for the operator that first gives NaN."""

from __future__ import annotations

from collections.abc import Iterator

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from processes import run_program
from recording import differentiated, variable


@pytest.fixture
def searching() -> Iterator[None]:
    with autograd.detect_anomaly():
        yield


def test_the_first_operator_is_named(searching: None) -> None:
    x = nd.array([[4.0, -1.0]])
    with pytest.raises(mx.MXNetError) as error:
        y = nd.sqrt(x)
        nd.sum(y * 2)
    text = str(error.value)
    assert text.startswith("anomaly: sqrt, called at ")
    assert "test_anomaly.py:" in text
    assert "output 0 is (1, 2) float32, 1 of 2 NaN, no input has NaN (data (1, 2) float32)" in text


def test_infinities_among_the_operands_are_told(searching: None) -> None:
    low = nd.log(nd.zeros((2,)))  # -inf is no anomaly
    with pytest.raises(mx.MXNetError, match=r"no input has NaN \(.*2 of 2 infinite"):
        low - low


def test_nan_from_outside_is_told(searching: None) -> None:
    x = mx.nd.array(np.array([1.0, np.nan], "float32"))
    with pytest.raises(mx.MXNetError, match="its input data has NaN that no operator computed"):
        nd.relu(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_all_types(searching: None, dtype: str) -> None:
    with pytest.raises(mx.MXNetError, match="anomaly: log"):
        nd.log(nd.array([-1.0, 1.0]).astype(dtype))


def test_gradients(searching: None) -> None:
    x = variable(nd.zeros((3,)))
    with autograd.record():
        y = nd.sqrt(x)
        z = (y * 0).sum()
    with pytest.raises(mx.MXNetError, match=r"the gradient of sqrt \(in \w+\), called at "):
        z.backward()


def test_integers_and_clean_programs_pass(searching: None) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    x = nd.ones((4, 2))
    differentiated(lambda: (net(x) ** 2).mean())
    nd.ones((3,), dtype="int32") + 1
    gluon.Trainer(net.collect_params(), "adam").step(4)


def test_hybridized_blocks() -> None:
    net = nn.HybridLambda(lambda F, x: F.softmax(F.log(x - 3)))
    net.hybridize()
    x = nd.ones((2, 2))
    assert np.isnan(net(x).asnumpy()).all()
    with autograd.detect_anomaly(), pytest.raises(mx.MXNetError, match="anomaly: log"):
        net(x)
    assert np.isnan(net(x).asnumpy()).all()
    with autograd.detect_anomaly(False):
        net(x)


def test_modules() -> None:
    symbol = mx.sym.log(mx.sym.var("data") - 3, name="bad")
    executor = mx.sym.relu(symbol).bind(mx.cpu(), {"data": nd.ones((2,))})
    executor.forward()
    with autograd.detect_anomaly(), pytest.raises(mx.MXNetError, match="anomaly: log"):
        executor.forward(is_train=True)


def test_a_whole_program() -> None:
    code = "import mxlite as mx\nmx.nd.sqrt(mx.nd.array([-1.0])) + 1\nprint('reached')"
    for value, reached in (("1", False), ("0", True)):
        result = run_program(code, code=0 if reached else 1, MXLITE_ANOMALY=value)
        assert ("reached" in result.stdout) is reached
        assert ("anomaly: sqrt" in result.stderr) is not reached


@pytest.mark.parametrize("hybridize", [False, True])
def test_labels_that_are_no_class_are_told(hybridize: bool) -> None:
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize(hybridize)
    scores, labels = nd.ones((3, 3)), nd.array([1, 2, 3])
    loss(scores, labels).wait_to_read()  # clipped, as in 1.x
    with autograd.detect_anomaly():
        with pytest.raises(IndexError, match=r"pick.* must be 0 to 2, got 3 at flat position 2 "):
            loss(scores, labels)
        loss(scores, labels - 1).wait_to_read()


def test_clipped_indices_are_told(searching: None) -> None:
    table = nd.ones((4, 2))
    for index in (-1, 4, float("nan")):
        wrong = nd.array([0, index])
        with pytest.raises(IndexError, match="anomaly: Embedding.*data must be 0 to 3, got"):
            nd.Embedding(wrong, table, input_dim=4, output_dim=2)
        with pytest.raises(IndexError, match="anomaly: take.*indices must be"):
            nd.take(table, wrong)
    nd.take(table, nd.array([5, -1]), mode="wrap")
    nd.pick(table, nd.array([0, 1, 5, 1]), mode="wrap")
    with pytest.raises(IndexError, match="must be 0 to 1, got"):
        nd.take(table, nd.array([2], dtype="int32"), axis=-1)
    nd.take(table, nd.array([3, 0.5]))
    nd.take(table, nd.array([1, 0], dtype="int64"), axis=1)
