"""Write the tables and the plot of speed in README.md and docs/ from committed result files.

    python benchmarks/speed_tables.py            # writes
    python benchmarks/speed_tables.py --check    # fails where a page differs from its result files

A table is between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; TABLES maps its name to the
result file. Every cell of the file is shown in the table. PLOT has the ratios of all cells.
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
sys.path.insert(0, str(ROOT / "benchmarks"))

from process_tables import processes  # noqa: E402
from ratio_plot import Cell, draw  # noqa: E402
from result_table import Lines, digits, markdown, measurements, middle  # noqa: E402

ALL_RESULTS = ROOT / "benchmarks" / "results"
RESULTS = ALL_RESULTS / "intel_xeon_amx_2_cores"
AVX2_RESULTS = ALL_RESULTS / "amd_epyc_avx2_2_cores"
AVX512_RESULTS = ALL_RESULTS / "intel_xeon_avx512_2_cores"
ZEN5_RESULTS = ALL_RESULTS / "amd_epyc_2_cores"
MACHINES = {
    RESULTS: "Intel Xeon with AMX, 2 cores",
    AVX512_RESULTS: "Intel Xeon without AMX, 2 cores",
    AVX2_RESULTS: "AMD EPYC with AVX2, 2 cores",
    ZEN5_RESULTS: "AMD EPYC with AVX-512, 2 cores",
}
PLOT = ROOT / "docs" / "reference" / "ratios.svg"
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]
PAGES += [
    ROOT / "docs" / "reference" / "results.md",
    ROOT / "docs" / "reference" / "results_operators.md",
    ROOT / "docs" / "reference" / "results_processes.md",
]
NETWORKS = {
    "vgg": "vgg (11 layers)",
    "resnet-50": "resnet-50 (v2)",
    "resnet-152": "resnet-152 (v2)",
    "bert-base": "bert-base, 128 tokens",
    "bert-base-512": "bert-base, 512 tokens",
}
SYSTEMS = {
    "mxlite:float32": "mxlite float32",
    "mxnet:fused": "MXNet 1.9.1 fused",
    "mxnet:hybrid": "MXNet 1.9.1 hybrid",
    "torch:eager": "PyTorch eager",
    "torch:compile": "PyTorch compile",
    "onnxruntime:all": "ONNX Runtime",
    "onnxruntime:static": "ONNX Runtime static",
    "openvino:latency": "OpenVINO",
    "openvino:static": "OpenVINO static",
}
FIRST_NETWORKS = {
    "resnetv1-50": "resnet-50 (v1)",
    "bert-base": "bert-base, 128 tokens",
    "lstm": "LSTM, 2 x 650, 35 words",
}
FIRST_SYSTEMS = {
    "mxlite:C++": "mxlite, C++ predictor",
    "mxnet": "MXNet 1.9.1",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}


def speed(value: float) -> str:
    """Return images/s with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def source_lines(sources: Lines) -> Lines:
    """Return the sources of a table, one to a line: commands are long."""
    return [f"{source};" for source in sources[:-1]] + [f"{sources[-1]}:"]


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


def best_ratio(ratios: dict[str, Any], speeds: dict[str, float]) -> dict[str, float]:
    """Return the quartiles of mxlite's ratio to the fastest peer of a cell."""
    peers = [name for name in speeds if name in ratios["ratios"] and name != "mxlite:float32"]
    best: dict[str, float] = ratios["ratios"][max(peers, key=speeds.__getitem__)]
    return best


def ratio(ratios: dict[str, Any], speeds: dict[str, float]) -> tuple[float, str]:
    """Return mxlite's ratio to the best peer, and its text with the quartiles."""
    found = best_ratio(ratios, speeds)
    return found["median"], ratio_text(found)


def ratio_text(found: dict[str, float]) -> str:
    """Return a ratio with its quartiles."""
    return f"{found['median']:.2f} ({found['q1']:.2f} to {found['q3']:.2f})"


def versions(content: dict[str, Any]) -> str:
    """Return the versions of the peers."""
    found = {}
    for entry in content["results"]:
        name = SYSTEMS.get(entry["system"], "").split(" ")[0]
        if name and name not in ("MXNet", "mxlite"):
            found[{"ONNX": "ONNX Runtime"}.get(name, name)] = entry["version"].split("-")[0]
    return ", ".join(f"{name} {version}" for name, version in found.items())


