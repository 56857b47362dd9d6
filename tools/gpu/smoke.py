"""Run each primitive of the CUDA backend once, compare it with NumPy and print a line.

    python3 tools/gpu/smoke.py --json FILE

A line says ok, FAILED or CRASHED, the primitive, the difference from NumPy and its limit, or the
error. A primitive that raises, breaks the GPU, ends its process or hangs does not stop the others:
they run in a new process. The last lines name cuDNN's plans.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

SECONDS = 20  # limit for one primitive
SECONDS_TO_START = 40  # in addition for the first of a process, which loads the libraries
STAND_IN = "MXLITE_CUDA_LIBRARY" in os.environ
EPSILONS = {"float32": 1e-5, "float16": 2.0**-10, "bfloat16": 2.0**-7}

# The findings of a primitive: pairs of a result and the expected array, and the limit of the
# difference relative to the largest expected number.
Found = tuple[list[tuple[Any, Any]], float]
PRIMITIVES: dict[str, Callable[[], Found | str]] = {}


def primitive(name: str, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function and its arguments under a name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PRIMITIVES[name] = lambda: function(*arguments)
        return function

    return register


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers of [-1, 1) that float32, float16 and bfloat16 hold exactly."""
    steps = np.random.RandomState(seed).randint(-64, 64, shape)  # 7 bits fit all three dtypes
    return (steps / 64).astype("float64")


def put(array: np.ndarray, dtype: str = "float32") -> Any:
    """Return a copy on the GPU."""
    return nd.array(array, dtype=dtype, ctx=mx.gpu(0))


def get(array: Any) -> np.ndarray:
    """Return a copy in float64."""
    result: np.ndarray = array.astype("float32").asnumpy().astype("float64")
    return result


def gradients(function: Callable[..., Any], head: Any, *inputs: Any) -> list[Any]:
    """Return the result of a function and the gradients of its inputs."""
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        y = function(*inputs)
    y.backward(head)
    return [y, *(x.grad for x in inputs)]


@primitive("memory: copies both ways")
def _copies() -> Found:
    x = numbers(1 << 18)
    there = put(x)
    return [(get(there), x), (get(there.copy()), x), (get(there[100:200]), x[100:200])], 0


@primitive("pointwise kernel")
def _pointwise() -> Found:
    x = numbers(3, 1000)
    return [(get(nd.tanh(put(x)) + put(x)), np.tanh(x) + x)], 1e-6


