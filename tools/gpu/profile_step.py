"""Measure a training step on a GPU: time, kernels by time, CUDA graphs and memory.

    python3 tools/gpu/profile_step.py --network resnetv1-50 --batch 256 --json FILE

Networks are those of benchmarks/peers, and gpt2 (124 million parameters, 1024 tokens, Adam). BERT
is gluon.contrib's, with lengths, dropout and LAMB. The profile comes from steps after those that
are timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/peers")]

import mxlite as mx  # noqa: E402
import networks  # noqa: E402
from mxlite import autograd, gluon, nd, profiler  # noqa: E402
from mxlite.gluon.contrib.nn.transformer import BERTModel, GPTModel  # noqa: E402
from peer_values import bert_length  # noqa: E402


def make_step(network: str, batch: int, dtype: str) -> Any:
    """Return a function that trains one step and returns the losses."""
    ctx = mx.gpu(0)
    length = bert_length(network)
    net: Any
    inputs: list[nd.NDArray]
    labels = None
    optimizer, rate = "adam", {"learning_rate": 1e-4}
    if network == "gpt2":
        words = 50257
        net = GPTModel(words, 768, num_layers=12, num_heads=12, max_length=1024, dropout=0.1)
        net.initialize(mx.init.Normal(0.02), ctx=ctx)
        inputs = [nd.random.randint(0, words, (batch, 1024), ctx=ctx).astype("int32")]
        labels = inputs[0].astype("float32")
    elif length:  # the first token's features are classified
        net = BERTModel(max_length=length, use_pooler=True)
        net.initialize(mx.init.Normal(0.02), ctx=ctx)
        tokens = nd.random.randint(0, 30522, (batch, length), ctx=ctx).astype("float32")
        lengths = nd.random.randint(length // 2, length + 1, (batch,), ctx=ctx).astype("int32")
        inputs = [tokens, nd.zeros_like(tokens), lengths]
        optimizer, rate = "lamb", {"learning_rate": 1e-3}
    else:
        net = networks.build(network)
        net.initialize(mx.init.Xavier(), ctx=ctx, force_reinit=True)
        shape = (batch, *networks.example(network).shape[1:])
        inputs = [nd.random.uniform(shape=shape, ctx=ctx).astype(dtype)]
        optimizer, rate = "sgd", {"learning_rate": 0.01, "momentum": 0.9}
    net.cast(dtype)
    net.hybridize(static_alloc=True, static_shape=True)
    if labels is None:
        labels = nd.random.randint(0, 768 if length else 1000, (batch,), ctx=ctx).astype("float32")
    objective = gluon.loss.SoftmaxCrossEntropyLoss()
    objective.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {**rate, "multi_precision": True})

    def step() -> nd.NDArray:
        with autograd.record():
            output = net(*inputs)
            features = output[1] if length else output
            # The gradient of GPT-2's scores is in bfloat16, as is usual, because it has 0.8 GB.
            if network != "gpt2":
                features = features.astype("float32")
            loss = objective(features, labels)
        loss.backward()
        trainer.step(batch)
        return loss

    return step


def timed(step: Any, steps: int) -> float:
    """Return the seconds per step of some steps."""
    nd.waitall()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    nd.waitall()
    return (time.perf_counter() - begin) / steps


def main() -> int:
    """Measure and profile steps, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "network": options.network,
        "batch": options.batch,
        "dtype": options.dtype,
    }

    def keep(**found: Any) -> None:
        # Keeps the results so far in case the run is cut short.
        figures.update(found)
        Path(options.json).write_text(json.dumps(figures, default=str))

    step = make_step(options.network, options.batch, options.dtype)
    begin = time.perf_counter()
    first = float(step().mean().asscalar())
    first_seconds = time.perf_counter() - begin
    # CUPTI names kernels of graphs only if they are recorded while it traces.
    profiler.set_config(profile_all=True, aggregate_stats=True, filename="/dev/null")
    profiler.set_state("run")
    timed(step, 3)
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    keep(first_step_seconds=round(first_seconds, 3), first_loss=first)
    timed(step, min(5, options.steps))
    seconds = timed(step, options.steps)
    last = float(step().mean().asscalar())
    keep(
        step_seconds=round(seconds, 6),
        examples_per_second=round(options.batch / seconds, 2),
        last_loss=last,
        graphs=mx._core.device_graph_stats(),
        memory=mx.runtime.memory_stats(mx.gpu(0)),
    )
    profiler.set_state("run")
    timed(step, 3)
    profiler.set_state("stop")
    times = json.loads(profiler.dumps(format="json", reset=True))["Time"]
    operators, kernels = (
        sorted(times.get(name, {}).items(), key=lambda row: -row[1]["Total"])
        for name in ("gpu/0", "gpu/0 kernels")
    )
    keep(
        operators=[{"name": name, **row} for name, row in operators],
        kernels=[{"name": name, **row} for name, row in kernels],  # only with CUPTI
        memory_by_block=profiler.memory_by_block().get("gpu(0)", {}),
    )
    print(
        f"{options.network} batch {options.batch} {options.dtype}: {seconds * 1e3:.2f} ms a step, "
        f"{options.batch / seconds:.1f} examples/s; the first took {first_seconds:.1f} s"
    )
    for name, row in (kernels or operators)[:30]:
        print(f"  {name:<40} {row['Count']:>6} {row['Total'] / 3:>10.3f} ms a step")
    return 0 if first == first and last < float("inf") else 1


if __name__ == "__main__":
    sys.exit(main())
