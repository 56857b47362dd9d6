"""Time and error of pushing and pulling a network's gradients through a store.

    python benchmarks/bandwidth/measure.py --network resnet --num-layers 200 --devices cpu:2
    mpirun -np 2 python benchmarks/bandwidth/measure.py --kv-store dist_sync --devices cpu:1
    python tools/launch.py -n 2 -s 2 --launcher local python benchmarks/bandwidth/measure.py \
        --kv-store dist_sync --devices cpu:1

Options and printed lines are those of MXNet's script. The printed bandwidth is that of an
all-reduce, 2 (n - 1) / n * size / time. As in that script, n is the number of devices of this
process, or the number of processes if each has one device. One device of one process prints size /
time.

The last line compares with copying: in a push and a pull each device must at least exchange
2 (n - 1) / n * size with the others, and get a copy of the sum that the store keeps, size. The
share is the time of this copying, at the rate at which all devices of all processes copy memory
together, divided by the measured time.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import mxlite as mx
import numpy as np

HERE = Path(__file__).resolve()
sys.path += [str(HERE.parents[1]), str(HERE.parents[2] / "examples" / "image_classification")]

logger = logging.getLogger()
logger.setLevel(logging.INFO)


class Results(NamedTuple):
    """One printed line."""

    iter: int
    time: float
    bandwidth: float
    error: float


def parse_args(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    p = argparse.ArgumentParser(description="command for benchmark kv-store")
    p.add_argument("--network", default="resnet", help="the neural network to test")
    p.add_argument("--gpus", help='the gpus to be used, e.g "0,1,2,3"; 1.x: 0,1')
    p.add_argument("--devices", help="contexts instead of --gpus: cpu:2 are cpu(0) and cpu(1)")
    p.add_argument("--num-layers", type=int, default=152, help="number of layers, for resnet")
    p.add_argument("--kv-store", default="device", help="the kvstore type")
    p.add_argument("--num-batches", type=int, default=5, help="number of batches to run")
    p.add_argument(
        "--disp-batches", type=int, default=1, help="show averaged results for every n batches"
    )
    p.add_argument("--test-results", type=int, default=1, help="compare with NumPy's sums")
    p.add_argument("--image-shape", default="3,224,224", help="input images shape")
    p.add_argument("--num-classes", type=int, default=1000, help="number of classes")
    p.add_argument("--optimizer", default="None", help="the optimizer set to kvstore")
    p.add_argument("--gc-type", default="none", help="type of gradient compression")
    p.add_argument("--json", help="result file, written by rank 0")
    args = p.parse_args(arguments)
    logging.info(args)
    return args


def contexts_of(gpus: str | None, devices: str | None) -> list[Any]:
    """Return the contexts that the options name."""
    if devices:
        kind, _, count = devices.partition(":")
        if kind not in ("cpu", "gpu") or not (count or "1").isdigit() or count == "0":
            raise SystemExit(f"--devices must be cpu:COUNT or gpu:COUNT, got {devices!r}")
        return [mx.Context(kind, i) for i in range(int(count or 1))]
    if gpus is None and mx.context.num_gpus() == 0:
        logging.warning("no GPU here: cpu(0) and cpu(1) are used, as with --devices cpu:2")
        return [mx.cpu(0), mx.cpu(1)]
    return [mx.gpu(int(number)) for number in (gpus or "0,1").split(",")]


def shapes_of(network: str, image_shape: str, **kwargs: Any) -> list[tuple[int, ...]]:
    """Return the shapes of a network's weights and biases."""
    module = import_module("symbols." + network.replace("-", "_"))
    symbol = module.get_symbol(image_shape=image_shape, **kwargs)
    data_shape = (32, *map(int, image_shape.split(",")))
    shapes, _, _ = symbol.infer_shape(data=data_shape)
    names = symbol.list_arguments()
    return [s for n, s in zip(names, shapes) if "weight" in n or "bias" in n]


def relative_error(found: list[list[Any]], expected: list[Any]) -> float:
    """Return the sum of all differences divided by that of all values."""
    difference = sum(
        float(np.abs(array.asnumpy() - e).sum())
        for arrays, e in zip(found, expected)
        for array in arrays
    )
    return difference / sum(float(np.abs(e).sum()) for e in expected)


