"""Predicts the speed of a training job on 1 to 1,024 GPUs by a model, and checks the model.

    python benchmarks/bandwidth/scaling_model.py check --json check.json --plot check.png
    python benchmarks/bandwidth/scaling_model.py predict --model resnet50 --rate 392 --batch 128
    python benchmarks/bandwidth/scaling_model.py predict --measured net.json --rate 392 --batch 128

A step is forward, backward and update on each GPU. Gradients become ready while backward runs, in
the reverse order of layers and in proportion to the layers' work; they are fused up to ``--fusion``
bytes and sent one message after the other. A step waits for the messages that are not finished when
backward ends. A message of m bytes on n nodes of g GPUs takes, with latency a and bandwidth b of
the links in a node and A and B of a node's adapter,

- all-reduce: the better of rings, 2 (g - 1) (a + m / (g b)) + 2 (n - 1) (A + m / (n B)), and trees
  between nodes, 2 log2(n) A + 2 m / B in place of the second term;
- parameter server: 2 (g - 1) (a + m / (g b)) + 2 (A + max(1, n / s) m (n - 1) / (n B)) with s
  servers (one per node unless given), each holding an equal share of every large array.

The slowest of p GPUs determines the time: with steps that vary by a share v, computing takes 1 + v
sqrt(2 ln p) times as long as on one GPU. ``check`` takes each row of DLPerf's tables
(``benchmarks/published/dlperf.json``): the rate of 1 GPU gives the time of computing, v is fitted
to 8 GPUs (one node), and the rates of 16 and 32 GPUs are predicted and compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from command_line import add_options  # noqa: E402

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parent / "published" / "dlperf.json"
GPUS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
# Share of the forward pass in a step without communication; the rest is backward.
FORWARD_SHARE = 1 / 3


@dataclasses.dataclass
class Layer:
    """Parameters of one layer, in elements, and its work in any unit."""

    sizes: list[int]
    work: float


def resnet50() -> list[Layer]:
    """Return the layers of ResNet-50 v1 for images of 224 x 224, first to last."""
    layers = []

    def conv(channels: int, filters: int, kernel: int, side: int) -> None:
        weights = channels * filters * kernel * kernel
        layers.append(Layer([weights, filters, filters], weights * side * side))

    conv(3, 64, 7, 112)
    channels = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        side = 56 >> stage
        for block in range(blocks):
            conv(channels, width, 1, side)
            conv(width, width, 3, side)
            conv(width, 4 * width, 1, side)
            if block == 0:
                conv(channels, 4 * width, 1, side)
            channels = 4 * width
    layers.append(Layer([2048 * 1000, 1000], 2048 * 1000))
    return layers


def bert(count: int = 12, hidden: int = 768, length: int = 128) -> list[Layer]:
    """Return the layers of BERT with its two pre-training heads, first to last."""
    inner, words = 4 * hidden, 30522
    # The decoder shares the word embedding, whose gradient is complete at the very end.
    layers = [Layer([words * hidden, 512 * hidden, 2 * hidden, hidden, hidden], 0.0)]
    for _ in range(count):
        for inputs, outputs in ((hidden, hidden),) * 4 + ((hidden, inner), (inner, hidden)):
            layers.append(Layer([inputs * outputs, outputs], inputs * outputs))
        layers[-1].sizes += [hidden] * 4
        layers[-1].work += 2 * length * hidden
    layers.append(Layer([hidden * hidden, hidden, 2 * hidden, 2], 0.0))
    # 20 masked words of a sentence pass the decoder.
    layers.append(
        Layer([hidden * hidden, hidden, hidden, hidden, words], words * hidden * 20 / length)
    )
    return layers


MODELS = {"resnet50": resnet50, "bert-base": bert}


@dataclasses.dataclass
class Cluster:
    """Links: seconds of latency and bytes per second that messages reach."""

    gpus_per_node: int = 8
    node_latency: float = 5e-6
    node_bandwidth: float = 120e9
    net_latency: float = 20e-6
    net_bandwidth: float = 10.6e9  # 85 % of 100 Gb/s
    servers: int = 0  # 0 means one per node

    def message(self, bytes_: float, gpus: int, method: str) -> float:
        """Return the seconds of one message that all GPUs reduce."""
        local = min(gpus, self.gpus_per_node)
        nodes = max(1, gpus // self.gpus_per_node)
        seconds = 2 * (local - 1) * (self.node_latency + bytes_ / local / self.node_bandwidth)
        if nodes == 1:
            return seconds
        if method == "server":
            servers = self.servers or nodes
            share = max(1.0, nodes / servers) * (nodes - 1) / nodes
            return seconds + 2 * (self.net_latency + share * bytes_ / self.net_bandwidth)
        ring = 2 * (nodes - 1) * (self.net_latency + bytes_ / nodes / self.net_bandwidth)
        tree = 2 * math.log2(nodes) * self.net_latency + 2 * bytes_ / self.net_bandwidth
        return seconds + min(ring, tree)


@dataclasses.dataclass
class Work:
    """One GPU's step: seconds, and the time at which each gradient is ready."""

    forward: float
    backward: float
    update: float
    gradients: list[tuple[float, float]]  # share of backward that is done, bytes; in this order

    @staticmethod
    def of_layers(
        layers: list[Layer], seconds: float, bytes_per_element: float, update: float = 0.0
    ) -> Work:
        """Split a measured step by the layers' work."""
        total = sum(layer.work for layer in layers) or 1.0
        done, gradients = 0.0, []
        for layer in reversed(layers):
            done += layer.work / total
            gradients += [(done, size * bytes_per_element) for size in layer.sizes]
        rest = seconds - update
        return Work(rest * FORWARD_SHARE, rest * (1 - FORWARD_SHARE), update, gradients)


