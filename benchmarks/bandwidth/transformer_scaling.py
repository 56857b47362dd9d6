"""Predicts the time of GPT training on many GPUs by a model, and checks the model.

    python benchmarks/bandwidth/transformer_scaling.py check --json check.json --plot check.png
    python benchmarks/bandwidth/transformer_scaling.py predict --gpus 32 --hidden 2304 --layers 24 \
        --heads 24 --batch 512

``check`` takes the GPT tables of DLPerf (``published/dlperf_gpt.json``). It finds two constants of
each framework, flops and bytes per second of a GPU, by the two rows of 1 GPU, and predicts the
others with transformer_model.py. One more row shows that OneFlow hides no gradients with tensor
parallelism, so it does not count as predicted. The links are not fitted: a ring of 8 GPUs in a node
has 120 GB/s, the default of scaling_model.py, rings of 4 and 2 GPUs in a V100 mesh 4 and 1 of its 6
links, and all GPUs of a node share one adapter with 85 % of 100 Gb/s.

``predict`` lists the ways to divide a model among GPUs, the fastest first.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
from command_line import add_options  # noqa: E402
from transformer_model import (  # noqa: E402
    UPDATE,
    Job,
    Model,
    Nodes,
    Rates,
    fitted_rates,
    memory_bytes,
    predict,
    stage_parameters,
    stage_work,
)

PUBLISHED = HERE.parent / "published" / "dlperf_gpt.json"
FRAMEWORKS = ("OneFlow", "Megatron-LM")
# OneFlow runs communication beside computing; the Megatron-LM of the tables (version 2) reduces
# gradients after backward and waits for the messages of its stages.
OVERLAPS = {"OneFlow": True, "Megatron-LM": False}
# The row that shows that OneFlow hides no gradients with tensor parallelism.
EXPLAINED = {"OneFlow": "2D_2x8x1_16_2304x24", "Megatron-LM": ""}


def parse_row(row: dict[str, Any], tables: dict[str, Any], framework: str) -> tuple[Model, Job]:
    """Return model and job of a published row."""
    model = Model(
        row["hidden"], row["layers"], row["heads"], tables["length"], tables["vocabulary"]
    )
    parts = (row[name] for name in ("data", "tensor", "pipeline", "micro_batch", "micro_batches"))
    job = Job(*parts, hide_messages=OVERLAPS[framework])
    job.hide_gradients = OVERLAPS[framework] and job.tensor == 1
    return model, job


def check(cluster: Nodes) -> dict[str, Any]:
    """Compare predictions with DLPerf's tables.

    Parameters
    ----------
    cluster : Nodes
        Links between nodes.

    Returns
    -------
    dict
        Rates of each framework, rows with errors, and the mean of the errors that were not fitted.
    """
    tables = json.loads(PUBLISHED.read_text())
    cluster.gpus_per_node = tables["gpus_per_node"]
    rates, rows = {}, []
    for framework in FRAMEWORKS:
        points = []
        for row in tables["rows"]:
            model, job = parse_row(row, tables, framework)
            if job.gpus == 1:
                work = stage_work(model, job, last=True)
                work.bytes_ += UPDATE * stage_parameters(model, job)
                points.append((work, row[framework]["ms"] / 1e3))
        rates[framework] = fitted_rates(points)
    for row in tables["rows"]:
        entry: dict[str, Any] = {"name": row["name"]}
        for framework in FRAMEWORKS:
            model, job = parse_row(row, tables, framework)
            found = predict(model, job, cluster, rates[framework])
            measured = row[framework]["ms"]
            entry[framework] = {
                "measured_ms": measured,
                "predicted_ms": round(found.total * 1e3, 1),
                "error": round(found.total * 1e3 / measured - 1, 4),
                "fitted": job.gpus == 1 or row["name"] == EXPLAINED[framework],
                "parts_ms": {
                    name: round(value * 1e3, 1)
                    for name, value in dataclasses.asdict(found).items()
                    if name != "total"
                },
            }
            if "mib" in row[framework]:
                entry[framework]["measured_mib"] = row[framework]["mib"]
                entry[framework]["predicted_mib"] = round(memory_bytes(model, job) / 2**20)
        rows.append(entry)
    summary = {}
    for framework in FRAMEWORKS:
        errors = [row[framework]["error"] for row in rows if not row[framework]["fitted"]]
        summary[framework] = {
            "tflops": round(rates[framework].flops / 1e12, 2),
            "gb_per_second": round(rates[framework].bandwidth / 1e9, 1),
            "predicted_rows": len(errors),
            "mean_absolute_error": round(statistics.fmean(map(abs, errors)), 4),
            "median_absolute_error": round(statistics.median(map(abs, errors)), 4),
            "largest_error": max(errors, key=abs),
        }
    memory: dict[str, list[float]] = {"one_stage": [], "several_stages": []}
    for row, entry in zip(tables["rows"], rows):
        cell = entry["OneFlow"]
        error = cell["predicted_mib"] / cell["measured_mib"] - 1
        memory["one_stage" if row["pipeline"] == 1 else "several_stages"].append(error)
    mean_errors = {name: round(statistics.fmean(map(abs, e)), 4) for name, e in memory.items()}
    return {
        "source": tables["source"],
        "summary": summary,
        "memory_mean_absolute_error": mean_errors,
        "rows": rows,
    }


def show_check(result: dict[str, Any]) -> None:
    """Print the table of ``check``."""
    head = ["case"]
    for framework in FRAMEWORKS:
        head += [f"{framework} ms", "predicted", "error"]
    rows = []
    for row in result["rows"]:
        cells = [row["name"]]
        for framework in FRAMEWORKS:
            cell = row[framework]
            error = "fitted" if cell["fitted"] else f"{cell['error']:+.1%}"
            cells += [f"{cell['measured_ms']:.0f}", f"{cell['predicted_ms']:.0f}", error]
        rows.append(cells)
    print(common.table(head, rows))
    for framework, found in result["summary"].items():
        print(
            f"{framework}: {found['tflops']} Tflop/s and {found['gb_per_second']} GB/s by the rows "
            f"of 1 GPU; {found['predicted_rows']} predicted rows: mean absolute error "
            f"{found['mean_absolute_error']:.1%}, median {found['median_absolute_error']:.1%}, "
            f"largest {found['largest_error']:+.1%}"
        )
    memory = result["memory_mean_absolute_error"]
    print(
        f"memory of OneFlow: mean absolute error {memory['one_stage']:.1%} with one stage, "
        f"{memory['several_stages']:.1%} with several"
    )


def divisions(model: Model, gpus: int, batch: int, recompute: bool) -> list[Job]:
    """Return the ways to divide a model and a batch among GPUs.

    Parameters
    ----------
    model : Model
    gpus : int
        Their number.
    batch : int
        Sequences of an iteration.
    recompute : bool
        Whether activations are recomputed.

    Returns
    -------
    list of Job
        Those in which GPUs, heads, layers and batch divide; micro-batches of 1, 2, 4, 8 and 16.
    """
    jobs = []
    for tensor in (t for t in range(1, gpus + 1) if gpus % t == 0 and model.heads % t == 0):
        rest = gpus // tensor
        for pipeline in (p for p in range(1, rest + 1) if rest % p == 0 and model.layers % p == 0):
            data = rest // pipeline
            for micro_batch in (1, 2, 4, 8, 16):
                count, left = divmod(batch, data * micro_batch)
                if count and not left:
                    job = Job(data, tensor, pipeline, micro_batch, count, recompute)
                    job.hide_messages = False
                    jobs.append(job)
    return jobs


def predict_all(args: argparse.Namespace, cluster: Nodes) -> dict[str, Any]:
    """Predict every division of a model that fits into memory, the fastest first.

    Parameters
    ----------
    args : argparse.Namespace
        The command line.
    cluster : Nodes
        Links.

    Returns
    -------
    dict
        ``rows`` with seconds, sequences/s, model flops and memory of a GPU.
    """
    model = Model(args.hidden, args.layers, args.heads, args.length, args.vocabulary)
    rates = Rates(args.flops, args.bandwidth)
    flops = stage_work(model, Job(1, 1, 1, 1, recompute=False), last=True).flops * args.batch
    rows = []
    for job in divisions(model, args.gpus, args.batch, not args.keep_activations):
        memory = memory_bytes(model, job)
        if memory > args.memory * 2**30:
            continue
        found = predict(model, job, cluster, rates)
        rows.append(
            {
                **{name: getattr(job, name) for name in ("data", "tensor", "pipeline")},
                **{name: getattr(job, name) for name in ("micro_batch", "micro_batches")},
                "seconds": found.total,
                "sequences_per_second": args.batch / found.total,
                "model_tflops_per_gpu": flops / found.total / args.gpus / 1e12,
                "memory_gib": memory / 2**30,
                "parts_seconds": dataclasses.asdict(found),
            }
        )
    if not rows:
        raise SystemExit(
            f"transformer_scaling: no division of {args.layers} layers, {args.heads} heads and "
            f"{args.batch} sequences among {args.gpus} GPUs fits into {args.memory:g} GiB each"
        )
    rows.sort(key=lambda row: row["seconds"])
    return {
        "parameters": model.parameters(),
        "cluster": dataclasses.asdict(cluster),
        "rates": dataclasses.asdict(rates),
        "rows": rows,
    }


def show_predictions(result: dict[str, Any], count: int = 12) -> None:
    """Print the fastest divisions."""
    print(f"{result['parameters'] / 1e6:.0f} million parameters")
    head = ["data x tensor x pipeline", "micro-batches", "s", "sequences/s", "Tflop/s", "GiB"]
    rows = []
    for row in result["rows"][:count]:
        rows.append(
            [
                f"{row['data']} x {row['tensor']} x {row['pipeline']}",
                f"{row['micro_batches']} of {row['micro_batch']}",
                f"{row['seconds']:.3f}",
                f"{row['sequences_per_second']:.2f}",
                f"{row['model_tflops_per_gpu']:.1f}",
                f"{row['memory_gib']:.1f}",
            ]
        )
    print(common.table(head, rows))


def plot(result: dict[str, Any], path: str) -> None:
    """Draw predicted over measured times of ``check``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 4.5))
    positions = range(len(result["rows"]))
    for framework, offset in zip(FRAMEWORKS, (-0.2, 0.2)):
        errors = [100 * row[framework]["error"] for row in result["rows"]]
        axis.bar([x + offset for x in positions], errors, width=0.4, label=framework)
    axis.set_xticks(positions, [row["name"] for row in result["rows"]], rotation=60, ha="right")
    axis.tick_params(axis="x", labelsize=7)
    axis.set(ylabel="predicted against measured, %")
    axis.grid(alpha=0.3, axis="y")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["check", "predict"])
    parser.add_argument("--gpus", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=2304)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--heads", type=int, default=24)
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--vocabulary", type=int, default=51200)
    parser.add_argument("--batch", type=int, default=512, help="sequences of an iteration")
    parser.add_argument("--memory", type=float, default=16, help="GiB of a GPU")
    parser.add_argument("--flops", type=float, default=67.6e12, help="flop/s that products reach")
    parser.add_argument("--bandwidth", type=float, default=653e9, help="B/s of a GPU's memory")
    parser.add_argument("--keep-activations", action="store_true", help="no recomputation")
    parser.add_argument(
        "--switch", action="store_true", help="a switch connects the GPUs of a node"
    )
    default = Nodes()
    parser.add_argument("--gpus-per-node", type=int, default=default.gpus_per_node)
    parser.add_argument("--node-bandwidth", type=float, default=default.node_bandwidth, help="B/s")
    parser.add_argument("--net-bandwidth", type=float, default=default.net_bandwidth, help="B/s")
    add_options(parser, "json")
    parser.add_argument("--plot", help="errors of check, a PNG file")
    args = parser.parse_args()
    cluster = Nodes(args.gpus_per_node, mesh=not args.switch)
    cluster.node_bandwidth, cluster.net_bandwidth = args.node_bandwidth, args.net_bandwidth
    if args.what == "check":
        result = check(cluster)
        show_check(result)
    else:
        result = predict_all(args, cluster)
        show_predictions(result)
    if args.json:
        common.write_json(args.json, result)
    if args.plot and args.what == "check":
        plot(result, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
