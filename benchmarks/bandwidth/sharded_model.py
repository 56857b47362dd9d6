"""Time of a training step whose largest table is divided among GPUs by rows.

    python benchmarks/bandwidth/sharded_model.py

A step on P GPUs is that of the replicated layers, whose gradients are summed as in
scaling_model.py, followed by exchanges that do not overlap with computing:

- Wide & Deep: ids of the whole batch to all GPUs, then rows of the table to the GPU that needs
  them, and their gradients back. Computing takes a constant and a time for each row of the batch.
- faces: features of the whole batch to all GPUs, two sums of a number for each face, and gradients
  of the features back. With the mode ``data`` the classes are replicated, so their gradients are
  summed instead.

The command compares predictions with DLPerf's tables. The rows of 1 GPU are the measured compute.
For faces, the rows of 8 GPUs say how much the steps of GPUs vary. For Wide & Deep, two batches of
8 GPUs give what several GPUs spend in each step, and for each id, besides the links' time.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
from scaling_model import Cluster, Layer, Work, fitted_variation, predict_step  # noqa: E402

PUBLISHED = HERE.parent / "published"
FIELDS, DENSE_FIELDS, FEATURES = 26, 13, 512
VARIATION = 0.02


def wide_deep_layers(dim: int, layers: int, hidden: int = 1024) -> list[Layer]:
    """Return the replicated layers of Wide & Deep."""
    found, inputs = [], FIELDS * dim + DENSE_FIELDS
    for outputs in [hidden] * layers + [1]:
        found.append(Layer([inputs * outputs, outputs], inputs * outputs))
        inputs = outputs
    return found


def face_layers(network: str) -> list[Layer]:
    """Return the layers of a network of faces: ``r100``, ``r50`` or ``y1``."""
    if network == "y1":  # a million parameters, too few for their division to matter
        return [Layer([20_000], 1.0) for _ in range(50)]
    units = {"r100": (3, 13, 30, 3), "r50": (3, 4, 14, 3)}[network]
    layers, channels = [Layer([3 * 64 * 9], 3 * 64 * 9 * 112**2)], 64
    for stage, (count, filters) in enumerate(zip(units, (64, 128, 256, 512))):
        side = 56 >> stage
        for unit in range(count):
            area = (2 * side) ** 2 if unit == 0 else side**2
            layers.append(Layer([9 * channels * filters], 9 * channels * filters * area))
            layers.append(Layer([9 * filters * filters], 9 * filters * filters * side**2))
            channels = filters
    layers.append(Layer([FEATURES * 49 * 512], FEATURES * 49 * 512))
    return layers


def all_gather(cluster: Cluster, gpus: int, own_bytes: float) -> float:
    """Return the seconds in which each GPU gets ``own_bytes`` of every other one."""
    local = min(gpus, cluster.gpus_per_node)
    nodes = max(1, gpus // cluster.gpus_per_node)
    inside = (local - 1) * (cluster.node_latency + nodes * own_bytes / cluster.node_bandwidth)
    return inside + (nodes - 1) * (cluster.net_latency + local * own_bytes / cluster.net_bandwidth)


@dataclasses.dataclass
class Lookup:
    """Time that several GPUs spend in a step besides the links': a constant, and for each id.

    OneFlow divides tables by columns, so every GPU looks up all ids of the batch.
    """

    step_seconds: float = 0.0
    id_seconds: float = 0.0

    def seconds(self, ids: float) -> float:
        """Return the seconds for a number of ids of all GPUs."""
        return self.step_seconds + ids * self.id_seconds


def all_to_all(cluster: Cluster, gpus: int, own_bytes: float) -> float:
    """Return the seconds in which each GPU sends ``own_bytes``, an equal part to every GPU."""
    local = min(gpus, cluster.gpus_per_node)
    if gpus == 1:
        return 0.0
    seconds = cluster.node_latency + (local - 1) / gpus * own_bytes / cluster.node_bandwidth
    if gpus > local:  # the GPUs of a node share its adapter
        outside = (gpus - local) / gpus * local * own_bytes
        seconds += cluster.net_latency + outside / cluster.net_bandwidth
    return seconds


def wide_deep_seconds(
    one: float,
    batch: int,
    gpus: int,
    table: tuple[int, int],
    cluster: Cluster,
    lookup: Lookup | None = None,
) -> float:
    """Return the seconds of a step of Wide & Deep.

    Parameters
    ----------
    one : float
        Seconds of a single GPU with the batch of one of the GPUs.
    batch : int
        Rows of each GPU.
    gpus : int
        Number of GPUs.
    table : tuple of two int
        Numbers in a row of the table, hidden layers.
    cluster : Cluster
        Links.
    lookup : Lookup, optional
        Additional time of several GPUs.
    """
    dim, layers = table
    work = Work.of_layers(wide_deep_layers(dim, layers), one, 4.0)
    seconds = predict_step(work, cluster, gpus, variation=VARIATION).total
    if gpus == 1:
        return seconds
    rows = 4.0 * batch * FIELDS * dim
    seconds += all_gather(cluster, gpus, 4.0 * batch * FIELDS) + 2 * all_to_all(cluster, gpus, rows)
    return seconds if lookup is None else seconds + lookup.seconds(gpus * batch * FIELDS)


def face_work(network: str, classes: int, mode: str, one: float, bytes_per_element: float) -> Work:
    """Return the work of a GPU, with the classes if they are replicated."""
    layers = face_layers(network)
    if mode == "data":
        layers.append(Layer([classes * FEATURES], classes * FEATURES))
    return Work.of_layers(layers, one, bytes_per_element)


def face_exchange(batch: int, gpus: int, mode: str, cluster: Cluster) -> float:
    """Return the seconds of the exchanges of divided classes."""
    if mode == "data" or gpus == 1:
        return 0.0
    features = all_gather(cluster, gpus, 4.0 * batch * FEATURES)
    return 2 * features + 2 * cluster.message(4.0 * batch * gpus, gpus, "all-reduce")


def _points(rows: list[dict[str, Any]], **wanted: Any) -> dict[int, float]:
    """Return OneFlow's seconds by batch of the rows of 1 GPU with such values."""
    return {
        row["batch"]: row["OneFlow"]["ms"] / 1e3
        for row in rows
        if row["devices"] == 1 and all(row[key] == value for key, value in wanted.items())
    }


