"""Scoring on mxlite and on its peers, interleaved: ratios, peak memory, one JSON file.

    benchmarks/peers/setup                                        # once: environments from PyPI
    python benchmarks/peers/run.py --networks all --batches 1 32 --json out.json

Each system runs in a process of its own that builds the network once; the processes then take
turns, so that a change of the machine's speed meets all of them. All compute the same layers with
the same parameters, and their outputs are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cell import TOLERANCE, Cell, System, Worker
from command_line import add_options
from common import Timing, progress, report, result, table, write_json
from peer_values import bert_length
from worker_process import WorkerError

HERE = Path(__file__).resolve().parent

# System, variant, dtypes. All other systems are compared with the first one.
SYSTEMS = [
    System("mxlite", "hybrid", ("float32", "float16", "bfloat16", "int8")),
    System("mxlite", "float32", ("int8",)),
    System("mxnet", "hybrid", ("float32",)),
    System("mxnet", "fused", ("float32",)),
    System("torch", "eager", ("float32", "float16", "bfloat16")),
    System("torch", "compile", ("float32", "float16", "bfloat16")),
    System("onnxruntime", "all", ("float32", "int8")),
    System("onnxruntime", "static", ("int8",)),
    System("openvino", "latency", ("float32", "bfloat16", "int8")),
    System("openvino", "static", ("int8",)),
]


ON_GPU = ("mxlite", "torch")


def gpu_name() -> str:
    """Return the first GPU's name as the driver gives it, or the library of a simulated GPU."""
    if "MXLITE_CUDA_LIBRARY" in os.environ:
        return os.path.basename(os.environ["MXLITE_CUDA_LIBRARY"])
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"--device gpu: no usable GPU ({error})") from None


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument(
        "--networks",
        nargs="+",
        default=["all"],
        help="names of benchmark_score, bert-base, bert-base-512",
    )
    line.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    line.add_argument("--dtypes", nargs="+", default=["float32"], choices=list(TOLERANCE))
    line.add_argument("--systems", nargs="+", default=["all"], help="all, or such as torch:eager")
    names = ("json", "mxnet-python", "peers-python", "threads", "clock")
    add_options(line, *names, rounds=5, turn=1.0)
    line.add_argument(
        "--neighbours",
        type=int,
        default=0,
        metavar="N",
        help="busy processes beside every turn: %(default)s",
    )
    line.add_argument(
        "--device",
        default="cpu",
        choices=["cpu", "gpu"],
        help="gpu: the first GPU; mxlite and PyTorch only, without the peak memory runs",
    )
    line.add_argument("--no-memory", action="store_true", help="skip the peak memory runs")
    return line


def chosen_systems(
    options: argparse.Namespace, systems: Sequence[System] = SYSTEMS
) -> list[System]:
    """Return the systems to run; report and leave out those whose environment is missing.

    Parameters
    ----------
    options : argparse.Namespace
        The command line.
    systems : sequence of System
        All that there are; the first always runs.

    Returns
    -------
    list of System
        mxlite first.

    Raises
    ------
    SystemExit
        An unknown system.
    """
    known = {str(system): system for system in systems}
    names = list(known) if options.systems == ["all"] else [str(systems[0]), *options.systems]
    chosen = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise SystemExit(f"peers: no system {name!r}; there are {', '.join(known)}")
        system = known[name]
        if options.device == "gpu" and (system.name not in ON_GPU or system.variant == "module"):
            continue
        python = {"mxlite": sys.executable, "mxnet": options.mxnet_python}.get(
            system.name, options.peers_python
        )
        if not Path(python).exists():
            print(f"{system}: {python} does not exist; run benchmarks/peers/setup", file=sys.stderr)
            continue
        chosen.append(System(system.name, system.variant, system.dtypes, python))
    return chosen


def write_spec(network: str, folder: Path, random: bool, training: bool = False) -> Path:
    """Write a network's layer list, made by a process of its own.

    Parameters
    ----------
    network : str
        Name in the scoring benchmark.
    folder : Path
        Path of the file.
    random : bool
        Whether systems fill the parameters themselves.
    training : bool
        Whether layers that only work in training are part of it.

    Returns
    -------
    Path
        The file.
    """
    path = folder / f"{network}{'-random' if random else ''}.json"
    if not path.exists():
        command = [sys.executable, str(HERE / "export.py"), network, str(path)]
        flags = [*(["--random"] if random else []), *(["--training"] if training else [])]
        subprocess.run([*command, *flags], check=True)
    return path


def write_onnx(spec: Path, batch: int, dtype: str, systems: list[System]) -> None:
    """Write the ONNX file beside ``spec`` and its path into it, where a system needs one.

    Parameters
    ----------
    spec : Path
        The layer list.
    batch : int
        Images.
    dtype : str
        ``"int8"``: mxlite writes its quantized network, which has the ranges of its calibration.
    systems : list of System
        The systems that run.
    """
    python = next((s.python for s in systems if s.name in ("onnxruntime", "openvino")), None)
    if python is None:
        return
    target = spec.with_suffix(".onnx")
    files = ["--spec", str(spec), "--batch", str(batch), "--write-onnx", str(target)]
    if dtype == "int8":
        command = [sys.executable, str(HERE / "on_mxlite.py"), *files]
    else:
        command = [python, str(HERE / "worker.py"), "--system", "none", *files]
    subprocess.run(command, check=True)
    content = json.loads(spec.read_text())
    content["onnx"] = str(target)
    spec.write_text(json.dumps(content))