def dated_command(script: str, content: dict[str, Any]) -> str:
    """Return the command that wrote a result file, with its commit and date."""
    settings = content["settings"]
    options = []
    for name in (
        "networks", "batches", "dtypes", "systems", "rounds", "torch_rounds", "neighbours",
    ):  # fmt: skip
        value = settings.get(name, 0)
        if value and not (name == "dtypes" and value == ["float32"]):
            words = value if isinstance(value, list) else [value]
            options += [f"--{name.replace('_', '-')}", *map(str, words)]
    if settings.get("clock") == "cpu":
        options += ["--threads", str(settings["threads"]), "--clock", "cpu"]
    command = f"python benchmarks/{script} {' '.join(options)}"
    return f"`{command}` at commit {content['commit']}, {content['date']}"


def origin(script: str, content: dict[str, Any]) -> str:
    """Return the command, commit and versions of a result file."""
    return f"{dated_command(script, content)}; {versions(content)}"


def speed_table(
    content: dict[str, Any],
    last: Callable[[dict[str, Any]], Lines] | None = None,
    columns: Lines | None = None,
) -> tuple[Lines, list[Lines], list[float]]:
    """Return the head, the rows and the ratios of a table of images/s, with columns of systems."""
    systems = systems_of(content)
    others = [name for name in columns or systems if name in SYSTEMS]
    head = ["network", "batch", "mxlite", *(SYSTEMS[name] for name in others), "mxlite / best peer"]
    rows, ratios = [], []
    for cell, speeds in cells(content):
        value, text = ratio(cell, speeds)
        ratios.append(value)
        values = [
            speed(speeds[name]) if name in speeds else "failed" if name in systems else ""
            for name in [systems[0], *others]
        ]
        name = NETWORKS.get(cell["network"], cell["network"])
        rows.append([name, str(cell["batch"]), *values, text, *(last(cell) if last else [])])
    return head, rows, ratios


def mean_line(ratios: list[float]) -> str:
    """Return the geometric mean and the number of lost cells in a sentence."""
    mean = math.exp(statistics.fmean(math.log(value) for value in ratios))
    lost = sum(value < 1 for value in ratios)
    cells_lost = {0: "No cell is lost", 1: "One cell is lost"}.get(lost, f"{lost} cells are lost")
    return f"Geometric mean {mean:.2f}. {cells_lost}."


def scores(*paths: Path, mean: bool = True) -> Lines:
    """Return the table of images/s in one or several result files."""
    contents = [json.loads(path.read_text()) for path in paths]
    columns = list(dict.fromkeys(name for content in contents for name in systems_of(content)))
    found = [speed_table(content, columns=columns) for content in contents]
    rows = [row for _, some, _ in found for row in some]
    sources = source_lines([origin("peers/run.py", content) for content in contents])
    last = ["", mean_line([value for _, _, some in found for value in some])] if mean else []
    return [*sources, "", *markdown(found[0][0], rows), *last]


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
        json.loads(path.read_text()) for path in sorted(results.glob("bert_*training*.json"))
    ]
    systems = list(dict.fromkeys(entry["system"] for one in contents for entry in one["results"]))
    rows, ratios = [], []
    for cell in (cell for content in contents for cell in content["cells"]):
        case, found = cell["case"], cell["systems"]
        best = best_ratio(cell, {name: value["median"] for name, value in found.items()})
        ratios.append(best["median"])
        row = [f"{case['batch']} x {case['size']}", case["dtype"]]
        values = [found.get(name) for name in systems]
        row += [f"{value['median']:.2f}" if value else "" for value in values]
        row += [ratio_text(best)]
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


def opperf() -> Lines:
    """Return the table of operators beside PyTorch's."""
    content = json.loads((ZEN5_RESULTS / "opperf_against_torch.json").read_text())
    rows, ratios = [], []
    for entry in content["results"]:
        ratios.append(entry["ratio"])
        times = [digits(entry[name][0]) for name in ("mxlite", "torch")]
        rows.append([f"`{entry['name']}`", *times, f"{entry['ratio']:.2f}"])
    source = f"`python benchmarks/opperf/against_torch.py` at commit {content['commit']}, "
    source += f"{content['date']}; PyTorch {content['settings']['torch']}:"
    head = ["operator, inputs, direction", "mxlite, ms", "PyTorch, ms", "PyTorch / mxlite"]
    return [source, "", *markdown(head, rows), "", mean_line(ratios)]


