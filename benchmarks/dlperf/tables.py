"""Print DLPerf's tables from result files of run.py, with the published rows beside.

    python benchmarks/dlperf/tables.py results.json [more.json]

Published figures were measured on V100s years ago, so they are context, not a comparison. Our
figures for more devices than were measured are marked ``predicted``: models of communication
(benchmarks/bandwidth) take the measured step of one device, and links of 8 devices a node with 120
GB/s inside and 10.6 GB/s between nodes. Below each model's tables are the errors of its model
against the published cells. A cell without figures says why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bandwidth"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import table
from compare import load
from scaling_model import Cluster, Work, bert, predict_step, resnet50

from dlperf.cases import check_model
from dlperf.model_tables import TABLES, memory, model_errors
from dlperf.models import DEVICES, MODELS, numbers
from dlperf.results import check_content

BENCHMARKS = Path(__file__).resolve().parents[1]
# Model of run.py: that of the published files, batch sizes of the columns FP32 and AMP.
_PUBLISHED = {"resnet50": ("resnet50", 128, 256), "bert": ("bert-base", 32, 64)}
_SIZES = {"resnet50": 224, "bert": 128}  # pixels of a side, tokens
_NETWORKS = {"resnet50": "", "bert": "bert_12_768_12"}  # as cases name it
_GRADIENT_BYTES = {"float32": 4.0, "tf32": 4.0, "float16": 2.0, "bfloat16": 2.0}
# Steps of different devices vary by this share; the default of scaling_model.py.
VARIATION = 0.02


def published(model: str) -> list[dict[str, Any]]:
    """Return DLPerf's rows of a model.

    Parameters
    ----------
    model : str
        A name of run.py.

    Returns
    -------
    list of dict
        ``framework``, ``math``, ``batch``, ``rates`` by number of GPUs.
    """
    name = _PUBLISHED[model][0]
    rows = []
    for file in ("dlperf.json", "dlperf_frameworks.json"):
        content = json.loads((BENCHMARKS / "published" / file).read_text(encoding="utf-8"))
        rows += [row for row in content["rows"] if row["model"] == name]
    return rows


def machine_name(content: dict[str, Any]) -> str:
    """Return the device of a result file, for headers."""
    machine, settings = content["machine"], content["settings"]
    if settings.get("device_name"):
        return str(settings["device_name"])
    return f"{machine['cpu']}, {machine['cores']} cores"


def case_table(content: dict[str, Any]) -> str:
    """Return one row for every case and system.

    Parameters
    ----------
    content : dict
        A result file.

    Returns
    -------
    str
        Rate with quartiles, ratio of mxlite to the system, memory, TFLOP/s, MFU and losses; below
        the table the reasons why systems have no figures.
    """
    head = ["case", "system", "samples/s", "quartiles", "mxlite / system", "MiB", "TFLOP/s", "MFU"]
    head += ["math", "loss 1", "loss 5", "published V100"]
    rows, reasons = [], []
    for cell in content["cells"]:
        for system, figures in cell["systems"].items():
            ratio = cell["ratios"].get(system)
            mfu = figures["mfu"]
            rows.append(
                [
                    cell["name"],
                    system,
                    f"{figures['median']:.2f}",
                    f"{figures['q1']:.2f}-{figures['q3']:.2f}",
                    "" if ratio is None else "{median:.3f} ({q1:.3f}-{q3:.3f})".format(**ratio),
                    f"{memory(figures['memory']):.0f}",
                    f"{figures['tflops']:.3f}",
                    "" if mfu is None else f"{mfu:.1%}",
                    cell["math"],
                    f"{figures['losses'][0]:.4f}",
                    f"{figures['losses'][1]:.4f}",
                    _anchor(cell["case"]),
                ]
            )
        for system, reason in cell["reasons"].items():
            rows.append([cell["name"], system, "none", *[""] * (len(head) - 3)])
            reasons.append(f"no figures of {system} in {cell['name']}: {' '.join(reason.split())}")
    lines = [table(head, rows), *reasons]
    for model, reason in content.get("missing", {}).items():
        lines.append(f"{model}: {reason}")
    return "\n".join(lines)


def _column(dtype: str) -> str:
    return "fp32" if dtype in ("float32", "tf32") else "AMP"


def _is_published(case: dict[str, Any]) -> bool:
    """Return whether a case has the network of the published rows."""
    return case["model"] in _PUBLISHED and case["network"] == _NETWORKS[case["model"]]


def _anchor(case: dict[str, Any]) -> str:
    """Return the published rates of MXNet for the work of a case, "" if there are none."""
    if not _is_published(case) or case["size"] != _SIZES[case["model"]] or case["dtype"] == "tf32":
        return ""
    found = [
        f"{row['framework']} {row['rates'][str(case['ranks'])]:.0f}"
        for row in published(case["model"])
        if row["batch"] == case["batch"]
        and row["math"] == _column(case["dtype"])
        and "MXNet" in row["framework"]
        and str(case["ranks"]) in row["rates"]
    ]
    return ", ".join(found)


def predicted_rate(case: dict[str, Any], rate: float, devices: int) -> float:
    """Return samples/s of a job on several GPUs by the model of communication.

    Parameters
    ----------
    case : dict
        The case that was measured on one device.
    rate : float
        Its samples/s.
    devices : int
        GPUs of the job.

    Returns
    -------
    float
        Samples/s of all of them together.
    """
    if case["model"] == "bert":
        layers = bert(*numbers(case["network"])[:2], case["size"])
    else:
        layers = resnet50()
    work = Work.of_layers(layers, case["batch"] / rate, _GRADIENT_BYTES[case["dtype"]])
    step = predict_step(work, Cluster(), devices, variation=VARIATION)
    return devices * case["batch"] / step.total


def own_rows(content: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """Return our figures in the shape of published rows.

    Parameters
    ----------
    content : dict
        A result file.
    model : str
        A name of run.py.

    Returns
    -------
    list of dict
        As :func:`published`, with ``predicted``: numbers of devices whose rates are predictions.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell in content["cells"]:
        case = cell["case"]
        if case["model"] != model:
            continue
        for system, figures in cell["systems"].items():
            key = (system, *(case[name] for name in ("data", "dtype", "batch", "size", "network")))
            network = "" if _is_published(case) else f" {case['network']}"
            row = rows.setdefault(
                key,
                {
                    "framework": f"{system} {case['data']} {cell['math'].split(',')[0]}{network}",
                    "math": _column(case["dtype"]),
                    "batch": case["batch"],
                    "size": case["size"],
                    "case": case,
                    "rates": {},
                    "predicted": [],
                },
            )
            row["rates"][str(case["ranks"])] = figures["median"]
    for row in rows.values():
        if "1" not in row["rates"] or not row["framework"].startswith("mxlite"):
            continue
        for devices in DEVICES:
            if str(devices) not in row["rates"]:
                rate = predicted_rate(row["case"], row["rates"]["1"], devices)
                row["rates"][str(devices)] = rate
                row["predicted"].append(devices)
    return list(rows.values())


