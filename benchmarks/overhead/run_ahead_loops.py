"""Prints by how many MiB one loop that never waits raises the peak of the resident memory.

It also runs on Python 3.8 with MXNet 1.9.1: ``run_ahead_loops.py PACKAGE LOOP``.
"""

from __future__ import annotations

import importlib
import resource
import sys
from typing import Any, Callable

import numpy as np

# Runs the given number of steps of a loop.
Steps = Callable[[int], None]


def chain(mx: Any) -> Steps:
    """Each step computes an array of 1 MB from the array of the step before."""
    nd = mx.nd

    def run(steps: int) -> None:
        x = nd.ones((4000, 64))
        for _ in range(steps):
            x = nd.tanh(x) * 0.5

    return run


def unread(mx: Any) -> Steps:
    """The program never reads the outputs of a layer, 1 MiB each."""
    net = mx.gluon.nn.Dense(1024, in_units=64)
    net.initialize()
    x = mx.nd.ones((256, 64))

    def run(steps: int) -> None:
        for _ in range(steps):
            y = net(x)  # noqa: F841 - dropped by the next step

    return run


def training(mx: Any) -> Steps:
    """Training steps of a perceptron; the program never reads the loss."""
    gluon = mx.gluon
    net = gluon.nn.Sequential()
    with net.name_scope():
        for units in (256, 256):
            net.add(gluon.nn.Dense(units, activation="relu"))
        net.add(gluon.nn.Dense(10))
    net.initialize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    x, y = mx.nd.ones((1024, 128)), mx.nd.zeros((1024,))

    def run(steps: int) -> None:
        for _ in range(steps):
            with mx.autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(1024)

    return run


def recurrent(mx: Any) -> Steps:
    """An LSTM cell is called step by step; only the last state is kept."""
    cell = mx.gluon.rnn.LSTMCell(256, input_size=64)
    cell.initialize()
    x = mx.nd.ones((256, 64))

    def run(steps: int) -> None:
        state = cell.begin_state(256)
        for _ in range(steps):
            _, state = cell(x, state)

    return run


def batches(mx: Any) -> Steps:
    """Batches of 1 MiB are made from slices of a NumPy array; a sum is updated in place."""
    data = np.ones((512, 1024), dtype=np.float32)
    weight, total = mx.nd.ones((1024, 64)), mx.nd.zeros((256, 64))

    def run(steps: int) -> None:
        nonlocal total
        for step in range(steps):
            first = step % 2 * 256
            total += mx.nd.tanh(mx.nd.dot(mx.nd.array(data[first : first + 256]), weight))

    return run


# Name: the loop, its number of steps.
LOOPS: dict[str, tuple[Callable[[Any], Steps], int]] = {
    "chain": (chain, 2000),
    "unread": (unread, 300),
    "training": (training, 200),
    "recurrent": (recurrent, 400),
    "batches": (batches, 1000),
}


def main() -> None:
    """Run the loop that the command line names."""

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    mx = importlib.import_module(sys.argv[1])
    make, steps = LOOPS[sys.argv[2]]
    run = make(mx)
    run(2)
    mx.nd.waitall()
    before = peak()
    run(steps)
    mx.nd.waitall()
    print(f"{peak() - before:.1f}")


if __name__ == "__main__":
    main()
