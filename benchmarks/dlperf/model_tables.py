"""DLPerf's tables of GPT, Wide & Deep and faces, and the errors of the models that predict."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bandwidth"))
import scaling_model
import sharded_model
import transformer_scaling
from common import table
from transformer_model import Job, Nodes, Rates, predict, stage_work
from transformer_model import Model as Transformer

from dlperf.cases import Case, step_flops
from dlperf.models import DEVICES, SAMPLING, iteration_flops, numbers

BENCHMARKS = Path(__file__).resolve().parents[1]
FACE_DEVICES = (1, 4, 8, 16, 32)


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((BENCHMARKS / "published" / f"{name}.json").read_text())
    return content


def memory(figures: dict[str, float]) -> float:
    """Return the MiB of the allocator, of the driver, or of the process on a CPU."""
    return figures.get("allocator_mib") or figures.get("driver_mib") or figures["mib"]


def measured(
    content: dict[str, Any], model: str
) -> list[tuple[Case, str, dict[str, Any], dict[str, Any]]]:
    """Return case, system, figures and cell of everything that was measured of a model."""
    return [
        (Case(**cell["case"]), system, figures, cell)
        for cell in content["cells"]
        if cell["case"]["model"] == model
        for system, figures in cell["systems"].items()
    ]


def _milliseconds(case: Case, figures: dict[str, Any]) -> float:
    return 1000 * case.samples / float(figures["median"])


def _transformer(case: Case) -> Transformer:
    layers, units, heads, vocabulary = numbers(case.network)
    return Transformer(units, layers, heads, case.size, vocabulary)


def gpt_rates(content: dict[str, Any]) -> tuple[Case, Rates] | None:
    """Return the rate of mxlite's most work in a step of 1 rank, which predictions start from.

    It is that of the whole step, without a rate of its own for element-wise kernels.
    """
    found = [
        (iteration_flops(case.samples, case.size, *numbers(case.network)[:2], 0), case, figures)
        for case, system, figures, _ in measured(content, "gpt")
        if system.startswith("mxlite") and case.ranks == 1 and case.mode != SAMPLING
        if case.data == "resident"
    ]
    if not found:
        return None
    _, case, figures = max(found, key=lambda entry: entry[0])
    job = Job(1, 1, 1, case.batch, recompute=case.mode.endswith("recompute"))
    flops = stage_work(_transformer(case), job, last=True).flops
    rate = flops / (_milliseconds(case, figures) / 1000)
    return case, Rates(rate, float("inf"))


def _gpt_row(name: str, where: str, devices: int, batch: int, ms: float, mib: str, flops: float,
             peak: float | None) -> list[str]:  # fmt: skip
    tflops = flops / ms / devices / 1e9
    share = "" if peak is None else f"{tflops / peak:.1%}"
    rate = f"{1000 * batch / ms:.2f}"
    cells = [name, where, str(devices), f"{ms:.2f}", mib, rate, f"{tflops:.3f}", share]
    return [*cells, f"{tflops * devices / 1000:.4f}"]


def gpt_tables(content: dict[str, Any]) -> list[str]:
    """Return the 18 published cases with ours, and ours of other sizes."""
    head = ["case", "", "devices", "ms", "MiB", "seq/s", "TFLOP/s a device", "of peak", "PFLOP/s"]
    peaks = {dtype: peak["tflops"] for dtype, peak in content["peaks"].items()}
    published, rows = _read("dlperf_gpt"), []
    start = gpt_rates(content)
    for row in published["rows"]:
        devices = row["data"] * row["tensor"] * row["pipeline"]
        batch = row["data"] * row["micro_batch"] * row["micro_batches"]
        sizes = (published["length"], row["layers"], row["hidden"], published["vocabulary"])
        flops = iteration_flops(batch, *sizes, recompute=True)
        for framework in ("OneFlow", "Megatron-LM"):
            cell = row[framework]
            mib = str(cell.get("mib", ""))
            given = (devices, batch, cell["ms"], mib, flops, 125.0)
            rows.append(_gpt_row(row["name"], f"{framework}, published", *given))
        if start is None:
            continue
        sizes = (row["hidden"], row["layers"], row["heads"])
        model = Transformer(*sizes, published["length"], published["vocabulary"])
        mesh = (row["data"], row["tensor"], row["pipeline"])
        job = Job(*mesh, row["micro_batch"], row["micro_batches"])
        case, rates = start
        ms = 1000 * predict(model, job, Nodes(), rates).total
        peak = peaks.get(case.dtype)
        rows.append(_gpt_row(row["name"], "mxlite, predicted", devices, batch, ms, "", flops, peak))
    parts = [
        "GPT, DLPerf's cases (V100, 2021, activations recomputed; of the peak of 125 TFLOP/s)\n"
        + table(head, rows)
    ]
    if start is not None:
        parts.append(f"predicted from the rate of {start[0].name}, as if all GPUs had it")
    rows = []
    for case, system, figures, _ in measured(content, "gpt"):
        if case.mode == SAMPLING:
            continue
        ms, mib = _milliseconds(case, figures), f"{memory(figures['memory']):.0f}"
        given = (case.ranks, case.samples, ms, mib, step_flops(case), None)
        row = _gpt_row(case.name, system, *given)
        # On a CPU all ranks share one peak.
        row[-2] = "" if figures["mfu"] is None else f"{figures['mfu']:.1%}"
        rows.append(row)
    if start is not None:
        case, rates = start
        for devices in DEVICES[1:]:
            job = Job(devices, 1, 1, case.batch, recompute=case.mode.endswith("recompute"))
            ms = 1000 * predict(_transformer(case), job, Nodes(), rates).total
            layers, units, _, vocabulary = numbers(case.network)
            batch = case.batch * devices
            flops = iteration_flops(batch, case.size, layers, units, vocabulary)
            name = f"{case.name}, data parallel"
            peak = peaks.get(case.dtype)
            rows.append(_gpt_row(name, "mxlite, predicted", devices, batch, ms, "", flops, peak))
    parts.append("GPT here; of the peak as in the table of cases\n" + table(head, rows))
    rows = [
        [case.name, system, f"{figures['median']:.1f}", f"{figures['q1']:.1f}-{figures['q3']:.1f}"]
        for case, system, figures, _ in measured(content, "gpt")
        if case.mode == SAMPLING
    ]
    if rows:
        parts.append("GPT, sampling\n" + table(["case", "system", "tokens/s", "quartiles"], rows))
    return parts


def _published_cell(cell: dict[str, float] | None) -> list[str]:
    return ["OOM", ""] if cell is None else [f"{cell['ms']:.3f}", str(cell["mib"])]


def wide_deep_tables(content: dict[str, Any]) -> list[str]:
    """Return DLPerf's four tables of Wide & Deep, and ours with predictions."""
    parts = []
    published = _read("dlperf_wide_deep")["rows"]
    head = ["devices", "batch", "rows of the table", "dim", "layers"]
    for name in dict.fromkeys(row["table"] for row in published):
        rows = []
        for row in (row for row in published if row["table"] == name):
            ours, theirs = row["OneFlow"], row["HugeCTR"]
            ratio = f"{theirs['ms'] / ours['ms']:.2f}" if ours and theirs else ""
            sizes = (row[key] for key in ("devices", "batch", "vocabulary", "dim", "layers"))
            rows.append([*map(str, sizes), *_published_cell(ours), *_published_cell(theirs), ratio])
        columns = ["OneFlow ms", "MiB", "HugeCTR ms", "MiB", "ratio"]
        parts.append(f"Wide & Deep, {name}, published\n" + table(head + columns, rows))
    rows = []
    for case, system, figures, cell in measured(content, "wide_deep"):
        dim, layers = numbers(case.network)
        ms = _milliseconds(case, figures)
        sizes = [str(case.ranks), str(case.samples), str(case.size), str(dim), str(layers)]
        ratio = cell["ratios"].get(system)
        rows.append(
            [case.data, system, *sizes, f"{ms:.3f}", f"{memory(figures['memory']):.0f}"]
            + ["" if ratio is None else f"{ratio['median']:.2f}", ""]
        )
        if not system.startswith("mxlite") or case.ranks > 1:
            continue
        for devices in DEVICES[1:]:
            found = sharded_model.wide_deep_seconds(
                ms / 1000, case.batch, devices, (dim, layers), scaling_model.Cluster()
            )
            sizes[:2] = [str(devices), str(devices * case.batch)]
            rows.append([case.data, system, *sizes, f"{1000 * found:.3f}", "", "", "predicted"])
    if rows:
        head = ["data", "system", *head, "ms", "MiB", "mxlite / system", ""]
        parts.append("Wide & Deep here\n" + table(head, rows))
    return parts