def plotted_cells() -> list[Cell]:
    """Return the ratio to the best peer of every cell of networks in the result files."""
    found = []
    for folder, machine in MACHINES.items():
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text())
            if content["benchmark"] in {"peers", "train_step"}:
                task = "scoring" if content["benchmark"] == "peers" else "training"
                busy = content["settings"].get("neighbours")
                task += f" beside {busy} busy" if busy else ""
                task += " on one core" if content["settings"].get("clock") == "cpu" else ""
                entries = [(cell, cell, task, speeds) for cell, speeds in cells(content)]
            elif content["benchmark"] == "dlperf":
                entries = []
                for cell in content["cells"]:
                    case = {**cell["case"], "network": f"bert-base, {cell['case']['size']} tokens"}
                    speeds = {name: value["median"] for name, value in cell["systems"].items()}
                    entries.append((case, cell, "training", speeds))
            else:
                continue
            for case, cell, task, speeds in entries:
                name = NETWORKS.get(case["network"], case["network"])
                label = f"{name}, {task}, {case['dtype']}, batch {case['batch']}"
                found.append(Cell(machine, label, **best_ratio(cell, speeds)))
    return found


def operator_loads() -> Lines:
    """Return the table of operators beside busy processes: ratios to MXNet 1.9.1."""
    content = json.loads((AVX512_RESULTS / "operators.json").read_text())
    found: dict[str, dict[str, float]] = {}
    one_load = len(content["settings"]["neighbours"]) == 1
    for entry in content["results"]:
        name, size, load = entry["name"].split(" ", 2)
        found.setdefault(name, {})[size if one_load else f"{size}, {load}"] = entry["median"]
    columns = sorted(next(iter(found.values())), key=lambda text: "sml".index(text[0]))
    rows = [[f"`{name}`", *(f"{row[c]:.2f}" for c in columns)] for name, row in found.items()]
    means = [statistics.geometric_mean(row[c] for row in found.values()) for c in columns]
    rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    source = dated_command("opperf/beside_busy.py", content)
    ratios = [value for row in found.values() for value in row.values()]
    return [f"{source}:", "", *markdown(["operator", *columns], rows), "", mean_line(ratios)]


def concurrency() -> Lines:
    """Return the table of threads of one program that call one network."""
    content = json.loads((AVX512_RESULTS / "concurrency.json").read_text())
    rows = [
        [entry["name"], f"{entry['median']:.1f}", f"{entry['ratio']:.2f}"]
        + [f"{value:.1f}" for value in entry["latency_ms"].values()]
        for entry in content["results"]
    ]
    head = ["network", "calls/s", "calls/s / those of one thread"]
    head += [f"{name}, ms" for name in content["results"][0]["latency_ms"]]
    return [f"{dated_command('overhead/concurrency.py', content)}:", "", *markdown(head, rows)]


def first_result(results: Path) -> Lines:
    """Return the table of the time to the first results."""
    content = json.loads((results / "first_result.json").read_text())
    by_clock: dict[str, dict[tuple[str, str], dict[str, Any]]] = {"cpu": {}, "wall": {}}
    for entry in content["results"]:
        by_clock[entry["clock"]][entry["network"], entry["system"]] = entry
    rows = []
    for key, cpu in by_clock["cpu"].items():
        network, system = key
        wall = by_clock["wall"][key]
        parts = [f"{seconds:.2f}" for seconds in cpu["parts"].values()]
        name = SYSTEMS.get(system, FIRST_SYSTEMS.get(system, system))
        wall_texts = [f"{wall['parts']['first result']:.2f}", f"{wall['ratio']['median']:.2f}"]
        rows.append([FIRST_NETWORKS[network], name, *parts, ratio_text(cpu["ratio"]), *wall_texts])
    head = ["network", "system", *next(iter(by_clock["cpu"].values()))["parts"]]
    head += ["mxlite / system", "first result, wall", "mxlite / system, wall"]
    return [f"{dated_command('first/first_result.py', content)}:", "", *markdown(head, rows)]


