"""Predict the time of a training step on a GPU by kind of kernel, and compare a profile with it.

    MXLITE_CUDA_LIBRARY=<stand-in> python3 tools/gpu/predict.py --json FILE [NETWORK:BATCH ...]
    python3 tools/gpu/predict.py --prediction FILE [--profile FILE ...]

The first form trains on the stand-in (tests/cpp/fake_gpu), which logs what it runs with shapes. It
takes steps of 2 and 3 examples, because bytes and operations grow linearly with the batch, and
computes those of the whole batch. A kernel takes as long as its bytes or its operations need at a
share of the GPU's peak, plus a gap. The shares come from the review of the kernels, and not from a
measurement. The second form needs nothing but Python; profiles are files of profile_step.py or
reports of steps of the kit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "cpp/ops/cuda"
# The H200: bytes per second, operations in 16-bit floats per second, and seconds between kernels of
# a graph.
BANDWIDTH, PEAK, GAP = 4.8e12, 790e12, 1.2e-6
NETWORKS = ("resnetv1-50:256", "bert-base-128:64", "gpt2:8")
BATCHES = (2, 3)
BYTES = {"float32": 4, "int32": 4, "float64": 8, "int64": 8, "float16": 2, "bfloat16": 2}
# profile_step.py profiles this number of steps.
PROFILED_STEPS = 3
Tensor = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Kind:
    """Kernels that count as one line of the table.

    ``operators`` matches names in the log of the stand-in; ``sources`` are the files whose kernels
    a profile may show, and ``library`` matches kernels of NVIDIA's libraries there.
    """

    name: str
    operators: str
    sources: tuple[str, ...] = ()
    library: str = "$^"
    kernels: int = 1  # launches per call
    reads: float = 1  # how often a call reads its inputs
    bandwidth: float = 0.8  # share of the peak
    rate: float = 0.6  # share of the peak


# The first kind that matches is used.
KINDS = (
    Kind("convolution", "Convolution$", library="fprop", rate=0.55),
    Kind("convolution, data gradient", "_convolution_backward_data", library="dgrad", rate=0.5),
    Kind("convolution, weight gradient", "_convolution_backward_wei", library="wgrad", rate=0.5),
    Kind(
        "attention",
        ".*dot_product_attention",
        ("nn/fused_attention.cu", "nn/dot_product_attention.cu"),
        "flash|sdpa|fmha|attention",
        rate=0.5,
    ),
    Kind(
        "matrix product",
        "FullyConnected$|dot$|batch_dot$|_linalg_gemm",
        ("matrix/",),
        "gemm|nvjet|cutlass|cublas|splitK",
        rate=0.7,
    ),
    Kind(
        "batch normalization",
        "BatchNorm$|_batch_norm",
        ("nn/batch_norm.cu",),
        kernels=2,
        reads=2,
        bandwidth=0.75,
    ),
    # The gradient reads its inputs twice, the forward pass once.
    Kind(
        "layer normalization",
        "LayerNorm$|_layer_norm",
        ("nn/layer_norm.cu",),
        kernels=2,
        reads=1.7,
    ),
    Kind("pooling", "Pooling$|_pooling", ("nn/pooling.cu",), bandwidth=0.6),
    Kind("loss", ".*pick|.*softmax", ("nn/pick_log_softmax.cu", "nn/softmax.cu"), reads=1.5),
    Kind("dropout", "Dropout$|_dropout", ("nn/dropout.cu",)),
    Kind("embedding", "Embedding$|_embedding", ("nn/embedding.cu", "tensor/take.cu")),
    Kind("optimizer", ".*_update$|multi_", ("optimizer/",)),
    Kind("sums", "sum$|mean$|norm$", ("reduce/", "row_sums.cu"), kernels=2),
    Kind(
        "copies and layouts",
        "transpose$|copy$|slice|_slice|Pad$|Cast$|Concat$|reorder$|Reshape$|amp_",
        ("strided_copy.cu", "tensor/"),
        "memcpy|memset",
    ),
    Kind(
        "element by element", ".*", ("pointwise/", "nn/activation.cu", "nn/leaky_relu.cu"), "chain"
    ),
)


def tensors(text: str) -> list[Tensor]:
    """Return the shapes and dtypes of a column of the log."""
    found = re.findall(r"\(([^)]*)\) (\w+);", text)
    return [(tuple(int(n) for n in shape.split(",") if n.strip()), dtype) for shape, dtype in found]


def size(tensor: Tensor) -> int:
    """Return the bytes of a tensor."""
    return math.prod(tensor[0]) * BYTES.get(tensor[1], 1)


def operations(kind: Kind, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Return the multiplications and additions of a call, or 0 if bytes determine its time."""
    counts = [math.prod(shape) for shape, _ in (*inputs, *outputs)]
    if kind.name == "convolution":
        return 2 * math.prod(outputs[0][0]) * counts[1] / inputs[1][0][0]
    if kind.name == "convolution, data gradient":
        return 2 * counts[0] * counts[1] / inputs[1][0][0]
    if kind.name == "convolution, weight gradient":
        return 2 * counts[0] * math.prod(outputs[0][0]) / outputs[0][0][0]
    if kind.name == "matrix product":  # the sizes m k, k n and m n multiply to (m k n)^2
        shape = outputs[0][0]
        batch = math.prod(shape[:-2]) if min(len(inputs[0][0]), len(inputs[1][0])) > 2 else 1
        return 2 * math.sqrt(counts[0] * counts[1] * math.prod(shape) / batch)
    if kind.name == "attention":  # two products forward, five backward
        batch, heads, length, units = inputs[0][0]
        products = 5 if len(outputs) > 2 else 2
        return products * 2 * batch * heads * length * inputs[1][0][2] * units
    return 0