@dataclasses.dataclass
class Step:
    """A predicted step in seconds."""

    total: float
    communication: float
    hidden: float  # part of the communication that runs beside backward


def predict_step(
    work: Work,
    cluster: Cluster,
    gpus: int,
    *,
    method: str = "all-reduce",
    fusion: float = 64 << 20,
    overlap: bool = True,
    variation: float = 0.0,
) -> Step:
    """Return the step of ``gpus`` GPUs, each with the same batch."""
    slower = 1 + variation * math.sqrt(2 * math.log(gpus)) if gpus > 1 else 1.0
    forward, backward = work.forward * slower, work.backward * slower
    computed = forward + backward
    if gpus == 1:
        return Step(computed + work.update, 0.0, 0.0)
    free = 0.0  # time at which the link is free
    communication = hidden = 0.0
    waiting = 0.0
    pending = [(forward + backward * (done if overlap else 1.0), size) for done, size in
               work.gradients]  # fmt: skip
    index = 0
    while index < len(pending):
        # A bucket takes all gradients that are ready when the link is free, up to the fusion
        # threshold.
        start = max(free, pending[index][0])
        waiting = pending[index][1]
        index += 1
        while (
            index < len(pending)
            and pending[index][0] <= start
            and waiting + pending[index][1] <= fusion
        ):
            waiting += pending[index][1]
            index += 1
        seconds = cluster.message(waiting, gpus, method)
        free = start + seconds
        communication += seconds
        hidden += max(0.0, min(free, computed) - start)
    return Step(max(computed, free) + work.update, communication, hidden)


def fitted_variation(work: Work, cluster: Cluster, gpus: int, seconds: float) -> float:
    """Return the variation with which ``gpus`` GPUs take this time; 0 if they take more anyway."""
    low, high = 0.0, 4.0
    if predict_step(work, cluster, gpus).total >= seconds:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if predict_step(work, cluster, gpus, variation=middle).total < seconds:
            low = middle
        else:
            high = middle
    return low


