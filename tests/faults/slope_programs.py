"""Programs that slopes.py repeats. Each must release all of its memory.

Each entry of ``PROGRAMS`` is a function that takes a folder for its files and returns the function
of one cycle, which takes the number of the cycle.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Callable

import memory_programs
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


# Programs that create all of their objects in each cycle.
for _name in ("hybrid", "symbols", "module", "files", "custom", "sparse", "store", "loops"):
    _function = getattr(memory_programs, _name)
    PROGRAMS[f"new_{_name}"] = lambda folder, run=_function: lambda i: run()
