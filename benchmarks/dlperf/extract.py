"""Read the logs of a training script of DLPerf, and print rates, medians and speed-ups.

    python benchmarks/dlperf/extract.py logs/mxnet/resnet50/bz128 --system mxnet-resnet50
    python benchmarks/dlperf/extract.py logs/mxlite --style table

A log lies in a folder ``<N>n<G>g`` (nodes, devices of each) and is called
``<model>_b<batch>_<dtype>_<run>.log``. Lines ``name = value`` at its beginning override what the
two names say. Without ``--system`` the lines decide which script wrote a log. The rate of a case is
the median over its runs; the speed-up is that over the median of 1n1g.
"""

from __future__ import annotations

import argparse
import pprint
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import write_json

from dlperf.log_styles import Job, LogError
from dlperf.styles import STYLES, recognize

_FOLDER = re.compile(r"(\d+)n(\d+)g")
_NAME = re.compile(r"(.+)_b(\d+)_([A-Za-z0-9.]+)_(\d+)\.log")
# ASCII digits of a number above 0, which fits an int64.
_COUNT = re.compile(r"0*[1-9][0-9]{0,17}")
_HEAD = re.compile(r"^\s*([A-Za-z_]\w*) = (\S+)\s*$")
_HEAD_LINES = 200
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # escape sequences of terminals
MIB = 2**20


class Run(NamedTuple):
    """The rate of one log."""

    job: Job
    system: str
    value: float
    unit: str
    memory_mib: float | None


def describe(path: Path, lines: Sequence[str]) -> Job:
    """Return what the name and the head of a log say about its run.

    Parameters
    ----------
    path : Path
        The log.
    lines : sequence of str
        Its lines.

    Returns
    -------
    Job
        Lines of the head take precedence over names.

    Raises
    ------
    LogError
        The number of nodes, devices or samples is neither in the names nor in the head.
    """
    head = {}
    for line in lines[:_HEAD_LINES]:
        found = _HEAD.match(line)
        if found is not None:
            head[found.group(1)] = found.group(2)
    name, folder = _NAME.fullmatch(path.name), _FOLDER.fullmatch(path.parent.name)
    known = {
        "batch": head.get("batch_size_per_device") or (name.group(2) if name else None),
        "nodes": head.get("num_nodes") or (folder.group(1) if folder else None),
        "devices": head.get("gpu_num_per_node") or (folder.group(2) if folder else None),
    }
    bad = [
        f"{key} ({value})" if value else key
        for key, value in known.items()
        if value is None or not _COUNT.fullmatch(value)
    ]
    if bad:
        raise LogError(
            f"{path}: no number above 0 for {', '.join(bad)}; expected a name like "
            "1n8g/rn50_b128_fp32_1.log, or lines 'num_nodes = 1', 'gpu_num_per_node = 8' and "
            "'batch_size_per_device = 128' at its beginning"
        )
    return Job(
        path,
        name.group(1) if name else path.stem,
        int(known["batch"] or 0),
        name.group(3) if name else "",
        int(name.group(4)) if name else 1,
        int(known["nodes"] or 0),
        int(known["devices"] or 0),
        head,
    )


def _memory(path: Path) -> float | None:
    """Return the MiB in the file that a polling process wrote beside the log."""
    beside = path.with_suffix(".mem")
    if not beside.exists():
        return None
    found = re.search(r"memory usage is: (\d+)", beside.read_text(errors="replace"))
    if found is None:
        raise LogError(f"{beside}: no line 'max device0 memory usage is: <bytes>'")
    return int(found.group(1)) / MIB


def read_log(
    path: Path, system: str | None, warm_up: int | None = None, batches: int | None = None
) -> Run:
    """Return the rate of one log.

    Parameters
    ----------
    path : Path
        The log.
    system : str or None
        Name of a style; None: the lines decide.
    warm_up, batches : int, optional
        Window that replaces that of the style.

    Returns
    -------
    Run
        With the memory of the ``.mem`` file, if there is one.

    Raises
    ------
    LogError
        If the log lacks what the style needs, or matches no style or several.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = _COLOR.sub("", text).splitlines()
    job = describe(path, lines)
    if system is None:
        found = recognize(lines)
        if len(found) != 1:
            fit = f"styles {', '.join(found)} fit" if found else "no style fits its lines"
            raise LogError(f"{path}: {fit}; give one with --system: {', '.join(found or STYLES)}")
        system = found[0]
    style = STYLES[system]
    return Run(job, system, style.read(lines, job, warm_up, batches), style.unit, _memory(path))


def cases(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return median, mean and speed-up of every case.

    Parameters
    ----------
    runs : sequence of Run
        Rates of all logs.

    Returns
    -------
    list of dict
        Sorted by folder, system, model, dtype, batch and devices. ``speedup`` is None without 1n1g.
    """
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        job = run.job
        logs = str(job.path.parent.parent)
        key = (logs, run.system, job.model, job.dtype, job.batch, job.nodes, job.devices)
        groups.setdefault(key, []).append(run)
    medians = {key: statistics.median(run.value for run in group) for key, group in groups.items()}
    found = []
    for key, group in sorted(groups.items()):
        alone = medians.get((*key[:5], 1, 1))
        rate = group[0].unit == "samples/s"
        speedup = None
        if alone is not None:
            speedup = medians[key] / alone if rate else alone / medians[key]
        memory = [run.memory_mib for run in group if run.memory_mib is not None]
        found.append(
            {
                "logs": key[0],
                "system": key[1],
                "model": key[2],
                "dtype": key[3],
                "batch_size_per_device": key[4],
                "case": group[0].job.case,
                "unit": group[0].unit,
                "median_speed": medians[key],
                "average_speed": statistics.fmean(run.value for run in group),
                "runs": len(group),
                "speedup": speedup,
                "memory_mib": max(memory) if memory else None,
            }
        )
    return found


