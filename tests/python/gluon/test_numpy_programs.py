"""Programs in the style of books on numpy mode: from scratch, as classes, eager and hybridized."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd, gluon, np, npx
from mxlite.gluon import nn


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    np.random.seed(1)
    yield
    npx.reset_np()


def _blobs(n: int = 60) -> tuple[Any, Any]:
    """Return points around three centers, and their classes."""
    rng = onp.random.RandomState(0)
    labels = onp.arange(n) % 3
    centers = onp.array([[2, 0], [-2, 1], [0, -3]])
    return (centers[labels] + 0.3 * rng.randn(n, 2)).astype("float32"), labels.astype("int32")


def test_softmax_regression_from_scratch():
    features, labels = (np.array(a, dtype=a.dtype) for a in _blobs())
    w, b = np.random.normal(0, 0.01, (2, 3)), np.zeros(3)
    w.attach_grad()
    b.attach_grad()

    def softmax(scores: Any) -> Any:
        exp = np.exp(scores)
        return exp / exp.sum(1, keepdims=True)

    def net(x: Any) -> Any:
        return softmax(np.dot(x.reshape((-1, w.shape[0])), w) + b)

    losses = []
    for _ in range(60):
        with autograd.record():
            loss = -np.log(net(features)[np.arange(len(labels)), labels])
        loss.backward()
        for param in (w, b):
            param[:] = param - 0.5 * param.grad / len(labels)
        losses.append(float(loss.mean()))
    predicted = net(features).argmax(axis=1)
    accuracy = float((predicted.astype(labels.dtype) == labels).sum()) / len(labels)
    assert losses[0] == pytest.approx(math.log(3), abs=0.1) and losses[-1] < 0.1
    assert accuracy == 1.0


class _Module(gluon.HybridBlock):
    """A base class with loss and optimizer, as d2l's Module."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr

    def loss(self, y_hat: Any, y: Any) -> Any:
        return gluon.loss.SoftmaxCrossEntropyLoss()(y_hat, y).mean()

    def configure_optimizers(self) -> gluon.Trainer:
        return gluon.Trainer(self.collect_params(), "sgd", {"learning_rate": self.lr})

    def fit(self, loader: Any, epochs: int) -> float:
        trainer, loss = self.configure_optimizers(), None
        for _ in range(epochs):
            for x, y in loader:
                with autograd.record():
                    loss = self.loss(self(x), y)
                loss.backward()
                trainer.step(1)
        return float(loss)


class _Mlp(_Module):
    def __init__(self, lr: float = 0.2) -> None:
        super().__init__(lr)
        self.net = nn.HybridSequential()
        self.net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dense(3))

    def forward(self, x: Any) -> Any:
        return self.net(x - np.mean(x, axis=1, keepdims=True) * 0.1)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_module_class_trains(hybridize: bool):
    model = _Mlp()
    model.initialize(mx.init.Xavier())
    if hybridize:
        model.hybridize()
    data = gluon.data.ArrayDataset(*_blobs())
    assert model.fit(gluon.data.DataLoader(data, 20, shuffle=True), 20) < 0.1
    assert type(model.net[0].weight.data()) is np.ndarray


class _RnnScratch(gluon.HybridBlock):
    """A recurrent network whose steps are written with np functions."""

    def __init__(self, num_inputs: int, num_hiddens: int) -> None:
        super().__init__()
        self.num_hiddens = num_hiddens
        with self.name_scope():
            self.w_xh = self.params.get("w_xh", shape=(num_inputs, num_hiddens))
            self.w_hh = self.params.get("w_hh", shape=(num_hiddens, num_hiddens))
            self.b_h = self.params.get("b_h", shape=(num_hiddens,), init="zeros")

    def forward(self, inputs: Any) -> Any:
        state, outputs = np.zeros((inputs.shape[1], self.num_hiddens)), []
        for x in inputs:
            state = np.tanh(
                np.dot(x, self.w_xh.data()) + np.dot(state, self.w_hh.data()) + self.b_h.data()
            )
            outputs.append(state)
        return np.stack(outputs), state


