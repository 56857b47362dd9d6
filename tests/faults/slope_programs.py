"""Programs that slopes.py repeats: what each leaves behind must be nothing.

Each entry of ``PROGRAMS`` is a function that takes a folder for its files and returns the function
of one cycle, which takes the number of the cycle.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn

Cycle = Callable[[int], None]
PROGRAMS: dict[str, Callable[[str], Cycle]] = {}


def program(make: Callable[[str], Cycle]) -> Callable[[str], Cycle]:
    """Enter the program into the table."""
    PROGRAMS[make.__name__] = make
    return make


def network() -> nn.HybridSequential:
    """Return a small network of convolution, batch norm, dropout and dense layers."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(), nn.Flatten(), nn.Dropout(0.3), nn.Dense(10))
    net.initialize()
    return net


def images(count: int = 4) -> mx.nd.NDArray:
    """Return random images of 8 x 8 pixels."""
    return mx.nd.random.uniform(shape=(count, 3, 8, 8))


def train_step(net: Any, trainer: Any, data: Any) -> None:
    """Train one step."""
    with autograd.record():
        loss = (net(data) ** 2).mean()
    loss.backward()
    trainer.step(data.shape[0])


@program
def training(folder: str) -> Cycle:
    """A hybridized network in one long training."""
    net = network()
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-4})
    data = images()
    return lambda i: train_step(net, trainer, data)


@program
def eager_training(folder: str) -> Cycle:
    """The same step by step, without a graph."""
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    return lambda i: train_step(net, trainer, images(1 + i % 5))


@program
def new_networks(folder: str) -> Cycle:
    """A network that is made, trained for a step and dropped."""

    def cycle(i: int) -> None:
        net = network()
        net.hybridize()
        train_step(net, gluon.Trainer(net.collect_params(), "sgd"), images())

    return cycle


@program
def export_import(folder: str) -> Cycle:
    """Export, import, predict."""
    net = network()
    net.hybridize()
    data = images()
    expected = net(data).asnumpy()
    prefix = os.path.join(folder, "net")

    def cycle(i: int) -> None:
        net.export(prefix)
        loaded = gluon.SymbolBlock.imports(
            prefix + "-symbol.json", ["data"], prefix + "-0000.params"
        )
        np.testing.assert_allclose(loaded(data).asnumpy(), expected, rtol=1e-4, atol=1e-5)

    return cycle


@program
def modules(folder: str) -> Cycle:
    """A Module that is bound, trained, reshaped and dropped."""
    data = mx.sym.var("data")
    dense = mx.sym.FullyConnected(data, num_hidden=10, name="dense")
    output = mx.sym.SoftmaxOutput(dense, name="softmax")

    def cycle(i: int) -> None:
        module = mx.mod.Module(output)
        module.bind([("data", (4, 20))], [("softmax_label", (4,))])
        module.init_params()
        module.init_optimizer(optimizer_params={"learning_rate": 0.1})
        for count in (4, 2):
            batch = mx.io.DataBatch([mx.nd.ones((count, 20))], [mx.nd.zeros((count,))])
            module.forward_backward(batch)
            module.update()
        module.get_outputs()[0].wait_to_read()

    return cycle


@program
def symbols(folder: str) -> Cycle:
    """Composition, inference, JSON both ways, an executor."""

    def cycle(i: int) -> None:
        a, b = mx.sym.var("a"), mx.sym.var("b")
        c = mx.sym.load_json((mx.sym.dot(a, b).tanh() + i % 7).tojson())
        c.infer_shape(a=(3, 4), b=(4, 5))
        executor = c.simple_bind(mx.cpu(), a=(3, 4), b=(4, 5))
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3, 5)))
        executor.grad_arrays[0].wait_to_read()

    return cycle


@program
def record_iterators(folder: str) -> Cycle:
    """An image iterator that is dropped after one batch."""
    path = os.path.join(folder, "images.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    pixels = np.arange(16 * 16 * 3, dtype="uint8").reshape(16, 16, 3)
    for i in range(32):
        writer.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, i, 0), pixels))
    writer.close()

    def cycle(i: int) -> None:
        batches = mx.io.ImageRecordIter(
            path_imgrec=path, data_shape=(3, 16, 16), batch_size=4, preprocess_threads=2
        )
        next(iter(batches)).data[0].wait_to_read()

    return cycle


