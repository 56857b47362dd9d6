"""Import PyTorch's networks from ONNX, compare the outputs, and train a step.

    python benchmarks/peers/onnx_imports.py [--exporter dynamo] [NAME ...]

Needs the environment of the peers (``benchmarks/peers/setup``, with the package transformers; the
exporter ``dynamo`` needs the package onnxscript, too). Prints a row for each network: seconds of
the import, the largest difference from PyTorch and from ONNX Runtime relative to the largest
output, and the loss before and after a step of training. Rows of detectors are paired with the
nearest rows, as scores that differ by rounding only may change places. The exit status is 1 if a
network differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mxlite as mx
import numpy as np
import onnxruntime
from mxlite.gluon import Block
from mxlite.onnx import import_to_gluon

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4


def outputs(net: Block, inputs: list[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
    """Return the list of a network's outputs."""
    made = net(*inputs)
    return made if isinstance(made, list) else [made]


def difference(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest difference relative to the largest output; infinite if shapes differ."""
    if any(a.shape != b.shape for a, b in zip(found, expected)):
        return float("inf")
    scales = [np.abs(b).max(initial=1e-9) for b in expected]
    if len(expected) == 1:
        return float(np.abs(found[0] - expected[0]).max() / scales[0])
    rows, wanted = (
        np.concatenate([part.reshape(len(part), -1) / s for part, s in zip(parts, scales)], 1)
        for parts in (found, expected)
    )
    apart = np.array([np.abs(rows - row).max(1) for row in wanted])
    return float(max(apart.min(0).max(initial=0), apart.min(1).max(initial=0)))


def check(path: Path) -> tuple[float, float, float, float]:
    """Return seconds of the import, the error, and the loss before and after a step."""
    data = np.load(path.with_suffix(".npz"))
    names = sorted(name for name in data if name.startswith("x"))
    inputs = [mx.nd.array(data[name], dtype=data[name].dtype) for name in names]
    begin = time.perf_counter()
    net = import_to_gluon(path)
    seconds = time.perf_counter() - begin
    net.hybridize()
    found = [array.asnumpy() for array in outputs(net, inputs)]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {info.name: data[name] for info, name in zip(session.get_inputs(), names)}
    expected = [data[f"y{i}"] for i in range(len(found))]
    error = max(difference(found, expected), difference(found, session.run(None, given)))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    scales = [np.abs(y).max(initial=1e-9) for y in expected if y.dtype == np.float32]
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            made = [y for y in outputs(net, inputs) if y.dtype == np.float32]
            loss = mx.nd.add_n(*(((y / s) ** 2).mean() for y, s in zip(made, scales)))
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    return seconds, float(error), *losses


def main() -> None:
    """Export, import and compare the networks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", default="script", choices=["script", "dynamo"])
    parser.add_argument("--python", default=str(ROOT / ".venv-peers/bin/python"))
    options = parser.parse_args()
    failed = False
    print("| network | import (s) | error | loss | loss after a step |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        command = [options.python, str(Path(__file__).with_name("torch_export.py")),
                   options.exporter, folder, *options.names]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as exports:
            assert exports.stdout
            for line in exports.stdout:
                answer = json.loads(line)
                name, problem = answer["name"], answer["error"]
                if problem:
                    print(f"| {name} | not exported: {problem} | | | |", flush=True)
                    continue
                path = Path(folder) / f"{name}.onnx"
                try:
                    seconds, error, before, after = check(path)
                    failed |= not error <= TOLERANCE
                    row = f"{seconds:.1f} | {error:.0e} | {before:.3g} | {after:.3g}"
                except mx.MXNetError as refused:
                    failed, row = True, f"not imported: {refused} | | |"
                print(f"| {name} | {row} |", flush=True)
                path.unlink()
    sys.exit(failed)


if __name__ == "__main__":
    main()
