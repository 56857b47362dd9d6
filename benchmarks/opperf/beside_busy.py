"""40 operators in three sizes beside busy processes, on mxlite and MXNet 1.9.1 in turns.

    python benchmarks/opperf/beside_busy.py --mxnet-python PYTHON --json FILE

A ratio above 1 says that mxlite is faster. A turn's figure is the mean over its calls, because
single calls beside busy processes differ by whole time slices.
"""

from __future__ import annotations

import argparse
import importlib
import json
import operator
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))

SIZES = ("small", "medium", "large")
SYSTEMS = ("mxlite", "mxnet")

# Side lengths of square arrays, in the order of SIZES.
_SIDES = (32, 256, 1024)
_ONE, _TWO, _THREE = ["n,n"], ["n,n", "n,n"], ["n,n", "n,n", "n,n"]

# Operator: shapes of its inputs, parameters. A length is a number or "n", the side length; products
# and layers have a list of lengths instead, in the order of SIZES.
OPERATORS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "elemwise_add": (_TWO, {}),
    "elemwise_mul": (_TWO, {}),
    "elemwise_div": (_TWO, {}),
    "broadcast_add": (["n,n", "1,n"], {}),
    "broadcast_mul": (["n,n", "n,1"], {}),
    "broadcast_maximum": (_TWO, {}),
    "broadcast_power": (_TWO, {}),
    "exp": (_ONE, {}),
    "log": (_ONE, {}),
    "sqrt": (_ONE, {}),
    "tanh": (_ONE, {}),
    "sigmoid": (_ONE, {}),
    "relu": (_ONE, {}),
    "erf": (_ONE, {}),
    "clip": (_ONE, {"a_min": 0.2, "a_max": 0.7}),
    "add_n": (_THREE, {}),
    "where": (_THREE, {}),
    "Cast": (_ONE, {"dtype": "float16"}),
    "sum": (_ONE, {"axis": 1}),
    "mean": (_ONE, {"axis": 0}),
    "max": (_ONE, {"axis": 1}),
    "norm": (_ONE, {}),
    "argmax": (_ONE, {"axis": 1}),
    "softmax": (_ONE, {}),
    "log_softmax": (_ONE, {}),
    "LayerNorm": (["n,n", "n", "n"], {}),
    "transpose": (_ONE, {}),
    "slice_axis": (_ONE, {"axis": 1, "begin": 1, "end": -1}),
    "Concat": (_TWO, {"dim": 1}),
    "take": (["n,n", "n"], {}),
    "sort": (_ONE, {}),
    "topk": (_ONE, {"k": 5}),
    "sgd_update": (_TWO, {"lr": 0.1}),
    "LeakyReLU": (_ONE, {"act_type": "gelu"}),
    "dot": (["m,m", "m,m"], {}),
    "batch_dot": (["8,m,m", "8,m,m"], {}),
    "FullyConnected": (["m,m", "m,m", "m"], {"num_hidden": "m"}),
    "Convolution": (["1,c,28,28", "c,c,3,3", "c"], {"kernel": (3, 3), "num_filter": "c"}),
    "Pooling": (["1,c,28,28"], {"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"}),
    "BatchNorm": (["1,c,28,28", "c", "c", "c", "c"], {}),
}
_LENGTHS = {"n": _SIDES, "m": (16, 64, 512), "c": (4, 32, 256)}


def _length(word: str, size: int) -> int:
    return _LENGTHS[word][size] if word in _LENGTHS else int(word)


def prepare(mx: Any, name: str, size: int) -> Any:
    """Return a function that runs the operator once and returns when the result is there."""
    shapes, params = OPERATORS[name]
    inputs = []
    for i, text in enumerate(shapes):
        shape = tuple(_length(word, size) for word in text.split(","))
        values = mx.nd.random.uniform(0.1, 1, shape=shape)
        if name == "take" and i == 1:
            values = mx.nd.floor(values * (_SIDES[size] - 1))
        inputs.append(values)
    params = {k: _length(v, size) if v in ("m", "c") else v for k, v in params.items()}
    if name == "sgd_update":
        params["out"] = inputs[0]
    op = operator.attrgetter(name)(mx.nd)

    def call() -> None:
        result = op(*inputs, **params)
        (result[0] if isinstance(result, list) else result).wait_to_read()

    return call


