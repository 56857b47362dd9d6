"""Time of every operator (MXNet 1.x: ``benchmark/opperf/opperf.py``), its options and files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import mxlite as mx
from cases import ALL, Case
from common import progress
from on_mxlite import function
from output import to_json, to_markdown
from performance import run_performance_test
from values import arrays


def parse_context(text: str) -> Any:
    """Return the context that ``cpu``, ``gpu`` or ``gpu(1)`` names."""
    name, _, rest = text.partition("(")
    number = rest.rstrip(")") or "0"
    if name not in ("cpu", "gpu") or not number.isdigit():
        raise SystemExit(f"opperf: --ctx must be cpu, gpu or gpu(<number>), got {text}")
    if name == "gpu" and int(number) >= mx.num_gpus():
        raise SystemExit(
            f"opperf: --ctx must be one of the {mx.num_gpus()} usable GPUs, got {text}"
        )
    return mx.Context(name, int(number))


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--ctx", default="cpu", help="cpu, gpu or gpu(<number>)")
    p.add_argument("--dtype", default="float32", help="float32, float64, int32 or int64")
    p.add_argument("-f", "--output-format", default="json", choices=("json", "md"))
    p.add_argument("-o", "--output-file", default="./mxnet_operator_benchmarks.json")
    p.add_argument("-p", "--profiler", default="native", choices=("native", "python"))
    p.add_argument("-w", "--warmup", type=int, default=25)
    p.add_argument("-r", "--runs", type=int, default=100)
    return p


def measure(case: Case, options: argparse.Namespace, ctx: Any) -> list[dict[str, Any]]:
    """Return the rows of one case, its arrays replaced by their shapes."""
    values = arrays(case, options.dtype)
    inputs = {k: mx.nd.array(v, ctx=ctx, dtype=v.dtype) for k, v in values.items()}
    shapes = {k: tuple(v.shape) for k, v in values.items()}
    rows = run_performance_test(
        function(case.op),
        {**inputs, **case.params},
        run_backward=bool(case.grad),
        dtype=options.dtype,
        ctx=ctx,
        profiler=options.profiler,
        warmup=options.warmup,
        runs=options.runs,
    )
    for row in next(iter(rows[0].values())):
        row["inputs"] = {**shapes, **case.params}
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; returns 1 when an operator failed."""
    options = parser().parse_args(arguments)
    target = Path(options.output_file)
    if target.exists():
        raise SystemExit(f"opperf: output file {target} exists; name another with -o")
    if options.runs < 1 or options.warmup < 0:
        raise SystemExit(
            "opperf: --runs must be at least 1 and --warmup at least 0, got "
            f"{options.runs} and {options.warmup}"
        )
    ctx = parse_context(options.ctx)
    results: dict[str, list[dict[str, Any]]] = {}
    failures = []
    for case in progress(ALL, len(ALL), "opperf"):
        try:
            for name, rows in measure(case, options, ctx)[0].items():
                results.setdefault(name, []).extend(rows)
        except mx.MXNetError as error:
            failures.append(f"{case.op}: {error}")
    write = to_json if options.output_format == "json" else to_markdown
    write(target, results, options.profiler)
    covered = {case.op.rpartition(".")[2] for case in ALL}
    missing = sorted({n for n in dir(mx.nd.op) if not n.startswith("_")} - covered)
    print("operators without a benchmark:")
    for number, name in enumerate(missing):
        print(f"{number}. {name}")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
