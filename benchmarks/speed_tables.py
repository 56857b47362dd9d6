"""Write the tables of speed in README.md and docs/ from committed result files.

    python benchmarks/speed_tables.py            # writes
    python benchmarks/speed_tables.py --check    # fails where a page differs from its result files

A table is between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; TABLES maps its name to the
result file. Every cell of the file is shown in the table.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALL_RESULTS = ROOT / "benchmarks" / "results"
RESULTS = ALL_RESULTS / "intel_xeon_amx_2_cores"
AVX2_RESULTS = ALL_RESULTS / "amd_epyc_avx2_2_cores"
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]
PAGES += [
    ROOT / "docs" / "explanation" / "performance.md",
    ROOT / "docs" / "howto" / "distributed.md",
]
NETWORKS = {
    "vgg": "vgg (11 layers)",
    "resnet-50": "resnet-50 (v2)",
    "resnet-152": "resnet-152 (v2)",
    "bert-base": "bert-base, 128 tokens",
    "bert-base-512": "bert-base, 512 tokens",
}
SYSTEMS = {
    "mxnet:fused": "MXNet 1.9.1 fused",
    "mxnet:hybrid": "MXNet 1.9.1 hybrid",
    "torch:eager": "PyTorch eager",
    "torch:compile": "PyTorch compile",
    "onnxruntime:all": "ONNX Runtime",
    "openvino:latency": "OpenVINO",
}
Lines = list[str]


def speed(value: float) -> str:
    """Return images/s with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def source_lines(sources: Lines) -> Lines:
    """Return the sources of a table, one to a line: commands are long."""
    return [f"{source};" for source in sources[:-1]] + [f"{sources[-1]}:"]


def markdown(head: Lines, rows: list[Lines]) -> Lines:
    """Return a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def cells(content: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """Return the ratios of every cell and images/s of every system in it.

    Parameters
    ----------
    content : dict
        A result file of peers/run.py or training/train_step.py.
    """
    found = []
    for ratios in content["ratios"]:
        key = (ratios["network"], ratios["batch"], ratios["dtype"])
        speeds = {
            entry["system"]: entry["median"]
            for entry in content["results"]
            if (entry["network"], entry["batch"], entry["dtype"]) == key
        }
        found.append((ratios, speeds))
    return found


def systems_of(content: dict[str, Any]) -> Lines:
    """Return the systems of a result file, mxlite first."""
    return list(dict.fromkeys(entry["system"] for entry in content["results"]))


def ratio(ratios: dict[str, Any], speeds: dict[str, float]) -> tuple[float, str]:
    """Return mxlite's ratio to the best peer, and its text with the quartiles."""
    best = max((name for name in speeds if not name.startswith("mxlite")), key=speeds.__getitem__)
    found = ratios["ratios"][best]
    text = f"{found['median']:.2f} ({found['q1']:.2f} to {found['q3']:.2f})"
    return found["median"], text


def versions(content: dict[str, Any]) -> str:
    """Return the versions of the peers."""
    found = {}
    for entry in content["results"]:
        name = SYSTEMS.get(entry["system"], "").split(" ")[0]
        if name and name != "MXNet":
            found[{"ONNX": "ONNX Runtime"}.get(name, name)] = entry["version"].split("-")[0]
    return ", ".join(f"{name} {version}" for name, version in found.items())


def origin(script: str, content: dict[str, Any]) -> str:
    """Return the command, commit and versions of a result file."""
    settings = content["settings"]
    options = []
    for name in ("networks", "batches", "dtypes", "systems", "rounds", "neighbours"):
        value = settings.get(name, 0)
        if value and not (name == "dtypes" and value == ["float32"]):
            words = value if isinstance(value, list) else [value]
            options += [f"--{name}", *map(str, words)]
    command = f"python benchmarks/{script} {' '.join(options)}"
    return f"`{command}` at commit {content['commit']}, {content['date']}; {versions(content)}"


def speed_table(
    content: dict[str, Any], last: Callable[[dict[str, Any]], Lines] | None = None
) -> tuple[Lines, list[Lines], list[float]]:
    """Return the head, the rows and the ratios of a table of images/s."""
    systems = systems_of(content)
    peers = [name for name in systems if not name.startswith("mxlite")]
    head = ["network", "batch", "mxlite", *(SYSTEMS[name] for name in peers), "mxlite / best peer"]
    rows, ratios = [], []
    for cell, speeds in cells(content):
        value, text = ratio(cell, speeds)
        ratios.append(value)
        ours = next(name for name in systems if name.startswith("mxlite"))
        values = [speed(speeds[name]) if name in speeds else "failed" for name in [ours, *peers]]
        name = NETWORKS.get(cell["network"], cell["network"])
        rows.append([name, str(cell["batch"]), *values, text, *(last(cell) if last else [])])
    return head, rows, ratios


