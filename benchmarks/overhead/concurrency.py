"""Threads of one program that call one hybridized network: throughput and latency.

    python benchmarks/overhead/concurrency.py --json FILE

All numbers of threads take turns. A ratio above 1 says that the threads together finish more calls
a second than one thread does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mxlite as mx
from command_line import add_options
from common import report, table, write_json
from mxlite.gluon import nn, rnn
from mxlite.gluon.model_zoo import vision


def resnet18() -> tuple[nn.HybridBlock, tuple[int, ...]]:
    """Return ResNet-18 and the shape of its input."""
    return vision.resnet18_v1(), (1, 3, 224, 224)


def lstm() -> tuple[nn.HybridBlock, tuple[int, ...]]:
    """Return an LSTM of two layers with a classifier, and the shape of its input."""
    net = nn.HybridSequential()
    net.add(rnn.LSTM(128, num_layers=2, layout="NTC"), nn.Dense(10))
    return net, (4, 20, 64)


NETWORKS: dict[str, Callable[[], Any]] = {"resnet-18": resnet18, "lstm": lstm}


def run_threads(net: Any, inputs: list[Any], seconds: float) -> list[float]:
    """Call ``net`` in one thread per input for some seconds; return the calls' durations."""
    durations: list[list[float]] = [[] for _ in inputs]
    start = threading.Barrier(len(inputs))

    def call(x: Any, own: list[float]) -> None:
        start.wait()
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            net(x).wait_to_read()
            own.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=call, args=pair) for pair in zip(inputs, durations)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [duration for own in durations for duration in own]


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one entry for every number of threads."""
    net, shape = NETWORKS[name]()
    net.initialize()
    net.hybridize()
    inputs = [mx.nd.random.uniform(shape=shape) for _ in range(max(options.counts))]
    for x in inputs:
        net(x).wait_to_read()
    rates: dict[int, list[float]] = {count: [] for count in options.counts}
    latencies: dict[int, list[float]] = {count: [] for count in options.counts}
    for turn in range(options.rounds):
        for count in options.counts if turn % 2 == 0 else reversed(options.counts):
            begin = time.perf_counter()
            durations = run_threads(net, inputs[:count], options.turn)
            rates[count].append(len(durations) / (time.perf_counter() - begin))
            latencies[count] += durations
    one = rates[options.counts[0]]
    return [
        {
            "name": f"{name} {count} threads",
            "unit": "calls/s",
            "better": "higher",
            "median": statistics.median(rates[count]),
            "ratio": statistics.median(a / b for a, b in zip(rates[count], one)),
            "latency_ms": {
                f"p{part}": 1e3 * sorted(latencies[count])[len(latencies[count]) * part // 100]
                for part in (50, 90, 99)
            },
        }
        for count in options.counts
    ]


def main() -> None:
    """Measure what the command line names."""
    line = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    line.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    line.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4, 8])
    add_options(line, "json", rounds=5, turn=2.0)
    options = line.parse_args()
    entries = [entry for name in options.networks for entry in measure(name, options)]
    rows = [
        [e["name"], f"{e['median']:.1f}", f"{e['ratio']:.2f}"]
        + [f"{value:.1f}" for value in e["latency_ms"].values()]
        for e in entries
    ]
    print(table(["network", "calls/s", "ratio", "p50 ms", "p90 ms", "p99 ms"], rows))
    if options.json:
        settings = {key: value for key, value in vars(options).items() if key != "json"}
        write_json(options.json, report("concurrency", settings, entries))


if __name__ == "__main__":
    main()
