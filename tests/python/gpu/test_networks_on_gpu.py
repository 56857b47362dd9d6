"""Networks on a GPU against the CPU: eager, hybridized, replayed as recorded graphs, trained."""

from __future__ import annotations

import os

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.model_zoo import vision
from pairing import pairs
from processes import run_python
from recording import recorded, variable

needs_graphs = pytest.mark.skipif(
    os.environ.get("MXLITE_CUDA_GRAPHS") == "0", reason="MXLITE_CUDA_GRAPHS=0"
)
STAND_IN = "_gpu.so" in os.environ.get("MXLITE_CUDA_LIBRARY", "")
NETWORKS = ["resnet18_v1", "resnet18_v2", "mobilenet0.25", "mobilenetv2_0.25", "resnet18_v1b"]


def small_net(dropout: float = 0.0) -> nn.HybridSequential:
    net = sequential(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(), nn.Conv2D(16, 3), nn.BatchNorm(), nn.LeakyReLU(0.1))
    net.add(nn.GlobalAvgPool2D(), nn.Dropout(dropout), nn.Dense(10))
    return net


def copy_of(net: gluon.Block, make, path) -> gluon.Block:
    net.save_parameters(str(path))
    other = make()
    other.load_parameters(str(path), ctx=mx.gpu(0))
    return other


@pytest.mark.parametrize("name", NETWORKS)
def test_zoo_networks_score_as_on_the_cpu(name: str, tmp_path) -> None:
    make = lambda: vision.get_model(name, classes=10)  # noqa: E731
    net = ready(make(), mx.init.Xavier())
    x = nd.random.uniform(shape=(2, 3, 64, 64))
    want = net(x).asnumpy()
    there = copy_of(net, make, tmp_path / "net.params")
    np.testing.assert_allclose(there(x.as_in_context(mx.gpu(0))).asnumpy(), want, 1e-3, 1e-4)
    there.hybridize()
    for _ in range(4):
        y = there(x.as_in_context(mx.gpu(0)))
        np.testing.assert_allclose(y.asnumpy(), want, 1e-3, 1e-4)


def train(net: gluon.Block, ctx: mx.Context, data: np.ndarray, labels: np.ndarray, dtype: str):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    losses = []
    for i in range(6):
        x = nd.array(data[i], ctx=ctx, dtype=dtype)
        y = nd.array(labels[i], ctx=ctx)
        error = recorded(lambda x, y: loss(net(x).astype("float32"), y), x, y)
        trainer.step(len(y))
        losses.append(float(error.mean().asscalar()))
    return losses


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_training_follows_the_cpu(hybrid: bool, dtype: str, tmp_path) -> None:
    rng = np.random.RandomState(0)
    data = rng.uniform(size=(6, 8, 3, 12, 12)).astype("float32")
    labels = rng.randint(0, 10, (6, 8)).astype("float32")
    net = ready(small_net(), mx.init.Xavier())
    net(nd.array(data[0]))
    there = copy_of(net, small_net, tmp_path / "net.params")
    for n in (net, there):
        n.cast(dtype)
        n.hybridize(hybrid)
    want = train(net, mx.cpu(), data, labels, dtype)
    got = train(there, mx.gpu(0), data, labels, dtype)
    np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "float32" else 6e-2)


@needs_graphs
def test_repeated_calls_are_replayed_from_a_recorded_graph() -> None:
    net = ready(small_net(), mx.init.Xavier(), ctx=mx.gpu(0), hybridize=True)
    before = mx._core.device_graph_stats()
    results = []
    for i in range(8):
        results.append(net(nd.full((2, 3, 12, 12), i / 8, ctx=mx.gpu(0))).asnumpy())
    after = mx._core.device_graph_stats()
    assert after["replayed"] >= before["replayed"] + 4
    net.hybridize(False)
    for i, result in enumerate(results):
        eager = net(nd.full((2, 3, 12, 12), i / 8, ctx=mx.gpu(0))).asnumpy()
        np.testing.assert_allclose(result, eager, 1e-4, 1e-5)


class LossOf(gluon.HybridBlock):
    """The loss of a network, so that a step is one graph forward and one backward."""

    def __init__(self, net: gluon.Block) -> None:
        super().__init__()
        self.net = net
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def forward(self, x: nd.NDArray, y: nd.NDArray) -> nd.NDArray:
        return self.loss(self.net(x), y)