def main_table(content: dict[str, Any], model: str) -> str:
    """Return DLPerf's main table: a row per framework and batch, a column per number of devices.

    Parameters
    ----------
    content : dict
        A result file.
    model : str
        A model that can run.

    Returns
    -------
    str
        A part for FP32 and one for AMP; each cell is a rate with its speed-up over one device.
    """
    check_model(model)
    name, fp32, amp = _PUBLISHED[model]
    ours, theirs = own_rows(content, model), published(model)
    counts = sorted({int(count) for row in ours for count in row["rates"]} | set(DEVICES))
    parts = [
        f"{name}, {MODELS[model].sample}/s (speed-up over one device). Measured here: "
        f"{machine_name(content)}; published: V100-SXM2-16GB, 2020; predicted: nodes of 8 devices, "
        f"{Cluster.node_bandwidth / 1e9:g} GB/s inside, {Cluster.net_bandwidth / 1e9:g} GB/s "
        "between"
    ]
    for math, title in (("fp32", f"FP32 (DLPerf: b{fp32})"), ("AMP", f"AMP (DLPerf: b{amp})")):
        rows = []
        for row in [*ours, *theirs]:
            if row["math"] != math:
                continue
            where = f"here, size {row['size']}" if "size" in row else "published"
            cells = [_rate_cell(row, count) for count in counts]
            rows.append([row["framework"], where, f"b{row['batch']}", *cells])
        head = [title, "", "batch", *[f"{c} device{'s' if c > 1 else ''}" for c in counts]]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def _rate_cell(row: dict[str, Any], count: int) -> str:
    rate = row["rates"].get(str(count))
    if rate is None:
        return ""
    one = row["rates"].get("1")
    speedup = "no 1n1g" if one is None else f"{rate / one:.2f}"
    mark = " predicted" if count in row.get("predicted", []) else ""
    return f"{rate:.2f} ({speedup}){mark}"


