"""Recurrent layers beside PyTorch's, in turns: inference and training step.

    benchmarks/peers/setup                                 # once: environments from PyPI
    python benchmarks/ops/rnn_bench.py --json out.json

Both sides get the same parameters and input, and must give the same output and gradients before
they are timed. A training step is forward, the sum of the outputs as loss, and backward to the
parameters. Ratios are taken turn by turn: above 1 mxlite is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1]
GATES = {"rnn_tanh": 1, "lstm": 4, "gru": 3}
PHASES = ("inference", "training")


def parameters(mode: str, inputs: int, hidden: int) -> dict[str, np.ndarray]:
    """Return the parameters of one layer, the same in every process.

    Parameters
    ----------
    mode : str
        A key of GATES.
    inputs, hidden : int
        Sizes.

    Returns
    -------
    dict of str to numpy.ndarray
        By the names of Gluon.
    """
    rng, rows = np.random.RandomState(0), GATES[mode] * hidden
    shapes = {
        "i2h_weight": (rows, inputs),
        "h2h_weight": (rows, hidden),
        "i2h_bias": (rows,),
        "h2h_bias": (rows,),
    }
    bound = hidden**-0.5
    return {k: rng.uniform(-bound, bound, s).astype(np.float32) for k, s in shapes.items()}


def sequence(steps: int, batch: int, inputs: int) -> np.ndarray:
    """Return the input, the same in every process."""
    values = np.random.RandomState(1).uniform(-1, 1, (steps, batch, inputs))
    return values.astype(np.float32)


# A side is {"phase": callable}; each call runs to its end and returns a number for the comparison.
Side = dict[str, Callable[[], float]]


def mxlite_side(mode: str, steps: int, batch: int, inputs: int, hidden: int) -> Side:
    """Build the layer in mxlite."""
    import mxlite as mx

    kinds: dict[str, Any] = {"lstm": mx.gluon.rnn.LSTM, "gru": mx.gluon.rnn.GRU}
    if mode in kinds:
        layer = kinds[mode](hidden, input_size=inputs)
    else:
        layer = mx.gluon.rnn.RNN(hidden, activation="tanh", input_size=inputs)
    layer.initialize()
    for name, value in parameters(mode, inputs, hidden).items():
        layer._reg_params[f"l0_{name}"].set_data(mx.nd.array(value))
    layer.hybridize(static_alloc=True, static_shape=True)
    data = mx.nd.array(sequence(steps, batch, inputs))
    weight = layer._reg_params["l0_h2h_weight"]

    def inference() -> float:
        output = layer(data)
        output.wait_to_read()
        return float(output[-1, 0, 0].asscalar())

    def training() -> float:
        with mx.autograd.record():
            output = layer(data)
        output.backward()
        mx.nd.waitall()
        return float(weight.grad()[0, 0].asscalar())

    return {"inference": inference, "training": training}


def torch_side(mode: str, steps: int, batch: int, inputs: int, hidden: int) -> Side:
    """Build the layer in PyTorch."""
    import torch

    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}[mode]
    layer = kind(inputs, hidden)
    names = {"i2h_weight": "weight_ih_l0", "h2h_weight": "weight_hh_l0"}
    names.update({"i2h_bias": "bias_ih_l0", "h2h_bias": "bias_hh_l0"})
    with torch.no_grad():
        for name, value in parameters(mode, inputs, hidden).items():
            getattr(layer, names[name]).copy_(torch.from_numpy(value))
    data = torch.from_numpy(sequence(steps, batch, inputs))

    def inference() -> float:
        with torch.no_grad():
            return float(layer(data)[0][-1, 0, 0])

    def training() -> float:
        layer.zero_grad(set_to_none=True)
        layer(data)[0].sum().backward()
        return float(layer.weight_hh_l0.grad[0, 0])

    return {"inference": inference, "training": training}


def timed(call: Callable[[], float], seconds: float) -> list[float]:
    """Call repeatedly for about the given time, at least twice; return the seconds of each call."""
    call()
    found: list[float] = []
    while len(found) < 2 or sum(found) < seconds:
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


def serve_side(make_side: Callable[..., Side]) -> None:
    """Answer requests (JSON lines) for PyTorch; runs in the peers' environment.

    Parameters
    ----------
    make_side : callable
        Builds PyTorch's side of a case.
    """
    import torch

    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "build":
            torch.set_num_threads(request["threads"])
            side = make_side(*request["case"])
            answer: Any = {phase: call() for phase, call in side.items()}
            answer["version"] = torch.__version__
        else:
            answer = timed(side[request["phase"]], request["seconds"])
        print(json.dumps(answer), flush=True)


class Peer:
    """The process that runs PyTorch."""

    def __init__(self, python: str, script: str) -> None:
        self._script = Path(script).stem
        self._process = subprocess.Popen(
            [python, script, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: Any) -> Any:
        """Send one request and return its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._script}: the process of PyTorch has ended, see above")
        return json.loads(line)


def main() -> None:
    """Run all cases, print the table, write the file."""
    sys.path.insert(0, str(BENCHMARKS))
    from command_line import add_options
    from common import Timing, progress, report, result, table, write_json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", nargs="+", default=list(GATES), choices=list(GATES))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=512, help="also the size of the input")
    add_options(parser, "json", "peers-python", "threads", rounds=9, turn=0.5)
    args = parser.parse_args()
    os.environ["MXLITE_CPU_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)

    peer = Peer(args.peers_python, __file__)
    rows, results, version = [], [], ""
    for mode in progress(args.modes, len(args.modes), "modes"):
        case = (mode, args.steps, args.batch, args.hidden, args.hidden)
        other = peer.ask(do="build", case=case, threads=args.threads)
        version = other.pop("version")
        side = mxlite_side(*case)
        for phase in PHASES:
            ours = side[phase]()
            if abs(ours - other[phase]) > 1e-3 * max(abs(other[phase]), 1e-2):
                raise SystemExit(
                    f"rnn_bench: {mode} {phase}: results must agree, got {ours}, {other[phase]}"
                )
            turns: dict[str, list[float]] = {"mxlite": [], "torch": []}
            for _ in range(args.rounds):
                here = timed(side[phase], args.turn)
                there = peer.ask(do="time", phase=phase, seconds=args.turn)
                turns["mxlite"].append(min(here))
                turns["torch"].append(min(there))
            ratio = Timing([b / a for a, b in zip(turns["mxlite"], turns["torch"])])
            times = {name: Timing(seconds) for name, seconds in turns.items()}
            low, high = ratio.quartiles
            for name, timing in times.items():
                label = f"{mode} {phase} {name}"
                results.append(result(label, timing, unit="ms", amount=1e3))
            name = f"{mode} {phase} ratio"
            results.append(result(name, ratio, unit="torch / mxlite", better="higher"))
            rows.append(
                [mode, phase]
                + [f"{1e3 * times[name].median:.1f}" for name in ("mxlite", "torch")]
                + [f"{ratio.median:.2f}", f"{low:.2f}-{high:.2f}"]
            )
    print(table(["layer", "phase", "mxlite ms", "PyTorch ms", "ratio", "quartiles"], rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k not in ("json", "peers_python")}
        write_json(args.json, report("rnn_bench", settings, results, torch=version))


if __name__ == "__main__":
    serve_side(torch_side) if sys.argv[1:] == ["--serve"] else main()