def dlperf_dict(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return DLPerf's own dictionary: model, case, its figures; None where 1n1g is missing.

    Parameters
    ----------
    found : sequence of dict
        As :func:`cases` returns them.

    Returns
    -------
    dict
        Models are distinguished by folder, batch size and dtype if there are several.
    """
    result: dict[str, Any] = {}
    kinds = {_kind(entry) for entry in found}
    for entry in found:
        kind = _kind(entry)
        alone = sum(entry["model"] == other[0] for other in kinds) == 1
        name = kind[0] if alone else f"{kind[3]}: {kind[0]}_b{kind[1]}_{kind[2]}"
        speedup = entry["speedup"]
        result.setdefault(name, {})[entry["case"]] = {
            "average_speed": round(entry["average_speed"], 2),
            "batch_size_per_device": entry["batch_size_per_device"],
            "median_speed": round(entry["median_speed"], 2),
            "speedup": None if speedup is None else round(speedup, 2),
        }
    return result


def _kind(entry: dict[str, Any]) -> tuple[str, int, str, str]:
    return entry["model"], entry["batch_size_per_device"], entry["dtype"], entry["logs"]


def markdown(found: Sequence[dict[str, Any]]) -> str:
    """Return a markdown table of all cases.

    Parameters
    ----------
    found : sequence of dict
        As :func:`cases` returns them.

    Returns
    -------
    str
        Lines without a line end after the last.
    """
    head = "logs | system | model | dtype | num_nodes | gpu_num_per_node | batch_size_per_device | "
    head += "median | unit | runs | speedup | memory MiB"
    lines = [f"| {head} |", "|" + " --- |" * (head.count("|") + 1)]
    for entry in found:
        nodes, devices = entry["case"][:-1].split("n")
        speedup, memory = entry["speedup"], entry["memory_mib"]
        cells = [entry["logs"], entry["system"], entry["model"], entry["dtype"], nodes, devices]
        cells += [str(entry["batch_size_per_device"]), f"{entry['median_speed']:.2f}"]
        cells += [entry["unit"], str(entry["runs"])]
        cells.append("no 1n1g" if speedup is None else f"{speedup:.2f}")
        cells.append("" if memory is None else f"{memory:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        If there is no log, or logs lack the requested lines; the message names each file and line.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log_dir", "--log-dir", dest="log_dir_option", help="as DLPerf's option")
    parser.add_argument("log_dir", nargs="?", help="folder with logs, searched with its folders")
    parser.add_argument("--system", choices=list(STYLES), help="script that wrote the logs")
    parser.add_argument("--style", choices=["dlperf", "table"], default="dlperf")
    parser.add_argument("--output_dir", "--output-dir", help="folder for <name>_result.json")
    parser.add_argument("--warmup_batches", "--warmup-batches", type=int, dest="warm_up")
    parser.add_argument("--train_batches", "--train-batches", type=int, dest="batches")
    options = parser.parse_args(arguments)
    folder = options.log_dir or options.log_dir_option
    if folder is None:
        parser.error("a folder of logs is expected")
    if options.warm_up is not None and options.warm_up < 0:
        parser.error(f"--warmup_batches must be at least 0, got {options.warm_up}")
    if options.batches is not None and options.batches <= (options.warm_up or 0):
        parser.error(
            f"--train_batches {options.batches}, expected more than the warm-up of "
            f"{options.warm_up or 0}, which it includes"
        )
    logs = [Path(folder)] if Path(folder).is_file() else sorted(Path(folder).rglob("*.log"))
    if not logs:
        raise SystemExit(f"extract: no *.log in {folder}")
    runs, failures = [], []
    for log in logs:
        try:
            runs.append(read_log(log, options.system, options.warm_up, options.batches))
        except LogError as error:
            failures.append(f"extract: {error}")
    if failures:
        raise SystemExit("\n".join(failures))
    found = cases(runs)
    content = dlperf_dict(found)
    if options.style == "table":
        print(markdown(found))
    else:
        for run in runs:
            print(f"{run.job.path} {{{run.job.run}: {round(run.value, 2)}}}")
        pprint.pprint(content)
    if options.output_dir:
        target = Path(options.output_dir)
        target.mkdir(parents=True, exist_ok=True)
        target /= f"{Path(folder).resolve().name}_result.json"
        write_json(target, content)
        print(f"Saving result to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