def test_a_recurrent_network_from_scratch_matches_the_layer():
    net = _RnnScratch(4, 5)
    net.initialize(mx.init.Normal(0.3))
    x = np.random.normal(size=(6, 2, 4))
    expected, state = net(x)
    net.hybridize()
    found, last = net(x)
    onp.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    assert expected.shape == (6, 2, 5) and type(last) is np.ndarray
    layer = gluon.rnn.RNN(5, activation="tanh", input_size=4)
    layer.initialize("zeros")
    layer.l0_i2h_weight.set_data(net.w_xh.data().T)
    layer.l0_h2h_weight.set_data(net.w_hh.data().T)
    onp.testing.assert_allclose(layer(x).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    onp.testing.assert_allclose(state.asnumpy(), expected[-1].asnumpy(), rtol=1e-5, atol=1e-6)


class _Attention(gluon.HybridBlock):
    """Scaled dot product attention over valid keys, with a projection of the queries."""

    def __init__(self, units: int) -> None:
        super().__init__()
        with self.name_scope():
            self.project = nn.Dense(units, flatten=False, use_bias=False)
            self.dropout = nn.Dropout(0.0)

    def forward(self, queries: Any, keys: Any, values: Any, valid_lens: Any) -> Any:
        scores = npx.batch_dot(self.project(queries), keys, transpose_b=True)
        scores = scores / math.sqrt(keys.shape[-1])
        steps = np.arange(keys.shape[1]).reshape((1, 1, -1))
        weights = npx.masked_softmax(scores, steps < valid_lens.reshape((-1, 1, 1)))
        return npx.batch_dot(self.dropout(weights), values)


class _ClassicAttention(_Attention):
    """The same with hybrid_forward."""

    def hybrid_forward(self, F: Any, queries: Any, keys: Any, values: Any, valid_lens: Any) -> Any:  # noqa: N803
        scores = F.npx.batch_dot(self.project(queries), keys, transpose_b=True) / math.sqrt(4)
        weights = F.npx.softmax(scores, length=valid_lens, use_length=True)
        return F.npx.batch_dot(weights, values)

    forward = gluon.HybridBlock.forward  # type: ignore[assignment]


def test_attention_with_masked_softmax(tmp_path: Path):
    queries, keys, values = (np.random.normal(size=(2, n, 4)) for n in (3, 5, 5))
    lengths = np.array([2, 5], dtype="int32")
    nets = [_Attention(4), _ClassicAttention(4)]
    for net in nets:
        net.initialize()
        net(queries, keys, values, lengths if net is nets[0] else _rows(lengths))
    nets[1].project.weight.set_data(nets[0].project.weight.data())
    weight = nets[0].project.weight.data().asnumpy()
    scores = onp.einsum("bqi,oi,bko->bqk", queries.asnumpy(), weight, keys.asnumpy()) / 2
    scores[0, :, 2:] = -onp.inf
    parts = onp.exp(scores - scores.max(-1, keepdims=True))
    expected = (parts / parts.sum(-1, keepdims=True)) @ values.asnumpy()
    for net in nets:
        grads = []
        for hybridize in (False, True):
            net.hybridize(hybridize)
            with autograd.record():
                found = net(queries, keys, values, lengths if net is nets[0] else _rows(lengths))
            found.backward()
            onp.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-5)
            grads.append(net.project.weight.grad().asnumpy())
        onp.testing.assert_allclose(*grads, rtol=1e-4, atol=1e-5)


def _rows(lengths: Any) -> Any:
    """Return one length for each query."""
    return np.broadcast_to(lengths.reshape((2, 1)), (2, 3))


@pytest.mark.parametrize("style", ["forward", "hybrid_forward"])
def test_exported_blocks_give_np_arrays(style: str, tmp_path: Path):
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.dense = nn.Dense(3, in_units=4)
                self.scale = self.params.get("scale", shape=(3,), init="ones")

        if style == "forward":

            def forward(self, x: Any) -> Any:
                y = npx.relu(self.dense(x)) * self.scale.data()
                return np.where(y > 0.1, y, np.exp(y) * 0.5).sum()

        else:

            def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:  # noqa: N803
                y = F.npx.relu(self.dense(x)) * scale
                return F.np.where(y > 0.1, y, F.np.exp(y) * 0.5).sum()

    net = Net()
    net.initialize(mx.init.Uniform(1))
    net.hybridize()
    x = np.random.normal(size=(2, 4))
    expected = net(x)
    assert expected.shape == ()
    symbol_file, params_file = net.export(str(tmp_path / "net"))
    assert '"is_np_shape": ["int", 1]' in Path(symbol_file).read_text()
    loaded = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
    found = loaded(x)
    assert type(found) is np.ndarray and found.shape == ()
    onp.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)