@program
def files(folder: str) -> Cycle:
    """Arrays that are written and read."""
    path = os.path.join(folder, "arrays.params")
    arrays = {"a": mx.nd.ones((30, 40)), "b": mx.nd.arange(100).astype("int32")}

    def cycle(i: int) -> None:
        mx.nd.save(path, arrays)
        assert set(mx.nd.load(path)) == {"a", "b"}

    return cycle


class Square(mx.operator.CustomOp):
    """The square, in Python."""

    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("slope_square")
class SquareProp(mx.operator.CustomOpProp):
    """Describes Square."""

    def __init__(self) -> None:
        super().__init__(need_top_grad=True)

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Square:
        return Square()


@program
def custom_operators(folder: str) -> Cycle:
    """An operator in Python, forward and backward."""

    def cycle(i: int) -> None:
        x = mx.nd.arange(12)
        x.attach_grad()
        with autograd.record():
            y = mx.nd.Custom(x, op_type="slope_square").sum()
        y.backward()
        x.grad.wait_to_read()

    return cycle


@program
def second_gradients(folder: str) -> Cycle:
    """A gradient of a gradient, and a recorded graph that nobody runs back."""

    def cycle(i: int) -> None:
        x = mx.nd.arange(12)
        x.attach_grad()
        with autograd.record():
            first = autograd.grad((x**3).sum(), x, create_graph=True, retain_graph=True)[0]
            unused = (x * 2).exp()
        first.backward()
        unused.wait_to_read()

    return cycle


@program
def sparse_training(folder: str) -> Cycle:
    """Row-sparse gradients of an embedding."""
    net = nn.Embedding(1000, 8, sparse_grad=True)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    return lambda i: train_step(net, trainer, mx.nd.array([[i % 1000, (7 * i) % 1000]]))


@program
def stores(folder: str) -> Cycle:
    """A local store that is made, used and dropped."""

    def cycle(i: int) -> None:
        store = mx.kv.create("local")
        store.init("w", mx.nd.ones((10, 10)))
        store.push("w", [mx.nd.ones((10, 10))] * 2)
        out = mx.nd.zeros((10, 10))
        store.pull("w", out=out)
        out.wait_to_read()

    return cycle


@program
def threads(folder: str) -> Cycle:
    """A thread that computes, records and ends."""

    def work() -> None:
        x = mx.nd.ones((5, 5))
        x.attach_grad()
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        x.grad.wait_to_read()

    def cycle(i: int) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return cycle


@program
def errors(folder: str) -> Cycle:
    """Calls that are refused at once, and one whose kernel fails."""

    def cycle(i: int) -> None:
        for call in (
            lambda: mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))),
            lambda: mx.nd.linalg.potrf(-mx.nd.ones((1, 2, 2))).wait_to_read(),
            lambda: mx.nd.load(os.path.join(folder, "missing.params")),
        ):
            try:
                call()
            except (ValueError, mx.MXNetError, OSError):
                continue
            raise AssertionError("an error was expected")

    return cycle


@program
def lengths(folder: str) -> Cycle:
    """A recurrent layer over sequences of 64 lengths."""
    layer = gluon.rnn.LSTM(8)
    layer.initialize()
    layer.hybridize()
    return lambda i: layer(mx.nd.ones((1 + i % 64, 2, 4))).wait_to_read()


@program
def profiles(folder: str) -> Cycle:
    """A profile of a few calls."""
    mx.profiler.set_config(profile_all=True, filename=str(Path(folder, "profile.json")))

    def cycle(i: int) -> None:
        mx.profiler.set_state("run")
        (mx.nd.ones((4, 4)) + 1).wait_to_read()
        mx.profiler.set_state("stop")
        mx.profiler.dumps(reset=True)
        mx.profiler.dump()  # forgets what it has written

    return cycle