def framework_table(row: dict[str, Any], per_node: int = 8) -> str:
    """Return DLPerf's table of one framework: a row for each number of devices.

    Parameters
    ----------
    row : dict
        As :func:`own_rows` or :func:`published` returns it.
    per_node : int
        Devices of a node.

    Returns
    -------
    str
        node_num, gpu_num, samples/s, speedup and, which DLPerf leaves out, efficiency.
    """
    one = row["rates"].get("1")
    rows = []
    for count, rate in sorted((int(count), rate) for count, rate in row["rates"].items()):
        speedup = "no 1n1g" if one is None else f"{rate / one:.2f}"
        efficiency = "" if one is None else f"{rate / one / count:.1%}"
        mark = "predicted" if count in row.get("predicted", []) else ""
        nodes = -(-count // per_node)
        rows.append([str(nodes), str(count), f"{rate:.2f}", speedup, efficiency, mark])
    head = ["node_num", "gpu_num", "samples/s", "speedup", "efficiency", ""]
    return f"{row['framework']} b{row['batch']}\n{table(head, rows)}"


def input_table(content: dict[str, Any]) -> str:
    """Return what reading files costs: the rates of both kinds of input side by side.

    Parameters
    ----------
    content : dict
        A result file.

    Returns
    -------
    str
        "" if no case was measured in both ways.
    """
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for cell in content["cells"]:
        data = cell["case"]["data"]
        for system, figures in cell["systems"].items():
            key = (cell["name"].removesuffix(f" {data}"), system)
            rates.setdefault(key, {})[data] = figures["median"]
    rows = [
        [*key, f"{both['real']:.2f}", f"{both['resident']:.2f}"]
        + [f"{1 - both['real'] / both['resident']:.1%}"]
        for key, both in rates.items()
        if len(both) == 2
    ]
    return table(["case", "system", "real", "resident", "lost to input"], rows) if rows else ""


def all_tables(content: dict[str, Any]) -> str:
    """Return every table that a result file fills.

    Parameters
    ----------
    content : dict
        A result file.

    Returns
    -------
    str
        Parts with empty lines between them.
    """
    parts = [case_table(content)]
    found = [cell["case"]["model"] for cell in content["cells"]]
    for model in dict.fromkeys([*found, *content.get("missing", {})]):
        if model in TABLES:
            parts += TABLES[model](content)
        else:
            parts.append(main_table(content, model))
            parts += [framework_table(row) for row in own_rows(content, model)]
        parts.append(model_errors(model))
    parts.append(input_table(content))
    for dtype, peak in content["peaks"].items():
        parts.append(f"peak of {dtype}: {peak['tflops']:.3f} TFLOP/s ({peak['source']})")
    return "\n\n".join(part for part in parts if part)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of result files.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        A file is no result of run.py.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="written by run.py --json")
    for name in parser.parse_args(arguments).files:
        content = load(name)
        check_content(name, content)
        print(all_tables(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