def run_hybridized(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Return the results of a few calls of a hybridized block: step by step, recorded, replayed."""

    class Block(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *x: Any) -> Any:  # noqa: N803
            return function(F, *x)

    block = Block()
    block.hybridize(static_alloc=True, static_shape=True)
    return [block(*inputs).copy() for _ in range(4)]


@primitive("chain of pointwise operators compiled by NVRTC")
def _chain() -> Found:
    x = numbers(64, 1000)
    found = run_hybridized(lambda F, x: F.sigmoid(F.exp(x) * 0.5 - x) + 1, put(x))
    want = 1 / (1 + np.exp(-(np.exp(x) * 0.5 - x))) + 1
    return [(get(y), want) for y in found], 1e-6


@primitive("sums of rows and columns")
def _sums() -> Found:
    x = numbers(300, 1000)
    return [(get(put(x).sum(axis=axis)), x.sum(axis=axis)) for axis in (0, 1)], 1e-5


@primitive("softmax bfloat16", "bfloat16")
def _softmax(dtype: str) -> Found:
    x = numbers(128, 1024)
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    return [(get(nd.softmax(put(x, dtype))), want)], EPSILONS[dtype]


@primitive("matrix product float32", "float32")
@primitive("matrix product float16", "float16")
@primitive("matrix product bfloat16", "bfloat16")
def _product(dtype: str) -> Found:
    a, b = numbers(256, 512), numbers(512, 384, seed=1)
    return [(get(nd.dot(put(a, dtype), put(b, dtype))), a @ b)], EPSILONS[dtype]


def convolution_reference(x: np.ndarray, w: np.ndarray, head: np.ndarray) -> list[np.ndarray]:
    """Return output and gradients of a 3 x 3 convolution with padding 1, channels last."""
    n, h, width, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.zeros((n, h, width, w.shape[0]))
    data_grad, weight_grad = np.zeros_like(padded), np.zeros_like(w)
    for i in range(3):
        for j in range(3):
            window = padded[:, i : i + h, j : j + width]
            y += window @ w[:, i, j].T
            data_grad[:, i : i + h, j : j + width] += head @ w[:, i, j]
            weight_grad[:, i, j] = np.einsum("nhwo,nhwc->oc", head, window)
    return [y, data_grad[:, 1:-1, 1:-1], weight_grad]


@primitive("convolution bfloat16 NHWC: output and both gradients", "bfloat16", "NHWC")
@primitive("convolution float16 NHWC: output and both gradients", "float16", "NHWC")
@primitive("convolution float32 NCHW: output and both gradients", "float32", "NCHW")
def _convolution(dtype: str, layout: str) -> Found:
    x, w, head = numbers(2, 8, 8, 16), numbers(32, 3, 3, 16, seed=1), numbers(2, 8, 8, 32, seed=2)
    want = convolution_reference(x, w, head)
    first = (0, 3, 1, 2) if layout == "NCHW" else (0, 1, 2, 3)
    found = gradients(
        lambda x, w: nd.Convolution(
            x, w, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True, layout=layout
        ),
        put(head.transpose(first), dtype),
        *(put(a.transpose(first), dtype) for a in (x, w)),
    )
    return [(get(a), b.transpose(first)) for a, b in zip(found, want)], 2 * EPSILONS[dtype]


@primitive("convolution with channel sums for BatchNorm, float16", "float16")
@primitive("convolution and BatchNorm, bfloat16", "bfloat16")
def _convolution_batch_norm(dtype: str) -> Found:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, use_bias=False, in_channels=16), nn.BatchNorm())
    net.initialize(ctx=mx.gpu(0))
    x, w = numbers(4, 8, 8, 16), numbers(32, 3, 3, 16, seed=1)
    y = convolution_reference(x, w, np.zeros((4, 8, 8, 32)))[0]
    want = (y - y.mean((0, 1, 2))) / np.sqrt(y.var((0, 1, 2)) + 1e-5)
    net[0].weight.set_data(nd.array(w.transpose(0, 3, 1, 2)))
    net.cast(dtype)
    net.hybridize()
    data = put(x.transpose(0, 3, 1, 2), dtype)
    found = []
    for _ in range(3):
        with autograd.record():
            result = net(data)
        result.backward()
        found.append((get(result), want.transpose(0, 3, 1, 2)))
    return found, 4 * EPSILONS[dtype]


@primitive("max pooling and its gradient, bfloat16", "bfloat16")
def _pooling(dtype: str) -> Found:
    x = np.random.RandomState(0).permutation(2 * 8 * 8 * 8).reshape(2, 8, 8, 8) / 1024
    x = get(put(x, "float32").astype(dtype))
    windows = x.reshape(2, 8, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(2, 8, 4, 4, 4)
    found = gradients(
        lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        put(np.ones((2, 8, 4, 4)), dtype),
        put(x, dtype),
    )
    return [(get(found[0]), windows.max(-1)), (get(found[1]).sum(), np.float64(2 * 8 * 16))], 0


@primitive("LayerNorm bfloat16", "bfloat16")
def _layer_norm(dtype: str) -> Found:
    x = numbers(64, 768)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    y = nd.LayerNorm(put(x, dtype), put(np.ones(768), dtype), put(np.zeros(768), dtype))
    return [(get(y), want)], 2 * EPSILONS[dtype]


def attention_reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, head: np.ndarray, bias: Any
) -> list[np.ndarray]:
    """Return output and gradients of attention in NumPy."""
    scale = 1 / np.sqrt(q.shape[3])
    scores = q @ k.swapaxes(2, 3) * scale + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dweights = head @ v.swapaxes(2, 3)
    dscores = scale * weights * (dweights - (weights * dweights).sum(-1, keepdims=True))
    gradients = [dscores @ k, dscores.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ head]
    return [weights @ v, *gradients]


@primitive("attention bfloat16, plain", "bfloat16", "plain")
@primitive("attention bfloat16, padding mask", "bfloat16", "mask")
@primitive("attention float16, padding mask", "float16", "mask")
@primitive("attention bfloat16, lengths", "bfloat16", "length")
@primitive("attention bfloat16, dropout and padding mask", "bfloat16", "dropout")
def _attention(dtype: str, kind: str) -> Found | str:
    q, k, v, head = (numbers(2, 4, 64, 64, seed=i) for i in range(4))
    if kind == "dropout":
        head = np.ones_like(head)
    forbidden = np.where(np.arange(64) < 40, 0.0, -np.inf).reshape(1, 1, 1, 64)
    extra, params = [], {}
    if kind in ("mask", "dropout"):
        extra, params = [put(np.repeat(forbidden, 2, 0), dtype)], {"use_mask": True}
    elif kind == "length":
        extra, params = [put(np.array([40, 40]), "int32")], {"use_length": True}
    if kind == "dropout":
        params["dropout"] = 0.5
    bias = 0 if kind == "plain" else forbidden
    found = gradients(
        lambda q, k, v: nd.contrib.dot_product_attention(q, k, v, *extra, **params),
        put(head, dtype),
        *(put(a, dtype) for a in (q, k, v)),
    )
    if kind == "dropout":
        # If the output gradient is 1, the gradient of v is the sum of the kept weights of each key.
        share = get(found[3])[..., 0].sum() / (2 * 4 * 64)
        if not 0.9 < share < 1.1:
            raise ArithmeticError(f"the weights that dropout keeps add up to {share:.3f}, not to 1")
        return f"the weights that dropout keeps add up to {share:.3f}"
    want = attention_reference(q, k, v, head, bias)
    return [(get(a), b) for a, b in zip(found, want)], 4 * EPSILONS[dtype]


@primitive("embedding and its gradient")
def _embedding() -> Found:
    ids, table = np.random.RandomState(0).randint(0, 50, 400), numbers(50, 32)
    want = np.zeros((50, 32))
    np.add.at(want, ids, 1)
    found = gradients(
        lambda w: nd.Embedding(put(ids), w, input_dim=50, output_dim=32),
        put(np.ones((400, 32))),
        put(table),
    )
    return [(get(found[0]), table[ids]), (get(found[1]), want)], 0


@primitive("topk and sort")
def _topk() -> Found:
    x = numbers(5, 3000) + np.arange(3000) / 1e6
    x = x.astype("float32").astype("float64")
    want = -np.sort(-x, axis=1)
    top = nd.topk(put(x), k=8, ret_typ="value")
    return [(get(top), want[:, :8]), (get(nd.sort(put(x), is_ascend=False)), want)], 0


@primitive("Adam step of many weights")
def _adam() -> Found:
    weights = [numbers(40 + i) for i in range(20)]
    there = [put(w) for w in weights]
    updater = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
    updater(list(range(20)), [put(np.ones(40 + i)) for i in range(20)], there)
    return [(get(a), w - 0.1) for a, w in zip(there, weights)], 1e-5


@primitive("CUDA graph with dropout: replays draw other numbers")
def _replay() -> Found | str:
    with autograd.train_mode():
        found = run_hybridized(lambda F, x: F.Dropout(x, p=0.5), put(np.ones((100, 100))))
    masks = [get(y) for y in found]
    for i, mask in enumerate(masks):
        if not 0.45 < (mask > 0).mean() < 0.55:
            raise ArithmeticError(
                f"call {i} keeps {(mask > 0).mean():.3f} of the elements, not 0.5"
            )
        if any((mask == other).all() for other in masks[:i]):
            raise ArithmeticError(f"call {i} drops the elements that an earlier call dropped")
    return f"4 calls differ; {mx._core.device_graph_stats()}"


FAULT = """extern "C" __global__ void fault(float *x) { *(float *)8 = x[0]; }"""


@primitive("an illegal address is reported, and the CPU still computes")
def _fault() -> str:
    x = nd.ones((4,), ctx=mx.gpu(0))
    try:
        if STAND_IN:  # MXLITE_FAKE_GPU_BREAKS names the operator that breaks it
            nd.erf(x).asnumpy()
        else:
            kernel = mx.rtc.CudaModule(FAULT).get_kernel("fault", "float *x")
            kernel.launch([x], mx.gpu(0), (1, 1, 1), (1, 1, 1))
            x.asnumpy()
    except mx.base.DeviceError as error:
        if nd.ones((3,)).sum().asscalar() != 3:
            raise ArithmeticError("the CPU computes wrong sums after the fault") from None
        return str(error).splitlines()[0]
    raise ArithmeticError("the illegal address raised no error")


def compare(found: Found | str) -> dict[str, Any]:
    """Return the status and the message of a primitive from its findings."""
    if isinstance(found, str):
        return {"status": "ok", "message": found}
    pairs, limit = found
    worst = 0.0
    for got, want in pairs:
        if np.shape(got) != np.shape(want):
            return {"status": "FAILED", "message": f"shape {np.shape(got)}, not {np.shape(want)}"}
        if not np.isfinite(got).all():
            bad = int((~np.isfinite(got)).sum())
            return {"status": "FAILED", "message": f"{bad} of {np.size(got)} numbers not finite"}
        largest = max(float(np.abs(want).max()), 1e-30)
        worst = max(worst, float(np.abs(got - want).max()) / largest)
    status = "ok" if worst <= limit else "FAILED"
    return {"status": status, "message": f"difference {worst:.2g}, limit {limit:.2g}"}


def run_from(begin: int) -> None:
    """Run the primitives from a position on, and print a line of JSON for each."""
    for function in list(PRIMITIVES.values())[begin:]:
        since = time.perf_counter()
        try:
            line = compare(function())
        except Exception as error:
            text = " ".join(str(error).split())
            line = {"status": "FAILED", "message": f"{type(error).__name__}: {text[:300]}"}
        line["seconds"] = round(time.perf_counter() - since, 2)
        print(json.dumps(line), flush=True)


def notes_of(text: str) -> list[str]:
    """Return the lines of the error output that name chosen plans or failures."""
    words = ("no plan", "-> cudnn: ", "cuDNN has", "Traceback", "Error")
    lines = dict.fromkeys(line.strip() for line in text.splitlines())
    return [line[:300] for line in lines if any(word in line for word in words)][:4]


class Child:
    """A process that runs the primitives from a position on."""

    def __init__(self, begin: int, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--from", str(begin), "--json", os.devnull],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.errors: list[str] = []
        self.limit = SECONDS + SECONDS_TO_START
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()

    def _read_errors(self) -> None:
        self.errors.extend(self.process.stderr or [])

    def next_line(self) -> dict[str, Any]:
        """Return the line of the next primitive."""
        assert self.process.stdout
        timer = threading.Timer(self.limit, self.process.kill)
        timer.start()
        text = self.process.stdout.readline()
        timer.cancel()
        if text:
            line: dict[str, Any] = json.loads(text)
        else:  # the process ended, or the timer ended it
            status = self.process.wait()
            self.reader.join(2)
            how = f"no result in {self.limit} s" if status == -9 else "the process ended"
            message = f"{how}, exit status {status}"
            line = {"status": "CRASHED", "message": message, "seconds": None}
        self.limit = SECONDS
        seen = len(self.errors)
        line["notes"] = notes_of("".join(self.errors[:seen]))
        del self.errors[:seen]
        return line

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def supervise(keep: Callable[[dict[str, Any]], None]) -> None:
    """Run all primitives. Begin a new process only after a crash or a broken GPU."""
    names = list(PRIMITIVES)
    environment = {**os.environ, "MXLITE_VERBOSE": "dispatch"}
    child: Child | None = None
    for at, name in enumerate(names):
        if at == len(names) - 1 and child:  # the illegal address needs a separate process
            child.end()
            child = None
        if at == len(names) - 1 and STAND_IN:
            environment["MXLITE_FAKE_GPU_BREAKS"] = "erf"
        child = child or Child(at, environment)
        line = child.next_line()
        keep({"name": name, **line})
        # Ends a process whose GPU is broken, because all of its later operators would fail.
        if line["status"] == "CRASHED" or "DeviceError" in line["message"]:
            child.end()
            child = None
    if child:
        child.end()


def main() -> int:
    """Run the primitives, write the lines, and return 1 if a primitive is not ok."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", required=True, help="where the lines go")
    parser.add_argument("--from", dest="begin", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.begin is not None:
        run_from(options.begin)
        return 0
    lines: list[dict[str, Any]] = []

    def keep(line: dict[str, Any]) -> None:
        lines.append(line)
        Path(options.json).write_text(json.dumps(lines))  # now, in case the run is cut short
        print(f"{line['status']:<7} {line['name']:<58} {line['message']}", flush=True)
        for note in line["notes"]:
            print(f"        {note}", flush=True)

    supervise(keep)
    plans = [p for p in Path(os.environ.get("MXLITE_CACHE_DIR", "/nonexistent")).glob("*.plans")]
    for path in plans:
        for text in path.read_text().splitlines()[1:]:
            print("plan    " + text.replace("\t", ": "))
    return 0 if all(line["status"] == "ok" for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