def serve(system: str) -> None:
    """Answer requests ``{"op", "size", "seconds"}`` with the mean seconds of a call, by clock."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    mx = importlib.import_module(system)
    calls: dict[tuple[str, int], Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = (request["op"], request["size"])
        if key not in calls:
            calls[key] = prepare(mx, *key)
            for _ in range(3):
                calls[key]()
        count, begin = 0, time.perf_counter()
        cpu = time.process_time()
        while (now := time.perf_counter()) - begin < request["seconds"] or count < 3:
            calls[key]()
            count += 1
        answer = {"wall": (now - begin) / count, "cpu": (time.process_time() - cpu) / count}
        out.write(json.dumps(answer) + "\n")
        out.flush()


def measure(workers: dict[str, Any], key: tuple[str, int], options: Any) -> dict[str, list[float]]:
    """Return the mean time of a call in every turn of each system."""
    found: dict[str, list[float]] = {name: [] for name in workers}
    for turn in range(options.rounds):
        for name in SYSTEMS if turn % 2 == 0 else reversed(SYSTEMS):
            request = {"op": key[0], "size": key[1], "seconds": options.turn}
            found[name].append(workers[name].ask(**request)[options.clock])
    return found


def entry_of(name: str, found: dict[str, list[float]]) -> dict[str, Any]:
    """Return an entry of the result file: ratio of the turns, microseconds of each system."""
    from cell import ratio_of_turns

    values = dict(zip(("median", "q1", "q3"), ratio_of_turns(found["mxlite"], found["mxnet"])))
    times = {system: 1e6 * statistics.median(turns) for system, turns in found.items()}
    numbers = {key: float(f"{value:.4g}") for key, value in {**values, **times}.items()}
    return {"name": name, "unit": "mxnet / mxlite", "better": "higher", **numbers}


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    from command_line import add_options
    from common import progress, report, table, write_json
    from neighbours import neighbours
    from worker_process import WorkerProcess

    line = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    line.add_argument("--mxnet-python", required=True, help="Python that has MXNet 1.9.1")
    line.add_argument("--neighbours", nargs="+", type=int, default=[0, 1, 2])
    line.add_argument("--ops", nargs="+", choices=list(OPERATORS), default=list(OPERATORS))
    add_options(line, "json", "threads", "clock", rounds=3, turn=0.03)
    options = line.parse_args(arguments)
    pythons = {"mxlite": sys.executable, "mxnet": options.mxnet_python}
    workers = {
        name: WorkerProcess(
            [python, __file__, "--serve", name], options.threads, own_path=name == "mxlite"
        )
        for name, python in pythons.items()
    }
    keys = [(op, size) for op in options.ops for size in range(len(SIZES))]
    entries, ratios = [], {}
    try:
        for busy in options.neighbours:
            with neighbours(busy):
                for key in progress(keys, len(keys), f"beside {busy}"):
                    name = f"{key[0]} {SIZES[key[1]]} beside {busy}"
                    entries.append(entry_of(name, measure(workers, key, options)))
                    ratios[(*key, busy)] = entries[-1]["median"]
    finally:
        for worker in workers.values():
            worker.close()
    head = [f"{size}, {busy} busy" for size in SIZES for busy in options.neighbours]
    rows = [
        [op] + [f"{ratios[op, s, b]:.2f}" for s in range(len(SIZES)) for b in options.neighbours]
        for op in options.ops
    ]
    means = [
        statistics.geometric_mean(ratios[op, s, b] for op in options.ops)
        for s in range(len(SIZES))
        for b in options.neighbours
    ]
    rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    print(table(["operator", *head], rows))
    if options.json:
        settings = {k: v for k, v in vars(options).items() if k not in ("json", "mxnet_python")}
        settings["load"] = os.getloadavg()
        write_json(options.json, report("beside_busy", settings, entries))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        sys.exit(main())
