"""Compare single operators on a GPU with PyTorch, in TFLOP/s or GB/s of their minimal traffic.

    python3 tools/gpu/kernels.py --json FILE

If PyTorch is missing or finds no GPU, its columns stay empty. --scale shrinks the batches. --once
runs mxlite's operators once without a measurement, so that a profiler can observe them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mxlite as mx
from mxlite import autograd, gluon, nd

try:
    import torch
    from torch.nn import functional

    TORCH = torch.cuda.is_available()
except ImportError:
    TORCH = False

DTYPE = "bfloat16"


@dataclass
class Row:
    """One operator: a function for each library, and the bytes or operations of one run."""

    name: str
    mxlite: Callable[[], Any]
    torch: Callable[[], Any] | None
    amount: float
    unit: str  # GB/s or TFLOP/s


def seconds(run: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Return the time of one run: the least of five groups of ten."""
    run()
    wait()
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(10):
            run()
        wait()
        best = min(best, (time.perf_counter() - begin) / 10)
    return best


def array(*shape: int) -> nd.NDArray:
    """Return a random array on the GPU."""
    return nd.random.normal(shape=shape, ctx=mx.gpu(0)).astype(DTYPE)


def tensor(*shape: int) -> Any:
    """Return a random tensor of PyTorch, or None if PyTorch is not installed."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) if TORCH else None


def trained(function: Callable[..., nd.NDArray], *inputs: nd.NDArray) -> Callable[[], Any]:
    """Return a forward and backward pass."""
    for x in inputs:
        x.attach_grad()

    def run() -> None:
        with autograd.record():
            y = function(*inputs)
        y.backward()

    return run


def trained_torch(function: Callable[..., Any], *inputs: Any) -> Callable[[], Any] | None:
    """Return a forward and backward pass on PyTorch, or None if PyTorch is not installed."""
    if not TORCH:
        return None
    for x in inputs:
        x.requires_grad_()

    def run() -> None:
        for x in inputs:
            x.grad = None
        y = function(*inputs)
        y.backward(torch.ones_like(y))

    return run


def rows(scale: float) -> list[Row]:
    """Return the operators of the table."""
    n = max(1, int(256 * scale))
    image, tokens, wide = (n, 64, 56, 56), (n * 128, 768), (n * 128, 1024)
    image_bytes = 2 * n * 64 * 56 * 56
    token_bytes = 2 * n * 128 * 768
    wide_bytes = 2 * n * 128 * 1024
    ones = [nd.ones((64,), ctx=mx.gpu(0)) for _ in range(4)]
    gamma, beta = (nd.ones((768,), ctx=mx.gpu(0)).astype(DTYPE) for _ in range(2))
    ids = nd.random.randint(0, 30522, (n * 128,), ctx=mx.gpu(0)).astype("float32")
    table = array(30522, 768)
    heads, length, units = 12, 128, 64
    query = array(length, n, heads * 3 * units)
    pairs = n * heads * length * length
    out = []

    def add(name: str, mine: Any, theirs: Any, amount: float, unit: str = "GB/s") -> None:
        out.append(Row(name, mine, theirs, amount, unit))

    add(
        "BatchNorm forward and backward",
        trained(lambda x: nd.BatchNorm(x, *ones, fix_gamma=False), array(*image)),
        trained_torch(
            lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
            *([tensor(*image), tensor(64), tensor(64)] if TORCH else []),
        ),
        8 * image_bytes,  # forward reads twice and writes, backward reads twice two and writes
    )
    add(
        "BatchNorm channels-last forward and backward",
        trained(lambda x: nd.BatchNorm(x, *ones, fix_gamma=False, axis=3), array(n, 56, 56, 64)),
        None,
        8 * image_bytes,
    )
    pixels, their_pixels = array(n, 3, 224, 224), tensor(n, 3, 224, 224)
    add(
        "padding of 3 channels to 4",
        lambda: nd.pad(pixels, mode="constant", pad_width=(0, 0, 0, 1, 0, 0, 0, 0)),
        (lambda: functional.pad(their_pixels, (0, 0, 0, 0, 0, 1))) if TORCH else None,
        7 * 2 * n * 224 * 224,
    )
    mine, theirs = array(*tokens), tensor(*tokens)
    add(
        "sums of columns 768, the gradient of a bias",
        lambda: mine.sum(axis=0),
        (lambda: theirs.sum(0)) if TORCH else None,
        token_bytes,
    )
    add(
        "max pooling 3x3/2 forward and backward",
        trained(
            lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
            array(*image),
        ),
        trained_torch(
            lambda x: functional.max_pool2d(x, 3, 2, 1), *([tensor(*image)] if TORCH else [])
        ),
        3.5 * image_bytes,
    )
    add(
        "LayerNorm 768 forward and backward",
        trained(nd.LayerNorm, array(*tokens), gamma, beta),
        trained_torch(
            lambda x, w, b: functional.layer_norm(x, (768,), w, b),
            *([tensor(*tokens), tensor(768), tensor(768)] if TORCH else []),
        ),
        5 * token_bytes,
    )
    add(
        "softmax 1024 forward and backward",
        trained(lambda x: nd.softmax(x, axis=-1), array(*wide)),
        trained_torch(lambda x: functional.softmax(x, -1), *([tensor(*wide)] if TORCH else [])),
        5 * wide_bytes,
    )
    weight = table.copy()
    torch_ids = torch.randint(0, 30522, (n * 128,), device="cuda") if TORCH else None
    add(
        "Embedding forward and backward",
        trained(lambda w: nd.Embedding(ids, w, input_dim=30522, output_dim=768), weight),
        trained_torch(
            lambda w: functional.embedding(torch_ids, w),
            *([tensor(30522, 768)] if TORCH else []),
        ),
        4 * token_bytes + 2 * 2 * 30522 * 768,
    )
    parameter = nd.random.normal(shape=(30522, 768), ctx=mx.gpu(0))
    gradient, mean, variance = (nd.ones_like(parameter) for _ in range(3))
    r1, r2 = (nd.ones((1,), ctx=mx.gpu(0)) for _ in range(2))

    def lamb() -> None:
        update = nd.lamb_update_phase1(parameter, gradient, mean, variance, t=1, wd=0.01)
        nd.lamb_update_phase2(parameter, update, r1, r2, lr=1e-3, out=parameter)

    add("LAMB update 30522 x 768", lamb, None, 4 * 9 * 30522 * 768)

    def attention(qkv: nd.NDArray) -> nd.NDArray:
        scores = nd.contrib.interleaved_matmul_selfatt_qk(qkv, heads=heads)
        return nd.contrib.interleaved_matmul_selfatt_valatt(qkv, nd.softmax(scores), heads=heads)

    add(
        "attention 128 x 64, 12 heads, forward and backward",
        trained(attention, query),
        trained_torch(
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
            *([tensor(n, heads, length, units) for _ in range(3)] if TORCH else []),
        ),
        3 * 4 * pairs * units,
        "TFLOP/s",
    )
    for batch, long in ((n, 128), (max(1, n // 16), 2048)):
        add(
            f"fused attention {long} x 64, 12 heads, forward and backward",
            trained(
                nd.contrib.dot_product_attention,
                *(array(batch, heads, long, units) for _ in range(3)),
            ),
            trained_torch(
                lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
                *([tensor(batch, heads, long, units) for _ in range(3)] if TORCH else []),
            ),
            3.5 * 4 * batch * heads * long * long * units,  # backward computes the scores again
            "TFLOP/s",
        )
    count = max(8, int(8192 * scale))
    hidden, targets = array(count, 768), nd.zeros((count,), ctx=mx.gpu(0))
    logits, objective = array(count, 50257), gluon.loss.SoftmaxCrossEntropyLoss()
    for words in (50257, 50304):  # the vocabulary of GPT-2, and the next multiple of 64
        words_weight, linear = array(words, 768), functional.linear if TORCH else None
        add(
            f"product with a vocabulary of {words}, forward and backward",
            trained(
                lambda x, w, words=words: nd.FullyConnected(x, w, num_hidden=words, no_bias=True),
                hidden.copy(),
                words_weight,
            ),
            trained_torch(linear, *([tensor(count, 768), tensor(words, 768)] if TORCH else [])),
            3 * 2 * count * 768 * words,
            "TFLOP/s",
        )
    add(
        "SoftmaxCrossEntropyLoss 50257, forward and backward",
        trained(lambda x: objective(x, targets), logits),
        trained_torch(
            lambda x: functional.cross_entropy(
                x, torch.zeros(count, device="cuda", dtype=torch.int64)
            ),
            *([tensor(count, 50257)] if TORCH else []),
        ),
        3 * 2 * count * 50257,
    )
    size = max(256, int(8192 * scale))
    a, b = array(size, size), array(size, size)
    ta, tb = tensor(size, size), tensor(size, size)
    add(
        f"dot {size}",
        lambda: nd.dot(a, b),
        (lambda: ta @ tb) if TORCH else None,
        2 * size**3,
        "TFLOP/s",
    )
    left, right, images, filters = (
        nd.random.randint(-127, 128, shape, ctx=mx.gpu(0)).astype("int8")
        for shape in ((size, size), (size, size), image, (64, 64, 3, 3))
    )
    ends = 2 * [nd.full((1,), end, ctx=mx.gpu(0)) for end in (-1, 1)]
    int8 = [torch.ones(size, size, device="cuda", dtype=torch.int8) for _ in range(2 * TORCH)]
    add(
        f"int8 fully connected {size}",
        lambda: nd.contrib.quantized_fully_connected(
            left, right, *ends, num_hidden=size, no_bias=True
        ),
        (lambda: torch._int_mm(int8[0], int8[1].t())) if TORCH else None,
        2 * size**3,
        "TFLOP/s",
    )
    add(
        "int8 convolution 3x3, 64 channels, with packing",
        lambda: nd.contrib.quantized_conv(
            images, filters, *ends, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True
        ),
        None,
        2 * 9 * 64 * n * 64 * 56 * 56,
        "TFLOP/s",
    )
    return out


def main() -> int:
    """Measure the operators, write the figures and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    figures: list[dict[str, Any]] = []
    print(f"{'':<52} {'mxlite':>10} {'PyTorch':>10}")
    for row in rows(options.scale):
        factor = row.amount / (1e9 if row.unit == "GB/s" else 1e12)
        figure: dict[str, Any] = {"name": row.name, "unit": row.unit}
        figures.append(figure)
        try:
            if options.once:
                row.mxlite()
                nd.waitall()
                continue
            mine = factor / seconds(row.mxlite, nd.waitall)
            theirs = factor / seconds(row.torch, torch.cuda.synchronize) if row.torch else None
        except Exception as error:  # continues with the other operators
            figure["error"] = f"{type(error).__name__}: {error}"
            text = f"{row.name:<52} {figure['error']}"
        else:
            figure.update(mxlite=mine, torch=theirs)
            text = f"{row.name:<52} {mine:>10.2f} {theirs or float('nan'):>10.2f} {row.unit}"
        Path(options.json).write_text(json.dumps(figures))  # now, in case the run is cut short
        print(text, flush=True)
    return 1 if any("error" in figure for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