def mean_line(ratios: list[float]) -> str:
    """Return the geometric mean and the number of lost cells in a sentence."""
    mean = math.exp(statistics.fmean(math.log(value) for value in ratios))
    lost = sum(value < 1 for value in ratios)
    cells_lost = {0: "No cell is lost", 1: "One cell is lost"}.get(lost, f"{lost} cells are lost")
    return f"Geometric mean {mean:.2f}. {cells_lost}."


def scoring() -> Lines:
    """Return the table of scoring."""
    content = json.loads((RESULTS / "peers.json").read_text())
    head, rows, ratios = speed_table(content)
    return [f"{origin('peers/run.py', content)}:", "", *markdown(head, rows), "", mean_line(ratios)]


def bfloat16() -> Lines:
    """Return the table of scoring in bfloat16."""
    content = json.loads((RESULTS / "peers_resnet-50_bfloat16.json").read_text())
    head, rows, _ = speed_table(content)
    return [f"{origin('peers/run.py', content)}:", "", *markdown(head, rows)]


def training() -> Lines:
    """Return the table of training steps with peak memory."""
    content = json.loads((RESULTS / "train_step.json").read_text())
    systems = systems_of(content)
    memory = {(p["network"], p["dtype"], p["system"]): p["mib"] for p in content["peak_memory"]}

    def peaks(cell: dict[str, Any]) -> Lines:
        keys = [(f"{cell['network']} batch {cell['batch']}", cell["dtype"], s) for s in systems]
        return ["failed" if memory.get(key) is None else f"{memory[key]:.0f}" for key in keys]

    head, rows, ratios = speed_table(content, peaks)
    names = [SYSTEMS.get(name, "mxlite").split(" ")[0] for name in systems]
    head += [f"{'MiB: ' if index == 0 else ''}{name}" for index, name in enumerate(names)]
    return [
        f"{origin('training/train_step.py', content)}:",
        "",
        *markdown(head, rows),
        "",
        mean_line(ratios),
    ]


def bert_inference(results: Path = RESULTS) -> Lines:
    """Return the table of BERT's inference in the dtypes that were measured."""
    lines, systems, rows, ratios = [], [], [], []
    for path in sorted(results.glob("bert_inference_*.json")):
        content = json.loads(path.read_text())
        lines += [origin("peers/run.py", content)]
        systems = systems or systems_of(content)
        for cell, speeds in cells(content):
            value, text = ratio(cell, speeds)
            ratios.append(value)
            values = [speed(speeds[name]) if name in speeds else "" for name in systems]
            name = NETWORKS[cell["network"]]
            rows.append([name, str(cell["batch"]), cell["dtype"], *values, text])
    names = [SYSTEMS.get(name, "mxlite") for name in systems]
    head = ["network", "batch", "dtype", *names, "mxlite / best peer"]
    return [*source_lines(lines), "", *markdown(head, rows), "", mean_line(ratios)]


def bert_training(results: Path = RESULTS) -> Lines:
    """Return the table of BERT's training steps, with each system's peak memory."""
    contents = [
        json.loads(path.read_text()) for path in sorted(results.glob("bert_training*.json"))
    ]
    systems = list(dict.fromkeys(entry["system"] for one in contents for entry in one["results"]))
    rows, ratios = [], []
    for cell in (cell for content in contents for cell in content["cells"]):
        case, found = cell["case"], cell["systems"]
        peers = [name for name in found if name in cell["ratios"]]
        best = cell["ratios"][max(peers, key=lambda name: found[name]["median"])]
        ratios.append(best["median"])
        row = [f"{case['batch']} x {case['size']}", case["dtype"]]
        values = [found.get(name) for name in systems]
        row += [f"{value['median']:.2f}" if value else "" for value in values]
        row += [f"{best['median']:.2f} ({best['q1']:.2f} to {best['q3']:.2f})"]
        memory = [f"{value['memory']['mib']:.0f}" if value else "" for value in values]
        rows.append([*row, *memory])
    names = [SYSTEMS.get(name, "mxlite") for name in systems]
    head = ["batch x tokens", "dtype", *names, "mxlite / best peer"]
    head += [f"{'MiB: ' if index == 0 else ''}{name}" for index, name in enumerate(names)]
    lines = [
        f"`python {one['command']}` at commit {one['commit']}, {one['date']}" for one in contents
    ]
    return [*source_lines(lines), "", *markdown(head, rows), "", mean_line(ratios)]