def check(cluster: Cluster) -> dict[str, Any]:
    """Compare predictions with DLPerf's tables."""
    tables = json.loads(PUBLISHED.read_text())
    cluster.gpus_per_node = tables["gpus_per_node"]
    node = cluster.gpus_per_node
    rows = []
    for row in tables["rows"]:
        rates = {int(gpus): rate for gpus, rate in row["rates"].items()}
        batch = row["batch"]
        work = Work.of_layers(MODELS[row["model"]](), batch / rates[1], row["gradient_bytes"])
        variation = fitted_variation(work, cluster, node, node * batch / rates[node])
        found = []
        for gpus, rate in sorted(rates.items()):
            step = predict_step(work, cluster, gpus, variation=variation)
            predicted = gpus * batch / step.total
            found.append(
                {
                    "gpus": gpus,
                    "measured": rate,
                    "predicted": round(predicted, 2),
                    "error": round(predicted / rate - 1, 4),
                    "fitted": gpus in (1, node),
                    "hidden": round(step.hidden / step.communication, 3) if gpus > 1 else None,
                }
            )
        name = {"name": row["name"], "model": row["model"]}
        rows.append({**name, "variation": round(variation, 4), "points": found})
    errors = [p["error"] for row in rows for p in row["points"] if p["gpus"] > node]
    within = [p["error"] for row in rows for p in row["points"] if 1 < p["gpus"] < node]
    return {
        "source": tables["source"],
        "rows": rows,
        "points_beyond_the_fit": len(errors),
        "mean_absolute_error": round(statistics.fmean(abs(e) for e in errors), 4),
        "largest_error": round(max(errors, key=abs), 4),
        "points_below_the_fit": len(within),
        "mean_absolute_error_below": round(statistics.fmean(abs(e) for e in within), 4),
        "largest_error_below": round(max(within, key=abs), 4),
    }


def predict(args: argparse.Namespace) -> dict[str, Any]:
    """Predict a job from 1 to 1,024 GPUs, with both ways to exchange gradients."""
    cluster = cluster_of(args)
    if args.measured:
        measured = json.loads(Path(args.measured).read_text())
        work = Work(
            measured["forward"],
            measured["backward"],
            measured.get("update", 0.0),
            [(share, size) for share, size in measured["gradients"]],
        )
        batch = measured["batch"]
    else:
        if not args.rate:
            raise SystemExit(
                "scaling_model: --rate (samples/s of 1 GPU) or --measured must be given"
            )
        batch = args.batch
        work = Work.of_layers(MODELS[args.model](), batch / args.rate, args.gradient_bytes)
    curves: dict[str, list[dict[str, float]]] = {}
    for name, method, overlap in (
        ("all-reduce", "all-reduce", True),
        ("all-reduce, no overlap", "all-reduce", False),
        ("parameter server", "server", True),
    ):
        one = predict_step(work, cluster, 1).total
        points = []
        for gpus in GPUS:
            step = predict_step(
                work,
                cluster,
                gpus,
                method=method,
                fusion=args.fusion,
                overlap=overlap,
                variation=args.variation,
            )
            points.append(
                {
                    "gpus": gpus,
                    "step_seconds": step.total,
                    "rate": gpus * batch / step.total,
                    "efficiency": one / step.total,
                    "communication_seconds": step.communication,
                    "hidden": step.hidden / step.communication if gpus > 1 else 1.0,
                }
            )
        curves[name] = points
    return {
        "gradient_bytes": sum(size for _, size in work.gradients),
        "messages": len(work.gradients),
        "cluster": dataclasses.asdict(cluster),
        "curves": curves,
    }


def cluster_of(args: argparse.Namespace) -> Cluster:
    """Return the cluster that the options describe."""
    return Cluster(
        args.gpus_per_node,
        args.node_latency,
        args.node_bandwidth,
        args.net_latency,
        args.net_bandwidth,
        args.servers,
    )