def check_wide_deep(cluster: Cluster) -> dict[str, list[float]]:
    """Return the errors of OneFlow's rows of several GPUs, as shares, by table."""
    rows = json.loads((PUBLISHED / "dlperf_wide_deep.json").read_text())["rows"]
    sweep = _points(rows, table="batch")
    slope = (sweep[16384] - sweep[512]) / (16384 - 512)
    constant = sweep[512] - 512 * slope

    def predicted(row: dict[str, Any], lookup: Lookup | None) -> float:
        table, batch = (row["dim"], row["layers"]), row["batch"] // row["devices"]
        known = _points(rows, dim=row["dim"], layers=row["layers"])[16384]
        one = constant + (known - constant) * batch / 16384
        return wide_deep_seconds(one, batch, row["devices"], table, cluster, lookup)

    several = [row for row in rows if row["devices"] > 1]
    fitted = [row for row in several if row["table"] == "batch" and row["batch"] in (512, 131072)]
    rests = [row["OneFlow"]["ms"] / 1e3 - predicted(row, None) for row in fitted]
    ids = [row["batch"] * FIELDS for row in fitted]
    id_seconds = (rests[1] - rests[0]) / (ids[1] - ids[0])
    lookup = Lookup(rests[0] - ids[0] * id_seconds, id_seconds)
    errors: dict[str, list[float]] = {}
    for row in several:
        if row not in fitted:
            name = f"OneFlow, {row['table']}, {row['devices']} GPUs"
            error = predicted(row, lookup) / row["OneFlow"]["ms"] * 1e3 - 1
            errors.setdefault(name, []).append(error)
    return errors


def check_faces(cluster: Cluster) -> dict[str, list[float]]:
    """Return the errors of the rows of faces, as shares, by framework.

    1 GPU is the measured compute, and how much steps vary is fitted to 8 GPUs, as in
    scaling_model.py; 4, 16 and 32 GPUs are predicted.
    """
    content = json.loads((PUBLISHED / "dlperf_faces.json").read_text())
    errors: dict[str, list[float]] = {}
    for row in content["rows"]:
        rates = {int(gpus): rate for gpus, rate in row["rates"].items()}
        batch, mode, classes = row["batch"], row["mode"], content["classes_of_data"][row["data"]]
        work = face_work(row["network"], classes, mode, batch / rates[1], 4.0)
        fitted = 8 * batch / rates[8] - face_exchange(batch, 8, mode, cluster)
        variation = fitted_variation(work, cluster, 8, fitted)
        for gpus in sorted(set(rates) - {1, 8}):
            seconds = predict_step(work, cluster, gpus, variation=variation).total
            seconds += face_exchange(batch, gpus, mode, cluster)
            name = f"{row['framework']}, {row['network']}, {gpus} GPUs"
            errors.setdefault(name, []).append(gpus * batch / seconds / rates[gpus] - 1)
    return errors


def error_table(errors: dict[str, list[float]]) -> str:
    """Return mean absolute and largest errors of each part."""
    rows = [
        [
            name,
            str(len(found)),
            f"{statistics.fmean(map(abs, found)):.1%}",
            f"{max(found, key=abs):+.1%}",
        ]
        for name, found in errors.items()
    ]
    return common.table(["published cells", "number", "mean error", "largest"], rows)


def main() -> int:
    """Print the errors."""
    cluster = Cluster()
    print(error_table(check_wide_deep(cluster)))
    print(error_table(check_faces(cluster)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