def neighbours() -> Lines:
    """Return the table of scoring beside busy processes."""
    rows: list[Lines] = []
    head: Lines = []
    sources = []
    for path in sorted(RESULTS.glob("neighbours_*.json"), reverse=True):
        content = json.loads(path.read_text())
        head, found, _ = speed_table(content)
        busy = str(content["settings"]["neighbours"])
        rows += [[row[0], row[1], busy, *row[2:]] for row in found]
        sources.append(content["commit"])
    rows.sort(key=lambda row: (row[0] != NETWORKS["resnet-50"], int(row[1]), row[2]))
    head.insert(2, "busy processes")
    commits = ", ".join(dict.fromkeys(sources))
    line = (
        "`python benchmarks/peers/run.py --neighbours N --systems torch:eager onnxruntime:all "
        f"openvino:latency` at commit {commits}, the files `neighbours_*.json`:"
    )
    return [line, "", *markdown(head, rows)]


def training_shares() -> list[Lines]:
    """Return the rows of data-parallel training."""
    rows = []
    names = {
        "resnet50": "ResNet-50, {batch} images of {side} pixels",
        "bert": "BERT-base of 2 layers, {batch} texts of 128 words",
    }
    for file, form in names.items():
        content = json.loads((RESULTS / f"overlap_{file}.json").read_text())
        name = form.format(**content["settings"])
        for share, text in (
            ("job / independent", "`DistributedTrainer` / independent runs"),
            ("store / job", "`dist_sync` / `DistributedTrainer`"),
        ):
            low, high = content["share_quartiles"][share]
            middle = f"{content['shares'][share]:.1%}"
            rows.append([f"{name}: {text}", middle, f"{low:.1%} to {high:.1%}"])
    return rows


def divided_layers() -> list[Lines]:
    """Return the rows of the divided multilayer perceptron."""
    content = json.loads((RESULTS / "tensor_parallel.json").read_text())
    rows = []
    for entry in content["results"]:
        for way, beside in (("one", "one rank alone"), ("each", "one rank beside another one")):
            speedup = entry["speedups"][way]
            low, high = speedup["quartiles"]
            name = f"dense 1024-4096-1024, {entry['task']}, {entry['batch']} rows"
            rows.append(
                [
                    f"{name}: speed of 2 ranks over that of {beside}",
                    f"{speedup['median']:.2f}",
                    f"{low:.2f} to {high:.2f}",
                ]
            )
    return rows


def copies() -> list[Lines]:
    """Return the rows of large collectives."""
    content = json.loads((RESULTS / "collectives.json").read_text())
    largest = max(entry["bytes"] for entry in content["results"])
    rows = []
    for entry in content["results"]:
        if entry["library"] != "mxlite" or entry["bytes"] != largest:
            continue
        limit = entry["of_limit"] * entry["seconds"]
        high, low = (limit / seconds for seconds in entry["quartiles"])
        name = f"{entry['operation'].replace('_', '-')} of {largest >> 20} MB: of the copy limit"
        rows.append([name, f"{entry['of_limit']:.0%}", f"{low:.0%} to {high:.0%}"])
    return rows


def operators() -> list[Lines]:
    """Return the rows of small collective operators."""
    content = json.loads((RESULTS / "operator_time.json").read_text())
    rows = []
    for entry in content["results"]:
        before, _, way = entry["name"].partition(", ")
        if before != "over the communicator":
            continue
        how = {"with": "one after another", "apart": "independent of each other"}[way]
        name = f"all-reduce operators of 4 KB, {how}: us over the communicator's"
        rows.append([name, f"{entry['median']:.1f}", f"{entry['q1']:.1f} to {entry['q3']:.1f}"])
    return rows


def processes() -> Lines:
    """Return the table of the results of two processes."""
    rows = [*training_shares(), *divided_layers(), *copies(), *operators()]
    content = json.loads((RESULTS / "overlap_bert.json").read_text())
    origin_line = f"Intel Xeon with AMX, 2 cores, commit {content['commit']}, {content['date']}:"
    return [origin_line, "", *markdown(["2 processes", "median", "quartiles"], rows)]


TABLES = {
    "scoring": scoring,
    "bfloat16": bfloat16,
    "training": training,
    "bert_inference": bert_inference,
    "bert_training": bert_training,
    "bert_inference_avx2": partial(bert_inference, AVX2_RESULTS),
    "bert_training_avx2": partial(bert_training, AVX2_RESULTS),
    "neighbours": neighbours,
    "processes": processes,
}


def filled(text: str) -> str:
    """Return a page with its tables filled in from the result files."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if begin in text:
            body = "\n".join([begin, *make(), end])
            text = re.sub(f"{begin}.*?{end}", lambda _, body=body: body, text, flags=re.DOTALL)
    return text


def main() -> int:
    """Write or check the pages."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    options = line.parse_args()
    status = 0
    for page in PAGES:
        text = page.read_text()
        wanted = filled(text)
        if text == wanted:
            continue
        if options.check:
            print(f"{page.relative_to(ROOT)}: run benchmarks/speed_tables.py", file=sys.stderr)
            status = 1
        else:
            page.write_text(wanted)
    return status


if __name__ == "__main__":
    sys.exit(main())
