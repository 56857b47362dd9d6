"""Import PyTorch's networks from ONNX, compare the outputs, and train a step.

    python benchmarks/peers/onnx_imports.py [--exporter dynamo] [NAME ...]

Needs the environment of the peers (``benchmarks/peers/setup``, with the package transformers; the
exporter ``dynamo`` needs the package onnxscript, too). Prints a row for each network: seconds of
the import, the largest difference relative to the largest output, and the loss before and after a
step of training. The exit status is 1 if a network differs by more than 1e-4.
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
from mxlite.onnx import import_to_gluon

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4


def check(path: Path) -> tuple[float, float, float, float]:
    """Return seconds of the import, the error, and the loss before and after a step."""
    data = np.load(path.with_suffix(".npz"))
    inputs = [mx.nd.array(data[n], dtype=data[n].dtype) for n in sorted(data) if n != "output"]
    begin = time.perf_counter()
    net = import_to_gluon(path)
    seconds = time.perf_counter() - begin
    net.hybridize()
    expected = data["output"]
    error = np.abs(net(*inputs).asnumpy() - expected).max() / np.abs(expected).max()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            loss = (net(*inputs) ** 2).mean()
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