def _face_cells(rates: dict[int, float], predicted: set[int]) -> list[str]:
    one = rates.get(1)
    cells = []
    for devices in FACE_DEVICES:
        rate = rates.get(devices)
        speedup = "" if rate is None or one is None else f" ({rate / one:.2f})"
        mark = " predicted" if devices in predicted else ""
        cells.append("" if rate is None else f"{rate:.2f}{speedup}{mark}")
    return cells


def face_tables(content: dict[str, Any]) -> list[str]:
    """Return DLPerf's rates of faces by mode with ours beside, and its numbers of classes."""
    published = _read("dlperf_faces")
    rows: list[list[str]] = []
    for row in published["rows"]:
        name = f"{row['network']} {row['data']}"
        rates = {int(count): rate for count, rate in row["rates"].items()}
        rows.append(
            [row["framework"] + ", published", name, row["mode"], str(row["batch"])]
            + _face_cells(rates, set())
        )
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    cases: dict[tuple[Any, ...], Case] = {}
    for case, system, figures, _ in measured(content, "insightface"):
        key = (f"{system} {case.data}", case.network, case.mode, str(case.batch))
        found.setdefault(key, {})[case.ranks] = figures["median"]
        cases[key] = case
    cluster = scaling_model.Cluster()
    for key, rates in found.items():
        predicted: set[int] = set()
        if 1 in rates and key[0].startswith("mxlite"):
            network, classes = cases[key].network.split("_")
            batch = cases[key].batch
            mode = "data" if cases[key].mode == "data" else "model"
            work = sharded_model.face_work(network, int(classes), mode, batch / rates[1], 4.0)
            for devices in set(FACE_DEVICES) - set(rates):
                seconds = scaling_model.predict_step(work, cluster, devices, variation=0.02).total
                seconds += sharded_model.face_exchange(batch, devices, mode, cluster)
                rates[devices] = devices * batch / seconds
                predicted.add(devices)
        rows.append([*key, *_face_cells(rates, predicted)])
    head = ["system", "network", "mode", "batch", *(f"{n} devices" for n in FACE_DEVICES)]
    classes = [
        [str(row[key]) for key in ("devices", "network", "batch", "math", "mode")]
        + [f"{row[framework]:,}" for framework in ("MXNet", "OneFlow")]
        for row in published["classes"]
    ]
    columns = ["devices", "network", "batch", "math", "mode", "MXNet", "OneFlow"]
    return [
        "faces, images/s (speed-up)\n" + table(head, rows),
        "classes that fit into 16 GB a device, published\n" + table(columns, classes),
    ]


def model_errors(model: str) -> str:
    """Return how far the models of communication are from the published cells of a table."""
    if model == "gpt":
        found = transformer_scaling.check(Nodes())
        errors = {
            framework: [
                row[framework]["error"] for row in found["rows"] if not row[framework]["fitted"]
            ]
            for framework in transformer_scaling.FRAMEWORKS
        }
    elif model == "wide_deep":
        errors = sharded_model.check_wide_deep(scaling_model.Cluster())
    elif model == "insightface":
        errors = sharded_model.check_faces(scaling_model.Cluster())
    else:
        errors = {}
        for row in scaling_model.check(scaling_model.Cluster())["rows"]:
            if row["model"].startswith(model):
                for point in row["points"]:
                    if not point["fitted"]:
                        errors.setdefault(f"{point['gpus']} GPUs", []).append(point["error"])
    title = f"{model}: errors of the model that predicts, against the published cells"
    return f"{title}\n{sharded_model.error_table(errors)}"


TABLES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "gpt": gpt_tables,
    "wide_deep": wide_deep_tables,
    "insightface": face_tables,
}