def wide_deep() -> Lines:
    """Return the table of Wide & Deep's sweeps, one command for each file."""
    lines, rows = [], []
    for path in sorted(AVX512_RESULTS.glob("wide_deep_*.json")):
        content = json.loads(path.read_text())
        given = {key: value for key, value in content["settings"].items() if value is not None}
        apart = ("sweep", "load_before", "torch_variants", "rounds", "clock", "threads")
        sweep, *_ = (given.pop(key) for key in apart)
        options = "".join(f" --{key.replace('_', '-')} {value}" for key, value in given.items())
        lines.append(dated_command(f"dlperf/wide_deep/sweep.py {sweep}{options}", content))
        for entry in content["results"]:
            case = [str(given[key]) for key in ("batch", "layers", "dtype", "table_optimizer")]
            memory = str(entry.get("mib", ""))
            rows.append([entry["name"], *case, middle(entry), entry["unit"], memory])
    head = ["case", "batch", "layers", "dtype", "optimizer of the tables", "median (quartiles)"]
    return [*source_lines(lines), "", *markdown([*head, "unit", "MiB"], rows)]


TABLES: dict[str, Callable[[], Lines]] = {
    "first_result": partial(first_result, AVX2_RESULTS),
    "first_result_avx512": partial(first_result, AVX512_RESULTS),
    "operator_loads": operator_loads,
    "concurrency": concurrency,
    "scoring_avx512": partial(
        scores, *(p for p in sorted(AVX512_RESULTS.glob("peers_*.json")) if "_int8_" not in p.name)
    ),
    "int8_avx512": partial(scores, *sorted(AVX512_RESULTS.glob("peers_int8_*.json"))),
    "one_thread_avx512": partial(scores, *sorted(AVX512_RESULTS.glob("one_thread_*.json"))),
    "bert_inference_avx512": partial(bert_inference, AVX512_RESULTS),
    "scoring": partial(scores, RESULTS / "peers.json"),
    "bfloat16": partial(scores, RESULTS / "peers_resnet-50_bfloat16.json", mean=False),
    "training": training,
    "bert_inference": bert_inference,
    "bert_training": bert_training,
    "scoring_avx2": partial(scores, AVX2_RESULTS / "peers_resnet-50.json"),
    "int8_avx2": partial(scores, *sorted(AVX2_RESULTS.glob("peers_int8_*.json"))),
    "bert_inference_avx2": partial(bert_inference, AVX2_RESULTS),
    "bert_training_avx2": partial(bert_training, AVX2_RESULTS),
    "neighbours": neighbours,
    "wide_deep": wide_deep,
    "processes": partial(processes, RESULTS),
    "opperf": opperf,
}
# Result files whose tables show every measurement, by the name of the table, with their scripts.
MEASUREMENTS = {
    "attention": (RESULTS / "attention.json", "ops/attention_bench.py"),
    "attention_pass": (RESULTS / "attention_pass.json", "ops/attention_pass.py"),
    "waiting": (RESULTS / "waiting.json", "peers/waiting.py --neighbours 0"),
    "arithmetic_limit": (AVX2_RESULTS / "arithmetic_limit.json", "ops/arithmetic_limit.py"),
    "run_ahead": (AVX2_RESULTS / "run_ahead.json", "overhead/run_ahead.py"),
    "subnormals": (AVX2_RESULTS / "subnormals.json", "ops/subnormals.py"),
    "numpy_functions": (AVX512_RESULTS / "numpy_functions.json", "numpy/functions.py"),
    "run_vary_batch": (ZEN5_RESULTS / "run_vary_batch.json", "run_vary_batch.py"),
    "from_records": (ZEN5_RESULTS / "from_records.json", "training/from_records.py"),
    "io_pipeline": (ZEN5_RESULTS / "io_pipeline.json", "io/pipeline.py"),
    "io_packing": (ZEN5_RESULTS / "io_packing.json", "io/packing.py"),
    "rnn": (ZEN5_RESULTS / "rnn.json", "ops/rnn_bench.py"),
    "new_shapes": (ZEN5_RESULTS / "new_shapes.json", "shapes/new_shapes.py"),
    "optimizer_step": (ZEN5_RESULTS / "optimizer_step.json", "training/optimizer_step.py"),
    "overhead": (ZEN5_RESULTS / "overhead.json", "overhead/overhead.py"),
}
TABLES |= {name: partial(measurements, *source) for name, source in MEASUREMENTS.items()}


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
    for page in [*PAGES, PLOT]:
        text = page.read_text() if page.is_file() else ""
        wanted = draw(plotted_cells()) if page == PLOT else filled(text)
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
