"""FeedForward and executor managers: training, scores, files and log lines of MXNet 1.9.1."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.executor_manager import DataParallelExecutorManager, _split_input_slice

RNG = np.random.RandomState(0)
X = RNG.randn(120, 5).astype("float32")
Y = (X[:, 0] > 0).astype("float32")


@pytest.fixture(autouse=True)
def no_deprecation() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def dense(x: mx.sym.Symbol) -> mx.sym.Symbol:
    return mx.sym.FullyConnected(x, num_hidden=2, name="fc")


def mlp() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
    x = mx.sym.BatchNorm(mx.sym.Activation(x, act_type="tanh"), name="bn")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="fc2"), name="softmax")


def model(**options: Any) -> mx.model.FeedForward:
    options = {"num_epoch": 8, "learning_rate": 0.2, "numpy_batch_size": 20, **options}
    return mx.model.FeedForward(mlp(), **options)


# Without a store every context trains alone.
@pytest.mark.parametrize(
    ("contexts", "store"),
    [(1, "local"), (2, "local"), (1, "device"), (2, "device"), (1, None)],
)
def test_training_on_arrays(contexts: int, store: str | None) -> None:
    np.random.seed(0)
    trained = model(ctx=[mx.cpu(i) for i in range(contexts)])
    trained.fit(X, Y, kvstore=store)
    assert trained.score(mx.io.NDArrayIter(X, Y, 20)) > 0.9
    found = trained.predict(X)
    assert found.shape == (120, 2)
    assert ((found.argmax(axis=1) == Y).mean()) > 0.9


def test_predictions_with_data_and_limits() -> None:
    trained = model(num_epoch=1)
    trained.fit(X, Y)
    iterator = mx.io.NDArrayIter(X[:50], Y[:50], 20)
    outputs, data, label = trained.predict(iterator, return_data=True)
    assert outputs.shape == (50, 2)
    np.testing.assert_array_equal(data, X[:50])
    np.testing.assert_array_equal(label, Y[:50])
    assert trained.predict(iterator, num_batch=1).shape == (20, 2)


def test_lines_and_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    batches, epochs, evals = [], [], []
    trained = model(num_epoch=2, ctx=mx.cpu(), numpy_batch_size=40)
    trained.fit(
        mx.io.NDArrayIter(X, Y, 40), eval_data=(X, Y), batch_end_callback=batches.append,
        epoch_end_callback=lambda *args: epochs.append(args), eval_batch_end_callback=evals.append,
    )  # fmt: skip
    lines = [re.sub(r"=\d+\.\d+", "=N", line) for line in caplog.messages]
    epoch = [
        "Epoch[{}] Resetting Data Iterator", "Epoch[{}] Time cost=N",
        "Epoch[{}] Validation-accuracy=N",
    ]  # fmt: skip
    assert lines == ["Start training with [cpu(0)]"] + [t.format(e) for e in (0, 1) for t in epoch]
    assert [(p.epoch, p.nbatch) for p in batches] == [(e, n) for e in (0, 1) for n in (1, 2, 3)]
    assert [args[0] for args in epochs] == [0, 1]
    assert set(epochs[0][2]) == {"fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight",
                                 "fc2_bias"}  # fmt: skip
    assert evals[0].nbatch == 0


def test_epoch_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    batches: list[Any] = []
    trained = model(num_epoch=2, epoch_size=4)
    trained.fit(mx.io.NDArrayIter(X, Y, 40), batch_end_callback=batches.append)
    assert [(p.epoch, p.nbatch) for p in batches] == [(e, n) for e in (0, 1) for n in (1, 2, 3, 4)]


def test_files(tmp_path: Path) -> None:
    trained = model(num_epoch=3)
    trained.fit(X, Y)
    trained.save(str(tmp_path / "m"))
    loaded = mx.model.FeedForward.load(str(tmp_path / "m"), 3, num_epoch=5)
    assert loaded.begin_epoch == 3
    for name, value in trained.arg_params.items():
        np.testing.assert_array_equal(loaded.arg_params[name].asnumpy(), value.asnumpy())
    # Executors for training and for inference may run different kernels.
    np.testing.assert_allclose(loaded.predict(X), trained.predict(X), rtol=1e-6)
    epochs = []
    loaded.fit(X, Y, epoch_end_callback=lambda epoch, *_: epochs.append(epoch))
    assert epochs == [3, 4]


def test_create_with_extra_parameters() -> None:
    trained = mx.model.FeedForward.create(mlp(), X, Y, num_epoch=1, learning_rate=0.1)
    params = {**trained.arg_params, "unknown": nd.ones((1,))}
    again = model(arg_params=params, aux_params=trained.aux_params, allow_extra_params=True)
    assert "unknown" not in again.arg_params
    np.testing.assert_array_equal(again.predict(X), trained.predict(X))


def test_buckets() -> None:
    def generate(length: int) -> mx.sym.Symbol:
        x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, flatten=False, name="fc")
        return mx.sym.SoftmaxOutput(mx.sym.sum(x, axis=1), name="softmax")

    class Buckets(mx.io.DataIter):
        default_bucket_key = 6
        provide_data = [("data", (8, 6, 3))]
        provide_label = [("softmax_label", (8,))]

        def __init__(self) -> None:
            super().__init__(8)
            self.left = 0
            self.reset()

        def reset(self) -> None:
            self.left = 4

        def next(self) -> mx.io.DataBatch:
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            length = 6 if self.left % 2 else 3
            return mx.io.DataBatch(
                [nd.ones((8, length, 3))], [nd.zeros((8,))], pad=0, bucket_key=length,
                provide_data=[("data", (8, length, 3))],
                provide_label=[("softmax_label", (8,))],
            )  # fmt: skip

    trained = mx.model.FeedForward(generate, num_epoch=4, learning_rate=0.1)
    seen: list[Any] = []
    trained.fit(Buckets(), batch_end_callback=seen.append)
    assert len(seen) == 16
    assert seen[-1].eval_metric.get()[1] == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mx.model.FeedForward(3), TypeError, "symbol must be a Symbol"),
        (lambda: model().fit(X), ValueError, "y must be specified"),
        (lambda: model().fit(X, [1, 2]), TypeError, "y must be ndarray"),
        (lambda: model().fit(X, Y[:-1]), ValueError, "not equal: 120 and 119"),
        (lambda: model().fit(X, np.ones((120, 2))), ValueError, "Label must be 1D"),
        (lambda: model().fit([1, 2], Y), TypeError, "X must be DataIter"),
        (lambda: model().fit(X, Y, eval_data=3), TypeError, "Eval data must be DataIter"),
        (
            lambda: model(num_epoch=None).fit(X, Y),
            ValueError,
            "num_epoch must be a number of epochs, got None",
        ),
        (lambda: model().predict(X), mx.MXNetError, "FeedForward: there are no parameters; call f"),
        (
            lambda: mx.model.FeedForward(dense(dense(mx.sym.var("data")))),
            *(ValueError, 'duplicated argument name "fc_weight"'),
        ),
        (lambda: _split_input_slice(2, [1, 1, 1]), ValueError, "Too many slices"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# -- the manager ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "loads", "ends"),
    [(10, [1, 1], [5, 10]), (10, [1, 1, 1], [3, 6, 10]), (10, [3, 1], [8, 10]), (4, [1], [4])],
)
def test_slices(size: int, loads: list[float], ends: list[int]) -> None:
    assert [part.stop for part in _split_input_slice(size, loads)] == ends


def test_wrong_loads_are_refused() -> None:
    data = mx.io.NDArrayIter(X, Y, 20)
    with pytest.raises(AssertionError, match="work load"):
        DataParallelExecutorManager(mlp(), [mx.cpu()], data, [], [], [], work_load_list=[1, 2])


def test_the_manager_splits_batches() -> None:
    symbol = mlp()
    names = symbol.list_arguments()
    params = [n for n in names if n not in ("data", "softmax_label")]
    data = mx.io.NDArrayIter(X, Y, 20)
    contexts = [mx.cpu(0), mx.cpu(1)]
    manager = DataParallelExecutorManager(
        symbol, contexts, data, names, params, symbol.list_auxiliary_states(),
        work_load_list=[3, 1],
    )  # fmt: skip
    shapes, _, aux_shapes = symbol.infer_shape(data=(20, 5))
    values = {n: nd.random.normal(shape=s) for n, s in zip(names, shapes) if n in params}
    aux = {n: nd.ones(s) for n, s in zip(symbol.list_auxiliary_states(), aux_shapes)}
    manager.set_params(values, aux)
    batch = data.next()
    manager.load_data_batch(batch)
    manager.forward(is_train=False)
    metric = mx.metric.Accuracy()
    manager.update_metric(metric, batch.label)
    assert metric.num_inst == 20
    assert [e.outputs[0].shape for e in manager.execgrp.train_execs] == [(15, 2), (5, 2)]
    manager.forward(is_train=True)
    manager.backward()
    assert [[g.shape for g in block] for block in manager.grad_arrays][0] == [(8, 5), (8, 5)]
    copies = {n: nd.zeros(v.shape) for n, v in values.items()}
    manager.copy_to(copies, {n: nd.zeros(v.shape) for n, v in aux.items()})
    np.testing.assert_allclose(copies["fc1_weight"].asnumpy(), values["fc1_weight"].asnumpy())


# -- old contributions ---------------------------------------------------------------------------


def test_contrib_autograd() -> None:
    from mxlite.contrib import autograd as old

    def function(a: Any, b: Any) -> Any:
        return a * a + b

    a, b = nd.array([1.0, 2.0]), nd.array([3.0, 4.0])
    grads, outputs = old.grad_and_loss(function)(a, b)
    np.testing.assert_array_equal(outputs.asnumpy(), [4, 8])
    np.testing.assert_array_equal(grads[0].asnumpy(), [2, 4])
    np.testing.assert_array_equal(grads[1].asnumpy(), [1, 1])
    assert len(old.grad(function, argnum=0)(a, b)) == 1
    with pytest.raises(TypeError, match="should NDArray"):
        old.grad(function)(a, 3)
    with old.train_section():
        assert mx.autograd.is_recording()
        with old.test_section():
            assert not mx.autograd.is_recording()
    assert not mx.autograd.is_recording()


def test_a_data_loader_for_modules() -> None:
    from mxlite.contrib.io import DataLoaderIter

    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(X[:25], Y[:25]), 10)
    iterator = DataLoaderIter(loader)
    batches = list(iterator)
    assert [batch.pad for batch in batches] == [0, 0, 5]
    assert batches[2].data[0].shape == (10, 5)
    np.testing.assert_array_equal(batches[2].data[0].asnumpy()[:5], X[20:25])
    iterator.reset()
    module = mx.mod.Module(mlp())
    module.fit(iterator, num_epoch=1)


def test_metrics_for_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    from mxlite.contrib.tensorboard import LogMetricsCallback

    written = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def add_scalar(self, name: str, value: float, global_step: int) -> None:
            written.append((name, value, global_step))

    fake = types.ModuleType("mxboard")
    fake.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mxboard", fake)
    metric = mx.metric.Accuracy()
    metric.update([nd.array([0, 1])], [nd.array([0, 0])])
    callback = LogMetricsCallback("logs", prefix="train")
    callback(mx.model.BatchEndParam(3, 0, metric, None))
    assert written == [("train-accuracy", 0.5, 3)]
    callback(mx.model.BatchEndParam(3, 0, None, None))
    monkeypatch.setitem(sys.modules, "mxboard", None)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(NotImplementedError, match="install mxboard or tensorboardX"):
        LogMetricsCallback("logs")


def test_old_schedulers(caplog: pytest.LogCaptureFixture) -> None:
    from mxlite import misc

    caplog.set_level(logging.INFO)
    schedule = misc.FactorScheduler(10, 0.5)
    assert [schedule(i) for i in (0, 9, 10, 25)] == [0.01, 0.01, 0.005, 0.0025]
    assert "At Iteration [10]: Swith to new learning rate 0.00500" in caplog.messages
    for options in ({"step": 0}, {"step": 1, "factor": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            misc.FactorScheduler(**options)


def test_descriptions_of_data_are_those_of_modules() -> None:
    class Pairs:
        provide_data = (("data", [4, 3]),)  # a list as shape, as some iterators give it
        provide_label = (("softmax_label", (4,)),)

    class Bad:
        provide_data = ("data",)
        provide_label = ()

    net = mx.sym.SoftmaxOutput(dense(mx.sym.var("data")), name="softmax")
    model = mx.model.FeedForward(net, ctx=mx.cpu(), arg_params={}, aux_params={})
    names, _, _ = model._init_params([*Pairs.provide_data, *Pairs.provide_label])
    assert names[0] == "data"
    with pytest.raises(TypeError, match="each array must be .*got 'data'"):
        model._init_params(Bad.provide_data)