class Copies:
    """Times copies as large as all gradients, which all devices make at the same time."""

    def __init__(self, contexts: list[Any], elements: int) -> None:
        if contexts[0].device_type == "cpu":
            self._pairs = [
                (np.ones(elements, "float32"), np.zeros(elements, "float32")) for _ in contexts
            ]
        else:
            self._pairs = [
                (mx.nd.ones(elements, ctx=c), mx.nd.zeros(elements, ctx=c)) for c in contexts
            ]
        mx.nd.waitall()

    def seconds(self) -> float:
        """Return the seconds that each device needed."""
        begin = time.perf_counter()
        if isinstance(self._pairs[0][0], np.ndarray):
            threads = [threading.Thread(target=np.copyto, args=(b, a)) for a, b in self._pairs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for source, target in self._pairs:
                source.copyto(target)
            mx.nd.waitall()
        return time.perf_counter() - begin


def _barrier(store: Any) -> None:
    getattr(store, "barrier", lambda: None)()


def run(
    network: str,
    optimizer: str | None,
    gpus: str | None,
    kv_store: str,
    image_shape: str,
    disp_batches: int,
    num_batches: int,
    test_results: int,
    gc_type: str = "none",
    devices: str | None = None,
    json: str | None = None,
    **kwargs: Any,
) -> list[Results]:
    """Measure, print and return; parameters are the options of the command line."""
    contexts = contexts_of(gpus, devices)
    store = mx.kv.create(kv_store)
    if gc_type != "none":
        store.set_gradient_compression({"type": gc_type})
    updater = None
    if optimizer not in (None, "None"):
        store.set_optimizer(mx.optimizer.create(optimizer))
        updater = mx.optimizer.get_updater(mx.optimizer.create(optimizer))

    shapes = shapes_of(network, image_shape, **kwargs)
    elements = sum(math.prod(s) for s in shapes)
    size = elements * 4 / 1e6
    logging.info("num of arrays = %d, total size = %f MB", len(shapes), size)
    prepare = getattr(store, "init", None)
    for i, s in enumerate(shapes):
        if prepare is not None:
            prepare(i, mx.nd.zeros(s))
        else:
            store.broadcast(i, mx.nd.zeros(s), mx.nd.zeros(s))

    mx.random.seed(0)  # the same gradients on all workers: each knows the sum
    grads_val = [[mx.random.uniform(-1, 1, shape=s) for _ in contexts] for s in shapes]
    grads = [[g.as_in_context(c) for g, c in zip(gs, contexts)] for gs in grads_val]
    weights = [[mx.nd.zeros(s, c) for c in contexts] for s in shapes]
    sums = [sum(g.asnumpy() for g in gs) * store.num_workers for gs in grads_val]
    updated = [mx.nd.zeros(s) for s in shapes] if updater else []
    mx.nd.waitall()

    n = len(contexts) if len(contexts) > 1 else store.num_workers
    exchanged = 2 * (n - 1) / n * size if n > 1 else size
    copies = Copies(contexts, elements)

    def exchange() -> None:
        if hasattr(store, "push"):
            for i, g in enumerate(grads):
                store.push(i, g, i)
            for i, w in enumerate(weights):
                store.pull(i, w, i)
        else:
            for i, (g, w) in enumerate(zip(grads, weights)):
                store.pushpull(i, g, out=w, priority=i)
        for ws in weights:
            for w in ws:
                w.wait_to_read()

    results, times, copied, toc = [], [], [], 0.0
    for b in range(num_batches + 1):
        _barrier(store)
        copied.append(copies.seconds())
        _barrier(store)
        begin = time.perf_counter()
        exchange()
        seconds = time.perf_counter() - begin
        toc += seconds
        if b:
            times.append(seconds)
        error = -1.0
        if test_results:
            for i, (weight, total) in enumerate(zip(updated, sums)):
                updater(i, mx.nd.array(total), weight)
            error = relative_error(weights, [w.asnumpy() for w in updated] if updater else sums)
        if b % disp_batches:
            continue
        toc /= disp_batches
        if b:  # round 0 is warm-up
            r = Results(b, toc, exchanged / toc / 1e3, error)
            logging.info(
                "iter %d, %f sec, %f GB/sec per gpu, error %f", r.iter, r.time, r.bandwidth, r.error
            )
            results.append(r)
        toc = 0.0
    copying = statistics.median(copied[1:] or copied)
    share = copying * (2 * (n - 1) / n + 1) / statistics.median(times) if times else 0.0
    devices_ = len(contexts) * store.num_workers
    logging.info(
        "n = %d, each of %d copies %f GB/sec while all do: %.0f %% of the memory-copy limit",
        n,
        devices_,
        size / copying / 1e3,
        100 * share,
    )
    if json and store.rank == 0 and times:
        import common

        settings = {
            "network": network,
            "kv_store": kv_store,
            "devices": [str(c) for c in contexts],
            "workers": store.num_workers,
            "servers": getattr(store, "num_servers", 0),
            "optimizer": optimizer,
            "gc_type": gc_type,
            "arrays": len(shapes),
            "megabytes": size,
            **kwargs,
        }
        entry = common.result(
            f"{network} {kv_store}",
            common.Timing(times),
            unit="GB/s",
            amount=exchanged / 1e3,
            error=results[-1].error if results else None,
            copy_gb_per_s=size / copying / 1e3,
            share_of_limit=share,
        )
        common.write_json(json, common.report("measure", settings, [entry]))
    _barrier(store)
    return results


if __name__ == "__main__":
    run(**vars(parse_args()))