def losses_of_steps(net: gluon.Block, ctx: mx.Context, steps: int, keep: str) -> list[nd.NDArray]:
    rng = np.random.RandomState(1)
    step = hybridized(LossOf(net))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    kept = []
    for _ in range(steps):
        x = nd.array(rng.uniform(size=(8, 3, 12, 12)), ctx=ctx, dtype="float32")
        y = nd.array(rng.randint(0, 10, 8), ctx=ctx)
        error = recorded(step, x, y)
        trainer.step(8)
        kept.append(error if keep == "all" else error.copy())
        # `error` keeps its array until the next assignment, that is, during the next forward.
    return kept


@needs_graphs
@pytest.mark.parametrize("keep", ["last", "all"])
def test_a_step_is_captured_twice_at_most_while_outputs_are_held(keep: str, tmp_path) -> None:
    steps = 50
    net = ready(small_net(), mx.init.Xavier())
    net(nd.zeros((8, 3, 12, 12)))
    there = copy_of(net, small_net, tmp_path / "net.params")
    want = losses_of_steps(net, mx.cpu(), steps, keep)
    before = mx._core.device_graph_stats()
    # No step waits for the GPU, so the program runs ahead.
    got = losses_of_steps(there, mx.gpu(0), steps, keep)
    for a, b in pairs(got, want):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 2e-3, 1e-3)
    after = mx._core.device_graph_stats()
    executables = 2  # forward and backward
    assert after["recorded"] - before["recorded"] <= 2 * executables
    # These are the first run with each of two blocks of saved values, the first run with copies,
    # and one more run if scratch memory grows.
    assert after["step_by_step"] - before["step_by_step"] <= 4 * executables
    assert after["replayed"] - before["replayed"] >= (steps - 4) * executables


def test_recorded_graphs_that_wait_for_backward_keep_their_values() -> None:
    """Graphs of several calls hold their saved values at the same time."""
    net = sequential(nn.Dense(8, activation="tanh", in_units=4), nn.Dense(1, in_units=8))
    net.initialize(mx.init.Normal(1), ctx=mx.gpu(0))
    net.hybridize()
    data = [nd.full((2, 4), i / 8, ctx=mx.gpu(0)) for i in range(7)]

    def gradients(at_once: int) -> list[np.ndarray]:
        result = []
        for begin in range(0, len(data), at_once):
            inputs = data[begin : begin + at_once]
            for x in inputs:
                x.attach_grad()
            with autograd.record():
                outputs = [net(x) for x in inputs]
            for y in reversed(outputs):
                y.backward()
            result += [x.grad.asnumpy() for x in inputs]
        return result

    alone = gradients(1)
    for at_once in (2, 3, 7, 2, 3, 7):
        for a, b in pairs(gradients(at_once), alone):
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    assert np.abs(alone[0] - alone[6]).max() > 1e-4


def test_results_that_are_kept_are_not_overwritten_by_replays() -> None:
    net = ready(small_net(), mx.init.Xavier(), ctx=mx.gpu(0), hybridize=True)
    kept = [net(nd.full((2, 3, 12, 12), i / 8, ctx=mx.gpu(0))) for i in range(8)]
    again = [net(nd.full((2, 3, 12, 12), i / 8, ctx=mx.gpu(0))).asnumpy() for i in range(8)]
    for a, b in pairs(kept, again):
        np.testing.assert_allclose(a.asnumpy(), b, 1e-5, 1e-6)
    assert np.abs(again[0] - again[7]).max() > 1e-4


def test_dropout_draws_anew_at_each_replay() -> None:
    class Drop(gluon.HybridBlock):
        def forward(self, x: nd.NDArray) -> nd.NDArray:
            return nd.Dropout(x, p=0.5, mode="always") * 2

    net = hybridized(Drop())
    x = nd.ones((1000,), ctx=mx.gpu(0))
    mx.random.seed(3)
    runs = [net(x).asnumpy() for _ in range(6)]
    assert all(np.abs(a - b).max() > 0 for a, b in zip(runs, runs[1:]))
    mx.random.seed(3)
    again = [net(x).asnumpy() for _ in range(6)]
    for a, b in pairs(runs, again):
        np.testing.assert_array_equal(a, b)


def test_parameters_that_are_replaced_are_seen_by_replays() -> None:
    net = ready(nn.Dense(4, in_units=3, use_bias=False), ctx=mx.gpu(0), hybridize=True)
    x = nd.ones((2, 3), ctx=mx.gpu(0))
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        net.weight.set_data(nd.full((4, 3), value))
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), np.full((2, 4), 3 * value), 1e-5)


def test_digits_are_learned_on_the_gpu() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    data = (digits.images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    labels = digits.target.astype("float32")
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(10))
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    for _ in range(4):
        for i in range(0, 1280, 64):
            x = nd.array(data[i : i + 64], ctx=mx.gpu(0))
            y = nd.array(labels[i : i + 64], ctx=mx.gpu(0))
            recorded(lambda x, y: loss(net(x), y), x, y)
            trainer.step(64)
    scores = net(nd.array(data[1280:], ctx=mx.gpu(0))).asnumpy()
    assert (scores.argmax(1) == labels[1280:]).mean() > 0.9


