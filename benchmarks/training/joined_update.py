"""Measures how much faster a step would be if backward's executable ran the update, too.

    python benchmarks/training/joined_update.py --json out.json

Multi-layer perceptrons are trained by SGD with momentum, with the gradients written out by hand in
one hybridized block, so that the update can be inside of the block (joined) or follow it as one
operator call (separate); "no update" is the block alone. Both give the same weights, bit by bit.
The three take turns. `--resnet` also times the update of ResNet-50's weights by one set of calls,
all of which a joined update could save, beside a whole step of `--batch` images.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import Timing, report, result, table, write_json

NETWORKS = [(16, 2, 4), (64, 2, 32), (256, 3, 64)]  # units, hidden layers, batch
RATE, MOMENTUM = 1e-3, 0.9


def perceptron(mx: Any, sizes: list[int], batch: int, joined: bool) -> tuple[Any, Any, list[Any]]:
    """Return functions that do a step and one without update, and a list that holds the weights."""
    nd, layers = mx.nd, len(sizes) - 1
    random = np.random.RandomState(0)
    weights = [nd.array(random.randn(n, k) * 0.1) for k, n in zip(sizes, sizes[1:])]
    weights += [nd.zeros(n) for n in sizes[1:]]
    momenta = [nd.zeros(weight.shape) for weight in weights]
    images = nd.array(random.randn(batch, sizes[0]))
    labels = nd.array(random.randint(0, sizes[-1], batch))
    options = {
        "lrs": [RATE] * len(weights),
        "wds": [0.0] * len(weights),
        "momentum": MOMENTUM,
        "rescale_grad": 1 / batch,
        "num_weights": len(weights),
    }

    def inputs_of(values: Any, grads: Any) -> list[Any]:
        return [array for group in zip(values, grads, momenta) for array in group]

    class Step(mx.gluon.HybridBlock):
        """Gradients of the cross entropy, or the new weights."""

        def hybrid_forward(self, F: Any, x: Any, y: Any, *values: Any) -> Any:
            matrices, biases = values[:layers], values[layers:]
            outputs = [x]
            for i in range(layers):
                out = F.FullyConnected(outputs[-1], matrices[i], biases[i], num_hidden=sizes[i + 1])
                outputs.append(F.relu(out) if i < layers - 1 else out)
            grad = F.softmax(outputs.pop()) - F.one_hot(y, depth=sizes[-1])
            grads: list[Any] = [None] * (2 * layers)
            for i in reversed(range(layers)):
                grads[i] = F.dot(grad, outputs[i], transpose_a=True)
                grads[layers + i] = F.sum(grad, axis=0)
                if i:
                    grad = F.dot(grad, matrices[i]) * (outputs[i] > 0)
            if not joined:
                return grads
            return F.multi_sgd_mom_update(*inputs_of(values, grads), **options)

    block = Step()
    block.hybridize(static_alloc=True, static_shape=True)
    update = mx._core.op("multi_sgd_mom_update")
    held = [weights]

    def step() -> None:
        results = block(images, labels, *held[0])
        if joined:
            held[0] = list(results)
        else:
            update(*inputs_of(held[0], results), out=held[0], **options)

    return step, lambda: block(images, labels, *held[0]), held


def seconds_of(mx: Any, step: Callable[[], Any], count: int) -> float:
    """Return the seconds of one of `count` steps."""
    for _ in range(5):
        step()
    mx.nd.waitall()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    mx.nd.waitall()
    return (time.perf_counter() - begin) / count


def compare_perceptrons(mx: Any, repeat: int, count: int) -> list[dict[str, Any]]:
    """Measure all networks."""
    results = []
    for units, hidden, batch in NETWORKS:
        sizes = [units] * (hidden + 1) + [10]
        separate, bare, weights = perceptron(mx, sizes, batch, joined=False)
        joined, _, others = perceptron(mx, sizes, batch, joined=True)
        for _ in range(10):
            separate()
            joined()
        for one, other in zip(weights[0], others[0]):
            np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())
        forms = {"separate": separate, "joined": joined, "no update": bare}
        times: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(repeat):
            for name, step in forms.items():
                times[name].append(seconds_of(mx, step, count))
        for name, seconds in times.items():
            label = f"perceptron {units} x {hidden}, batch {batch}, {name}"
            results.append(result(label, Timing(seconds), unit="us", amount=1e6))
    return results


def measure_resnet(mx: Any, batch: int, repeat: int) -> list[dict[str, Any]]:
    """Measure a step of ResNet-50 and the update in it."""
    from mxlite.gluon.model_zoo.vision import resnet50_v1b

    net = resnet50_v1b()
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": MOMENTUM}
    )
    images = mx.nd.random.uniform(shape=(batch, 3, 224, 224))
    labels = mx.nd.zeros(batch)
    whole, update, host = [], [], []
    for _ in range(repeat + 2):
        begin = time.perf_counter()
        with mx.autograd.record():
            value = loss(net(images), labels)
        value.backward()
        mx.nd.waitall()
        ready, host_begin = time.perf_counter(), time.thread_time()
        trainer.step(batch)
        host.append(time.thread_time() - host_begin)
        mx.nd.waitall()
        end = time.perf_counter()
        whole.append(end - begin)
        update.append(end - ready)
    parts = {"whole step": whole, "update": update, "host part of the update": host}
    return [
        result(f"resnet-50 batch {batch}, {name}", Timing(times[2:]), unit="ms", amount=1e3)
        for name, times in parts.items()
    ]


def main() -> None:
    """Measure and print a table."""
    import mxlite as mx

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--count", type=int, default=300, help="steps of a measurement")
    parser.add_argument("--resnet", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    add_options(parser, "json")
    arguments = parser.parse_args()
    results = compare_perceptrons(mx, arguments.repeat, arguments.count)
    if arguments.resnet:
        results += measure_resnet(mx, arguments.batch, max(3, arguments.repeat // 3))
    rows = [[entry["name"], entry["unit"], f"{entry['median']:.2f}"] for entry in results]
    print(table(["what", "unit", "median"], rows))
    if arguments.json:
        settings = {key: getattr(arguments, key) for key in ("repeat", "count", "batch")}
        write_json(arguments.json, report("joined_update", settings, results))


if __name__ == "__main__":
    main()
