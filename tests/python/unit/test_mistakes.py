"""Mistakes of new users: errors and warnings say what to do instead of training wrongly."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, metric, nd
from mxlite.gluon import nn


def network() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.Dense(2, in_units=3))
    net.initialize()
    return net


# -- loading and freezing parameters -------------------------------------------------------------


class Model(nn.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.features = network()


def test_a_file_of_which_nothing_fits_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "model.params")
    Model().save_parameters(path)
    words = "none of the 4 arrays .*model.params.*all names in the file begin with 'features.'"
    with pytest.warns(UserWarning, match=words):
        network().load_parameters(path, allow_missing=True, ignore_extra=True)
    with pytest.raises(AssertionError, match=words):  # it does not recommend to ignore everything
        network().load_parameters(path)
    network().save_parameters(path)
    with pytest.warns(UserWarning, match="all names of this block begin with 'features.'"):
        Model().load_parameters(path, allow_missing=True, ignore_extra=True)


def test_a_file_of_which_something_fits_gives_no_warning(tmp_path: Path) -> None:
    path = str(tmp_path / "model.params")
    network()[:1].save_parameters(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network().load_parameters(path, allow_missing=True, ignore_extra=True)


def test_attributes_that_no_parameter_has_are_named() -> None:
    params = network().collect_params()
    with pytest.warns(UserWarning, match="no attribute 'lr_mul'; did you mean 'lr_mult'") as caught:
        params.setattr("lr_mul", 0)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"grad_req='null' has no effect, because"):
        network().collect_params("xyz").setattr("grad_req", "null")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params.setattr("lr_mult", 0)


def test_initialized_parameters_are_named_in_one_warning() -> None:
    net = network()
    net.add(nn.Dense(1, in_units=2))
    with pytest.warns(UserWarning) as caught:
        net.initialize()
    assert len(caught) == 1
    assert "4 of 6 Parameters are already initialized, ignoring them" in str(caught[0].message)
    assert net[2].weight.data().shape == (1, 2)


# -- predictions with NaN ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "measure",
    [
        metric.Accuracy(), metric.TopKAccuracy(2), metric.F1(), metric.F1(average="micro"),
        metric.MCC(), metric.PCC(),
    ],
    ids=lambda measure: measure.name,
)  # fmt: skip
def test_metrics_of_nan_are_nan(measure: Any) -> None:
    good = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], "float32")
    labels = nd.array([0, 1, 0])
    measure.update([labels], [nd.array(good)])
    before = measure.get()
    assert not math.isnan(before[1])
    bad = good.copy()
    bad[1, 0] = math.nan
    expected = f"{type(measure).__name__}: predictions have NaN, so the metric is nan"
    with pytest.warns(UserWarning, match=expected) as caught:
        measure.update([labels], [nd.array(bad)])
    assert len(caught) == 1
    assert math.isnan(measure.get()[1])
    assert measure.num_inst in (2, 6)
    measure.reset()
    measure.update([labels], [nd.array(good)])
    assert measure.get() == before


# -- networks ------------------------------------------------------------------------------------


def initialized(layer: Any) -> Any:
    layer.initialize()
    return layer


def called(layer: Any, shape: tuple[int, ...]) -> Any:
    return initialized(layer)(nd.ones(shape))


ALONG_3 = "4 channels along axis 1 .* 4 along axis 3"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: network().initialize(ctx="cpu", force_reinit=True), "ctx must be .*, got 'cpu'"),
        (lambda: network().initialize(ctx=1, force_reinit=True), "ctx must be .*, got 1"),
        (lambda: network().hybridize(staticalloc=True), "'staticalloc'.*mean 'static_alloc'"),
        (lambda: nn.Dense(2)(nd.ones((1, 2))), r"Call net\.initialize\(\)"),
        (lambda: gluon.Trainer(nn.Dense(2).collect_params(), "sgd").step(1), r"net\.initial"),
        (lambda: network()(nd.ones((1, 5))), "in_units=2, but a row of the data has 5 values"),
        (
            lambda: called(nn.Conv2D(8, 3, in_channels=3), (2, 9, 9, 3)),
            r"3 channels along axis 1 \(layout='NCHW'\).*data.transpose\(\(0, 3, 1, 2\)\)",
        ),
        (
            lambda: called(nn.Conv2D(8, 3, in_channels=3, layout="NHWC"), (2, 3, 9, 9)),
            r"3 channels along axis 3 \(layout='NHWC'\).*data.transpose\(\(0, 2, 3, 1\)\)",
        ),
        (
            lambda: called(nn.BatchNorm(in_channels=3), (2, 9, 9, 3)),
            r"3 channels along axis 1 \(axis=1\), but the data has 9 there and 3 along axis 3",
        ),
        (lambda: called(gluon.rnn.LSTM(4, input_size=3), (2, 5, 7)), "input_size=3, .* 7 values"),
        (lambda: called(nn.Conv2DTranspose(6, 3, in_channels=4), (2, 9, 9, 4)), ALONG_3),
        (lambda: called(nn.Conv2D(6, 3, groups=2, in_channels=4), (2, 9, 9, 4)), ALONG_3),
        (lambda: nd.ones((5, 2, 3)) @ nd.ones((3, 4)), r"@: .* got \(5, 2, 3\) and \(3, 4\)"),
        (lambda: nn.Dense(2, activation="rellu"), "got 'rellu'; did you mean 'relu'"),
        (lambda: nn.Conv2D(2, 3, activation="rellu"), "got 'rellu'; did you mean 'relu'"),
        (lambda: gluon.rnn.RNNCell(2, activation="thanh"), "got 'thanh'; did you.* 'tanh'"),
    ],
)  # fmt: skip
def test_errors_of_networks_say_what_to_do(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(mx.MXNetError, match=words):
        call()


def test_an_lstm_names_the_layout_of_batches_first() -> None:
    lstm = initialized(gluon.rnn.LSTM(4, input_size=3))
    with pytest.raises(ValueError, match="axis 1 in layout 'TNC' .*'TNC' or 'NTC'"):
        lstm(nd.ones((2, 5, 3)), lstm.begin_state(2))


def test_hints_of_layers_know_channels_that_the_first_data_gave() -> None:
    layer = initialized(nn.Conv2D(6, 3))
    layer(nd.ones((2, 4, 9, 9)))
    with pytest.raises(ValueError, match="4 channels along axis 1"):
        layer(nd.ones((2, 9, 9, 4)))


# -- names of PyTorch and NumPy ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "words"),
    [
        (nd.ones(1), "item", "did you mean 'asscalar'"),
        (nd.ones(1), "numpy", "did you mean 'asnumpy'"),
        (nd.ones(1), "view", "did you mean 'reshape'"),
        (nd.ones(1), "to", "did you mean 'as_in_context' or 'astype'"),
        (nn.Dense(1), "train", r"autograd.record\(\) chooses training mode"),
        (nn.Dense(1), "parameters", "did you mean 'collect_params'"),
        (nn, "Linear", "did you mean 'Dense'"),
        (nn, "CrossEntropyLoss", "use gluon.loss.SoftmaxCrossEntropyLoss"),
        (gluon.loss, "CrossEntropyLoss", "use gluon.loss.SoftmaxCrossEntropyLoss"),
        (mx.lr_scheduler, "StepLR", "did you mean 'FactorScheduler'"),
        (nn, "functional", "use the functions of mx.nd"),
        (nn.Dense(1), "modules", r"use apply\(fn\)"),
        (nd.ones(1), "tolist", r"use asnumpy\(\).tolist\(\)"),
        (nd.ones(1), "contiguous", "no call is needed"),
        (mx, "cuda", "did you mean 'gpu'"),
        (mx, "manual_seed", "use mx.random.seed"),
        (mx, "zeros", "use mx.nd.zeros$"),
        (nd.ones(1), "nothing_alike", "has no attribute 'nothing_alike'$"),
    ],
)
def test_names_of_pytorch_are_translated(owner: Any, name: str, words: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert caught.match(words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gluon.data.DataLoader([1], 1, drop_last=True), "use last_batch='discard'"),
        (lambda: gluon.rnn.LSTM(2, batch_first=True), "use layout='NTC'"),
        (lambda: nn.Dropout(p=0.5), "did you mean 'rate'"),
        (lambda: nn.Dropout(prefix="a_"), "missing 1 required positional argument: 'rate'"),
    ],
)
def test_keywords_of_pytorch_are_translated(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make()


def test_an_error_in_a_property_of_a_block_stays() -> None:
    class Own(nn.Block):
        @property
        def width(self) -> Any:
            return self.missing

    with pytest.raises(AttributeError, match="'missing'"):
        _ = Own().width


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 5, 2, 3), (2, 5, 3, 1))]
)
def test_matrix_products_by_operator(shapes: tuple[Any, Any]) -> None:
    a, b = (np.random.RandomState(0).rand(*shape).astype("float32") for shape in shapes)
    x, y = nd.array(a), nd.array(b)
    x.attach_grad()
    with mx.autograd.record():
        product = x @ y
    product.backward()
    expected = np.asarray(a @ b)
    np.testing.assert_allclose(product.asnumpy().reshape(expected.shape), expected, rtol=1e-5)
    assert x.grad.asnumpy().any()
    with pytest.raises(TypeError):
        x @ "x"


def test_numpy_s_mean_of_an_array() -> None:
    x = nd.array([[1, 2], [3, 6]], dtype="int32")
    assert np.mean(x.astype("float32")).asscalar() == 3
    assert np.mean(x, axis=0, dtype="float32").asnumpy().tolist() == [2, 4]
    assert x.astype("float32").mean(1, True).shape == (2, 1)