def kind_of(operator: str) -> Kind:
    """Return the kind of an operator in the log."""
    return next(kind for kind in KINDS if re.match(kind.operators, operator))


def read_log(text: str) -> list[tuple[str, float, float]]:
    """Return name, bytes and operations of each launch, ordered by name.

    Launches of one name keep their order. That of others may change from run to run, because
    copies have streams of their own.
    """
    launches = []
    for line in text.splitlines():
        name, inputs, outputs = line.split("\t")
        name = name.removesuffix("_kernel")
        read, written = tensors(inputs), tensors(outputs)
        kind = kind_of(name)
        moved = kind.reads * sum(map(size, read)) + sum(map(size, written))
        launches.append((name, moved, operations(kind, read, written)))
    return sorted(launches, key=lambda launch: launch[0])


def log_of_a_step(network: str, batch: int) -> str:
    """Train on the stand-in for a GPU and return the log of the second step."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "launches"
        program = (
            "import os, sys; sys.path.insert(0, sys.argv[1])\n"
            "from profile_step import make_step, nd\n"
            "step = make_step(sys.argv[2], int(sys.argv[3]), 'bfloat16')\n"
            "for _ in range(2):\n"
            "    begin = os.path.getsize(sys.argv[4]); step(); nd.waitall()\n"
            "print(open(sys.argv[4]).read()[begin:], end='')\n"
        )
        environment = {
            "MXLITE_FAKE_GPU_LAUNCHES": str(log),
            "MXLITE_GPU_MEMORY_LIMIT": "0",
            **os.environ,
        }
        log.touch()
        command = [sys.executable, "-c", program, str(HERE), network, str(batch), str(log)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(
                f"predict.py: {network} failed on the stand-in:\n{done.stderr[-2000:]}"
            )
        return done.stdout


def predict(network: str, batch: int) -> dict[str, Any]:
    """Return calls, bytes, operations and milliseconds of each kind for a step."""
    small, large = (read_log(log_of_a_step(network, n)) for n in BATCHES)
    if [name for name, *_ in small] != [name for name, *_ in large]:
        raise SystemExit(f"predict.py: the steps of {network} differ between batches of {BATCHES}")
    share = (batch - BATCHES[0]) / (BATCHES[1] - BATCHES[0])
    rows: dict[str, dict[str, float]] = {}
    for (name, *few), (_, *many) in zip(small, large):
        moved, computed = (a + (b - a) * share for a, b in zip(few, many))
        kind = kind_of(name)
        row = rows.setdefault(kind.name, dict.fromkeys(("calls", "GB", "TFLOP", "ms"), 0.0))
        seconds = max(moved / BANDWIDTH / kind.bandwidth, computed / PEAK / kind.rate)
        for column, value in (
            ("calls", 1),
            ("GB", moved / 1e9),
            ("TFLOP", computed / 1e12),
            ("ms", 1e3 * (seconds + GAP * kind.kernels)),
        ):
            row[column] += value
    ordered = {kind.name: rows[kind.name] for kind in KINDS if kind.name in rows}
    return {"network": network, "batch": batch, "kinds": ordered}


def read_profiles(path: Path) -> list[dict[str, Any]]:
    """Return the profiles of a file of profile_step.py or of the report of a step."""
    content = json.loads(path.read_text())
    found = [part.get("figures") for part in content["parts"]] if "parts" in content else [content]
    return [profile for profile in found if isinstance(profile, dict) and "kernels" in profile]


_BOUNDS = r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)"
_KERNEL_NAME = re.compile(rf"__global__\s+(?:void|{_BOUNDS}|\s)*(\w+)\(")


def own_kernels(kind: Kind) -> set[str]:
    """Return the names of the kernels in the sources of a kind."""
    names: set[str] = set()
    for source in kind.sources:
        path = KERNELS / source
        for file in path.rglob("*.cu*") if path.is_dir() else [path]:
            names |= set(_KERNEL_NAME.findall(file.read_text()))
    return names


def measured(profile: dict[str, Any]) -> dict[str, float]:
    """Return the milliseconds of a step by kind, with separate lines for other kernels."""
    owned = [(kind, own_kernels(kind)) for kind in KINDS]
    rows: dict[str, float] = {}
    for kernel in profile["kernels"] or profile["operators"]:
        name = kernel["name"]
        found = [kind for kind, names in owned if name in names]
        found += [kind for kind in KINDS if re.search(kind.library, name, re.IGNORECASE)]
        line = found[0].name if found else f"`{name}`"
        rows[line] = rows.get(line, 0) + kernel["Total"] / PROFILED_STEPS
    return rows


def print_table(prediction: dict[str, Any], profile: dict[str, Any] | None) -> None:
    """Print the table of a network in Markdown."""
    found = measured(profile) if profile else {}
    columns = ["calls", "GB", "TFLOP", "predicted ms", *(["measured ms"] if profile else [])]
    print(f"\n{prediction['network']}, batch {prediction['batch']}:\n")
    print(f"| kind | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    kinds = prediction["kinds"]
    for name in [*kinds, *sorted(set(found) - set(kinds), key=lambda line: -found[line])]:
        row = kinds.get(name, {})
        cells = [f"{row[key]:.{digits}f}" if row else "" for key, digits in FORMAT]
        print(f"| {name} | {' | '.join(cells + [f'{found.get(name, 0):.2f}'] * bool(profile))} |")
    sums = [sum(row[key] for row in kinds.values()) for key, _ in FORMAT]
    cells = [f"{total:.{digits}f}" for total, (_, digits) in zip(sums, FORMAT)]
    print(f"| together | {' | '.join(cells + [f'{sum(found.values()):.2f}'] * bool(profile))} |")
    print(f"\n{1e3 * prediction['batch'] / sums[-1]:.0f} examples/s predicted")


FORMAT = (("calls", 0), ("GB", 1), ("TFLOP", 2), ("ms", 2))


def main() -> None:
    """Predict times or read a prediction, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK:BATCH", default=NETWORKS)
    parser.add_argument("--json", type=Path, help="where to keep the prediction")
    parser.add_argument("--prediction", type=Path, help="a kept prediction")
    parser.add_argument("--profile", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    if options.prediction:
        predictions = json.loads(options.prediction.read_text())
    else:
        if "fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""):
            parser.error("MXLITE_CUDA_LIBRARY must name libmxlite_fake_gpu.so, see gpu_kit.md")
        pairs = [name.rsplit(":", 1) for name in options.networks]
        predictions = [predict(network, int(batch)) for network, batch in pairs]
    if options.json:
        options.json.write_text(json.dumps(predictions, indent=1) + "\n")
    profiles = [profile for path in options.profile for profile in read_profiles(path)]
    for prediction in predictions:
        beside = [p for p in profiles if p["network"] == prediction["network"]]
        print_table(prediction, beside[0] if beside else None)


if __name__ == "__main__":
    main()
