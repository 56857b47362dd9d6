"""Functions of ``mx.np`` in turns with NumPy's own; a ratio above 1 means that mxlite is faster.

python benchmarks/numpy/functions.py --json out.json
python benchmarks/numpy/functions.py --cpu-time --threads 1  # on a machine with other programs
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from command_line import add_options  # noqa: E402
from common import Timing, progress, report, result, table, write_json  # noqa: E402

# Operands are float32 arrays x and y of shape (rows, 64), m of (64, 64), all in (0.1, 1.1), the
# identity e, k = x * 1000 as int32, b = x > 0.5, and the row numbers i as int64 in random order.
EXPRESSIONS = """
x + y; x - y; x * y; x * 2; x / y; x ** 2; x ** 0.5; x // y; x % y; -x; x > y; x == y; k + k; k * 3;
k // 7; k > 500; b & (x < 0.9); ~b; x.astype('float64'); x.astype('int32'); N.exp(x); N.expm1(x);
N.log(x); N.log1p(x); N.log2(x); N.sqrt(x); N.cbrt(x); N.square(x); N.reciprocal(x); N.sin(x);
N.cos(x); N.tan(x); N.arctan(x); N.tanh(x); N.arctan2(x, y); N.hypot(x, y); N.maximum(x, y);
N.fmin(x, y); N.where(x > 0.5, x, y); N.clip(x, 0.2, 0.8); N.abs(x); N.sign(x); N.isnan(x);
N.isfinite(x); N.rint(x); N.floor(x); N.trunc(x); N.logical_and(x, y);
x.sum(); x.sum(axis=0); x.sum(axis=1); k.sum(axis=1); x.mean(); x.mean(axis=1); x.std(axis=1);
x.var(axis=0); x.max(); x.max(axis=0); x.max(axis=1); k.max(axis=1); x.min(axis=1);
N.ptp(x, axis=1); x.argmax(); x.argmax(axis=0); x.argmax(axis=1); k.argmin(axis=1);
N.cumsum(x, axis=1); x.prod(axis=1); N.any(x > 1); N.all(b, axis=1); N.count_nonzero(b);
N.median(x, axis=1); N.percentile(x, 30, axis=1); N.average(x, axis=1, weights=x);
N.nansum(x, axis=1);
x @ m; N.dot(x, m); N.einsum('ij,kj->ik', x, m); N.tensordot(x, m, 1); N.einsum('ij,ij->i', x, y);
N.matmul(x, m[0]); N.vdot(x, y); N.inner(x, m); N.outer(x[:, 0], m[0]);
N.concatenate([x, y]); N.concatenate([x, y], axis=1); N.stack([x, y]); N.stack([x, y], axis=1);
N.vstack([x, y]); N.split(x, 4); N.transpose(x).copy(); x.reshape(-1, 32).copy(); N.tile(x, (2, 1));
N.repeat(x, 2, axis=0); N.flip(x, 0).copy(); N.roll(x, 1, 0); N.roll(x, 5);
N.pad(x, ((1, 1), (0, 0))); N.broadcast_to(m[0], x.shape) + x; N.tril(x); N.diff(x, axis=1);
N.sort(x, axis=1); N.sort(x, axis=0); N.sort(x, axis=None); N.argsort(x, axis=1); N.unique(k);
N.unique(N.rint(x * 100)); N.searchsorted(N.sort(x[:, 0]), y); N.bincount(k.reshape(-1));
N.histogram(x, bins=10); x[x > 0.5]; x[i]; x[::2].copy(); x[:, 1:].copy(); N.take(x, i, axis=0);
N.take_along_axis(x, N.argsort(y, axis=1), axis=1); N.nonzero(b); N.isin(k, k[0]);
N.linalg.norm(x); N.linalg.norm(x, axis=1); N.linalg.inv(m + 9 * e); N.linalg.svd(m);
N.linalg.solve(m + 9 * e, m); N.linalg.det(m + 9 * e); N.linalg.cholesky(m @ m.T + 9 * e);
N.zeros_like(x); N.ones_like(x); N.full_like(x, 3); N.arange(x.size);
N.linspace(0, 1, x.size); x.copy()
"""
ROWS = {"1 KiB": 4, "1 MiB": 4096, "16 MiB": 65536}
LONGEST_TURN = 0.02  # seconds


def names(size: str, module: Any, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the operands of the expressions in the arrays of a module."""
    import numpy as np

    random, rows = np.random.RandomState(0), ROWS[size]
    x, y, m = (random.uniform(0.1, 1.1, (n, 64)).astype("float32") for n in (rows, rows, 64))
    operands = {"x": x, "y": y, "m": m, "e": np.eye(64, dtype="float32")}
    operands |= {"k": (x * 1000).astype("int32"), "b": x > 0.5, "i": random.randint(0, rows, rows)}
    return {"N": module, **{name: convert(value) for name, value in operands.items()}}


def turn(
    call: Callable[[], Any],
    calls: int,
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds of one call, with those of the last one's result."""
    begin = clock()
    for _ in range(calls):
        call()
    wait()
    return (clock() - begin) / calls


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_options(parser, "json", "threads", rounds=9)
    parser.add_argument("--sizes", nargs="+", choices=ROWS, default=list(ROWS), help="of x and y")
    parser.add_argument("--cpu-time", action="store_true", help="of all threads, not wall time")
    parser.add_argument("--only", default="", metavar="TEXT", help="expressions with this text")
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    os.environ["MXLITE_CPU_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import mxlite as mx
    import numpy as np

    given = [text.strip() for text in EXPRESSIONS.replace("\n", " ").split(";")]
    expressions = [text for text in given if args.only in text]
    results: list[dict[str, Any]] = []
    medians: dict[str, list[float]] = {text: [] for text in expressions}
    for size in args.sizes:
        systems = {
            "mxlite": (names(size, mx.np, mx.np.array), mx.waitall),
            "numpy": (names(size, np, np.asarray), lambda: None),
        }
        for text in progress(expressions, len(expressions), size):
            code = compile(text, text, "eval")
            calls = {
                s: (functools.partial(eval, code, scope), wait)
                for s, (scope, wait) in systems.items()
            }
            first = min(turn(call, 2, wait, clock) for call, wait in calls.values())
            count = max(1, min(2000, int(LONGEST_TURN / max(first, 1e-6))))
            turns: dict[str, list[float]] = {s: [] for s in systems}
            for _ in range(args.rounds):
                for s, (call, wait) in calls.items():
                    turns[s].append(turn(call, count, wait, clock))
            ratio = Timing([b / a for a, b in zip(turns["mxlite"], turns["numpy"])])
            medians[text].append(ratio.median)
            for s, seconds in turns.items():
                timing = Timing(seconds, count)
                results.append(result(f"{text}, {size}, {s}", timing, unit="us", amount=1e6))
            name = f"{text}, {size}, ratio"
            results.append(result(name, ratio, unit="numpy / mxlite", better="higher"))
    rows = [[text, *(f"{v:.2f}" for v in values)] for text, values in medians.items()]
    means = [statistics.geometric_mean(v) for v in zip(*medians.values())]
    rows.append(["geometric mean", *(f"{v:.2f}" for v in means)])
    print(table(["expression", *args.sizes], rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        write_json(args.json, report("numpy functions", settings, results, geometric_means=means))


if __name__ == "__main__":
    main()