STATISTICS = """
import numpy as np, mxlite as mx
from mxlite import autograd, nd
from mxlite.gluon import nn

class Residual(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(nn.Conv2D(16, 3, padding=1, use_bias=False, in_channels=8),
                      nn.BatchNorm(), nn.Activation("relu"),
                      nn.Conv2D(8, 1, use_bias=False, in_channels=16), nn.BatchNorm())

    def forward(self, x):
        return nd.relu(self.body(x) + x)

net = Residual()
net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
net.cast("float16")
x = nd.array(np.random.RandomState(0).uniform(-1, 2, (4, 8, 6, 6)), ctx=mx.gpu(0), dtype="float16")
net(x)  # completes the shapes

def step():
    for block in net.body:
        if isinstance(block, nn.BatchNorm):
            block.running_mean.set_data(nd.zeros(block.running_mean.shape))
            block.running_var.set_data(nd.ones(block.running_var.shape))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    arrays = [y, x.grad]
    for p in net.collect_params().values():
        arrays.append(p.data() if p.grad_req == "null" else p.grad())
    return [a.asnumpy().astype("float64") for a in arrays]

separate = step()
net.hybridize()
for _ in range(4):  # step by step and as a recorded graph
    for got, want in zip(step(), separate, strict=True):
        np.testing.assert_allclose(got, want, 2e-2, 2e-2 * np.abs(want).max())
        assert np.abs(want).max() > 1e-3
"""


def test_convolutions_add_up_channels_for_batch_norm(tmp_path) -> None:
    environment = {"MXLITE_DUMP_GRAPH": str(tmp_path), "MXLITE_VERBOSE": "dispatch"}
    environment["MXLITE_VERIFY_GRAPH"] = "1"
    done = run_python("-c", STATISTICS, environment=environment)
    texts = [f.read_text() for f in tmp_path.glob("*_fuse-statistics.txt")]
    assert max(text.count("_convolution_batch_norm") for text in texts) >= 2
    if not STAND_IN and "BatchNorm reads the output for its sums" in done.stderr:
        pytest.skip("cuDNN has no engine that sums channels for these sizes, which costs time only")


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_images_of_few_channels_in_half_types(dtype: str, channels: int, tmp_path) -> None:
    """Hybridized, such images and weights get channels of zeros; float32 on the CPU does not."""

    def make() -> nn.HybridSequential:
        first = nn.Conv2D(8, 3, strides=2, padding=1, use_bias=False, in_channels=channels)
        return sequential(first, nn.BatchNorm(in_channels=8))

    shape = (4, channels, 11, 9)
    rng = np.random.RandomState(3)
    image = nd.array(rng.uniform(-1, 1, shape)).astype(dtype).astype("float32").asnumpy()
    net = ready(make(), mx.init.Xavier())
    net[0].weight.set_data(net[0].weight.data().astype(dtype).astype("float32"))
    there = copy_of(net, make, tmp_path / "net.params")
    there.cast(dtype)
    there.hybridize()

    def results(block: gluon.Block, ctx: mx.Context, kind: str) -> list[np.ndarray]:
        x = variable(nd.array(image, ctx=ctx, dtype=kind))
        with autograd.record():
            y = block(x)
            loss = (y * y * y).sum()  # the sum of squares behind BatchNorm has no gradient
        loss.backward()
        weight = block[0].weight
        arrays = [block(x), y, x.grad, weight.grad()]
        assert weight.grad().shape == (8, channels, 3, 3)
        return [array.astype("float32").asnumpy() for array in arrays]

    expected = results(net, mx.cpu(), "float32")
    tolerance = 1e-2 if dtype == "float16" else 6e-2
    for _ in range(3):  # step by step and as a recorded graph
        got = results(there, mx.gpu(0), dtype)
        for array, want in zip(got[1:], expected[1:], strict=True):
            np.testing.assert_allclose(array, want, tolerance, tolerance * np.abs(want).max())
    # The moving statistics of one step on the CPU are not those of three steps on the GPU.
    there[1].running_mean.set_data(net[1].running_mean.data())
    there[1].running_var.set_data(net[1].running_var.data())
    score = there(nd.array(image, ctx=mx.gpu(0), dtype=dtype)).astype("float32").asnumpy()
    np.testing.assert_allclose(score, expected[0], tolerance, tolerance * np.abs(expected[0]).max())