def peak_memory(
    system: System,
    spec: Path,
    batch: int,
    dtype: str,
    threads: int,
    worker_class: type[Worker] = Worker,
) -> float:
    """Return the peak resident set of a fresh process that runs a few batches, in MiB."""
    worker = worker_class(system, spec, batch, dtype, threads)
    try:
        worker.ask(do="prepare")
        return float(worker.ask(do="memory")["mib"])
    finally:
        worker.close()


def ratio_table(cells: Sequence[Cell], systems: list[System]) -> str:
    """Return images/s of every system in every cell and mxlite's ratio to the best peer."""
    peers = [str(system) for system in systems[1:]]
    head = ["network", "batch", "dtype", str(systems[0]), *peers, "best peer", "ratio", "quartiles"]
    rows, ratios = [], []
    for cell in cells:
        speeds = {name: cell.speed(name) for name in [str(systems[0]), *peers]}
        row = [cell.network, str(cell.batch), cell.dtype]
        row += ["" if speed is None else f"{speed:.1f}" for speed in speeds.values()]
        best = cell.best_peer([name for name in peers if name != "mxlite:float32"])
        if best is None or speeds[str(systems[0])] is None:
            rows.append([*row, "", "", ""])
            continue
        middle, low, high = cell.ratio(str(systems[0]), best)
        ratios.append(middle)
        rows.append([*row, best, f"{middle:.3f}", f"{low:.3f}-{high:.3f}"])
    lines = [table(head, rows)]
    if len(ratios) > 1:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        lines.append(f"geometric mean of the ratios to the best peer: {mean:.3f}")
    return "\n".join(lines)


def memory_table(memory: dict[tuple[str, str, str], float | None], systems: list[System]) -> str:
    """Return the peak resident sets, network by network."""
    names = [str(system) for system in systems]
    rows = []
    for network, dtype in dict.fromkeys((key[0], key[1]) for key in memory):
        cells = [memory.get((network, dtype, name)) for name in names]
        rows.append([network, dtype, *["" if mib is None else f"{mib:.0f}" for mib in cells]])
    return "peak resident set of a fresh process, MiB\n" + table(["network", "dtype", *names], rows)


def entries(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the result file's entries of all cells."""
    return [
        result(
            f"{cell.network} batch {cell.batch} {cell.dtype} {name}",
            Timing(seconds),
            unit="images/s" if bert_length(cell.network) is None else "sequences/s",
            amount=cell.batch,
            network=cell.network,
            batch=cell.batch,
            dtype=cell.dtype,
            system=name,
            version=cell.versions[name],
            build_seconds=cell.build_seconds[name],
            **(
                {"cpu_seconds": statistics.median(cell.cpu_medians[name])}
                if name in cell.cpu_medians
                else {}
            ),
        )
        for cell in cells
        for name, seconds in cell.medians.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0; 1 when a system failed in a cell.
    """
    options = parser().parse_args(arguments)
    from networks import check_name
    from scoring.networks import DEFAULT

    networks = DEFAULT if options.networks == ["all"] else options.networks
    for network in networks:
        try:
            check_name(network)
        except ValueError as error:
            raise SystemExit(f"peers: {error}") from None
    if options.neighbours < 0:
        raise SystemExit(f"peers: --neighbours must be at least 0, got {options.neighbours}")
    if min(options.batches) < 1:
        raise SystemExit(f"peers: batch size must be at least 1, got {min(options.batches)}")
    systems = chosen_systems(options)
    Worker.options = ["--device", options.device, "--clock", options.clock]
    options.no_memory |= options.device == "gpu"
    device_name = gpu_name() if options.device == "gpu" else ""
    plan = [(n, d, b) for n in networks for d in options.dtypes for b in options.batches]
    cells: list[Cell] = []
    memory: dict[tuple[str, str, str], float | None] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network, dtype, batch in progress(plan, len(plan), "peers"):
            runs = [system for system in systems if dtype in system.dtypes]
            spec = write_spec(network, folder, random=False)
            write_onnx(spec, batch, dtype, runs)
            cell = Cell(network, dtype, batch)
            cell.run(runs, spec, options.threads, options.rounds, options.turn, options.neighbours)
            cells.append(cell)
            failures += cell.failures
            print(ratio_table([cell], runs), flush=True)
            if options.no_memory or batch != options.batches[-1]:
                continue
            spec = write_spec(network, folder, random=True)
            write_onnx(spec, batch, dtype, runs)
            for system in runs:
                key = (network, dtype, str(system))
                try:
                    memory[key] = peak_memory(system, spec, batch, dtype, options.threads)
                except WorkerError as error:
                    memory[key] = None
                    failures.append(f"{' '.join(key)} memory: {error}")
            for file in folder.glob("*.onnx"):
                file.unlink()
    for dtype in options.dtypes:
        runs = [system for system in systems if dtype in system.dtypes]
        print(ratio_table([cell for cell in cells if cell.dtype == dtype], runs))
    if memory:
        print(memory_table(memory, systems))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if options.json:
        settings = {key: value for key, value in vars(options).items() if "python" not in key}
        del settings["json"]
        settings["networks"] = list(networks)
        settings["device_name"] = device_name
        ratios = [cell.ratios(str(systems[0])) for cell in cells]
        peaks = [
            {"network": key[0], "dtype": key[1], "system": key[2], "mib": mib}
            for key, mib in memory.items()
        ]
        write_json(
            options.json,
            report(
                "peers",
                settings,
                entries(cells),
                ratios=ratios,
                peak_memory=peaks,
                failures=failures,
            ),
        )
        print(f"figures: {options.json}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