def print_check(result: dict[str, Any]) -> None:
    """Print the table of ``check``."""
    print(f"{'':>40}{'v':>7}{'GPUs':>6}{'measured':>11}{'predicted':>11}{'error':>8}")
    for row in result["rows"]:
        for number, p in enumerate(row["points"]):
            name, v = (row["name"], f"{row['variation']:.3f}") if number == 0 else ("", "")
            error = "fitted" if p["fitted"] else f"{p['error']:+.1%}"
            line = f"{name:>40}{v:>7}{p['gpus']:>6}{p['measured']:>11.1f}{p['predicted']:>11.1f}"
            print(f"{line}{error:>8}")
    print(
        f"\n{result['points_beyond_the_fit']} points on several nodes: mean absolute error "
        f"{result['mean_absolute_error']:.1%}, largest {result['largest_error']:+.1%}; "
        f"{result['points_below_the_fit']} points within a node: "
        f"{result['mean_absolute_error_below']:.1%}, {result['largest_error_below']:+.1%}"
    )


def print_prediction(result: dict[str, Any]) -> None:
    """Print the table of ``predict``."""
    print(f"{result['gradient_bytes'] / 1e6:.1f} MB of gradients in {result['messages']} arrays\n")
    for name, points in result["curves"].items():
        print(f"{name}\n{'GPUs':>8}{'step ms':>11}{'samples/s':>13}{'efficiency':>12}{'hidden':>9}")
        for p in points:
            print(
                f"{p['gpus']:>8}{p['step_seconds'] * 1e3:>11.2f}{p['rate']:>13.0f}"
                f"{p['efficiency']:>12.1%}{p['hidden']:>9.1%}"
            )
        print()


def plot(result: dict[str, Any], path: str) -> None:
    """Draw efficiency over GPUs: curves of a prediction, or predicted and measured points."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 6))
    if "curves" in result:
        for name, points in result["curves"].items():
            x = [p["gpus"] for p in points]
            axis.semilogx(x, [p["efficiency"] for p in points], base=2, marker="o", label=name)
    else:
        for row in result["rows"]:
            points = row["points"]
            one = points[0]["measured"]
            x = [p["gpus"] for p in points]
            (line,) = axis.semilogx(
                x, [p["predicted"] / p["gpus"] / one for p in points], base=2, label=row["name"]
            )
            axis.scatter(
                x, [p["measured"] / p["gpus"] / one for p in points], color=line.get_color()
            )
        axis.set_title("lines: model, points: DLPerf")
    axis.set(xlabel="GPUs", ylabel="efficiency", ylim=(0, 1.05))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["check", "predict"])
    default = Cluster()
    parser.add_argument("--gpus-per-node", type=int, default=default.gpus_per_node)
    parser.add_argument("--node-latency", type=float, default=default.node_latency, help="s")
    parser.add_argument("--node-bandwidth", type=float, default=default.node_bandwidth, help="B/s")
    parser.add_argument("--net-latency", type=float, default=default.net_latency, help="s")
    parser.add_argument("--net-bandwidth", type=float, default=default.net_bandwidth, help="B/s")
    parser.add_argument("--servers", type=int, default=0, help="0: one per node")
    parser.add_argument("--model", choices=list(MODELS), default="resnet50")
    parser.add_argument("--rate", type=float, help="samples/s of 1 GPU")
    parser.add_argument("--batch", type=int, default=128, help="samples per GPU")
    parser.add_argument("--gradient-bytes", type=float, default=4, help="of one element")
    parser.add_argument("--measured", help="compute and gradients that overlap.py has measured")
    parser.add_argument("--fusion", type=float, default=64 << 20, help="bytes")
    parser.add_argument("--variation", type=float, default=0.02, help="of a step, as a share")
    add_options(parser, "json")
    parser.add_argument("--plot")
    args = parser.parse_args()
    result = check(cluster_of(args)) if args.what == "check" else predict(args)
    if args.what == "check":
        print_check(result)
    else:
        print_prediction(result)
    if args.json:
        common.write_json(args.json, result)
    if args.plot:
        plot(result, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
