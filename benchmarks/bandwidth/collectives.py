"""Compares rates of collectives between processes of this machine with Open MPI and Gloo.

    python benchmarks/bandwidth/collectives.py --libraries mxlite openmpi gloo --torch-python PYTHON

mxlite's communicator, `MPI_Allreduce` and similar functions through mpi4py, and torch.distributed's
Gloo (``--torch-python``: an interpreter that has PyTorch) take turns for ``--rounds`` rounds,
float32, all-reduce in place. Times are those of the slowest rank: the median of a round's repeats,
and the median of the rounds.

The limit of a collective is the time in which its ranks could copy the bytes that each of them
must get, at the rate at which all ranks that get some copy private memory together. That rate is
measured in the same processes, before and after the collectives, by memcpy and by a copy past the
caches; the faster of them counts. For an array of N bytes on p ranks each rank must get

- all-reduce: 2 (p - 1) / p N, its part of all others' arrays and the sums of the other parts;
- all-gather: N, the parts of all ranks with its own, which it gives in another array;
- reduce-scatter: (1 + 1 / p) / 2 N: it reads N bytes, one part of each rank's array, and writes
  N / p, the sum, and a copy of n bytes reads n and writes n;
- broadcast: N; the root gets nothing, so that only the others copy.

The ranks are not bound to cores. ``quartiles`` are those of all repeats of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from command_line import add_options  # noqa: E402

SIZES = [4 << i for i in range(0, 27, 2)]  # 4 B to 256 MB
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def bus_share(operation: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as nccl-tests define it."""
    return {
        "all_reduce": 2 * (ranks - 1) / ranks,
        "all_gather": (ranks - 1) / ranks,
        "reduce_scatter": (ranks - 1) / ranks,
        "broadcast": 1.0,
    }[operation]


def must_get(operation: str, ranks: int) -> float:
    """Return the bytes that a rank must copy, for each byte of the array."""
    return {
        "all_reduce": 2 * (ranks - 1) / ranks,
        "all_gather": 1.0,
        "reduce_scatter": (1 + 1 / ranks) / 2,
        "broadcast": 1.0,
    }[operation]


class Mxlite:
    """The communicator, called by this thread."""

    name = "mxlite"

    def __init__(self) -> None:
        import mxlite as mx
        import mxlite.horovod as hvd

        hvd.init()  # ends MPI at exit
        self.nd, self.group = mx.nd, mx._core.make_communicator()
        self.copy_past_caches = mx._core.copy_streaming
        self.rank, self.size = self.group.rank, self.group.size
        self.barrier = self.group.barrier

    def array(self, count: int) -> Any:
        """Return the existing arrays."""
        array = self.nd.ones((count,))
        array.wait_to_read()
        return array

    def calls(self, count: int) -> dict[str, Callable[[], Any]]:
        """Return the operations on arrays of ``count`` elements."""
        array = self.array(count)
        part = max(count // self.size, 1)
        mine, all_ = self.array(part), self.array(part * self.size)
        counts = [part] * self.size
        return {
            "all_reduce": lambda: self.group.all_reduce(array, array),
            "all_gather": lambda: self.group.all_gather(mine, all_, counts),
            "reduce_scatter": lambda: self.group.reduce_scatter(all_, mine, counts),
            "broadcast": lambda: self.group.broadcast(array, 0),
        }

    def slowest(self, seconds: float) -> float:
        """Return the largest of all ranks' values."""
        array = self.nd.array([seconds], dtype="float64")
        self.group.all_reduce(array, array, "max")
        return float(array.asscalar())


class Mpi:
    """Open MPI through mpi4py."""

    name = "openmpi"

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.group = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.group.rank, self.group.size
        self.barrier = self.group.Barrier

    def calls(self, count: int) -> dict[str, Callable[[], Any]]:
        """Return the operations on arrays of ``count`` elements."""
        array = np.ones(count, dtype="float32")
        part = max(count // self.size, 1)
        mine, all_ = np.ones(part, "float32"), np.ones(part * self.size, "float32")
        return {
            "all_reduce": lambda: self.group.Allreduce(self.mpi.IN_PLACE, array),
            "all_gather": lambda: self.group.Allgather(mine, all_),
            "reduce_scatter": lambda: self.group.Reduce_scatter_block(all_, mine),
            "broadcast": lambda: self.group.Bcast(array, 0),
        }

    def slowest(self, seconds: float) -> float:
        """Return the largest of all ranks' values."""
        return float(self.group.allreduce(seconds, self.mpi.MAX))


class Gloo:
    """torch.distributed, whose ranks are set by the variables of mpirun or of this script."""

    name = "gloo"

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.torch, self.dist = torch, dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.barrier = dist.barrier

    def calls(self, count: int) -> dict[str, Callable[[], Any]]:
        """Return the operations on arrays of ``count`` elements."""
        array = self.torch.ones(count)
        part = max(count // self.size, 1)
        mine = self.torch.ones(part)
        all_ = [self.torch.ones(part) for _ in range(self.size)]
        # Leaves out reduce-scatter, because Gloo does not have it.
        return {
            "all_reduce": lambda: self.dist.all_reduce(array),
            "all_gather": lambda: self.dist.all_gather(all_, mine),
            "broadcast": lambda: self.dist.broadcast(array, 0),
        }

    def slowest(self, seconds: float) -> float:
        """Return the largest of all ranks' values."""
        value = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(value, self.dist.ReduceOp.MAX)
        return float(value.item())


LIBRARIES = {library.name: library for library in (Mxlite, Mpi, Gloo)}


def copy_rates(library: Any, bytes_: int) -> dict[str, float]:
    """Return the bytes per second of each rank while all ranks copy, or all but the root."""
    source, target = np.ones(bytes_ // 4, "float32"), np.ones(bytes_ // 4, "float32")
    ways: dict[str, Callable[[], Any]] = {"memcpy": lambda: np.copyto(target, source)}
    if isinstance(library, Mxlite):
        arrays = library.array(bytes_ // 4), library.array(bytes_ // 4)
        ways["past caches"] = lambda: library.copy_past_caches(*arrays)
    rates = {}
    for who, first in (("all", 0), ("all but root", 1)):
        for way, copy in ways.items():
            times = []
            for _ in range(8):
                library.barrier()
                begin = time.perf_counter()
                if library.rank >= first:
                    copy()
                times.append(library.slowest(time.perf_counter() - begin))
            rates[f"{who}, {way}"] = bytes_ / statistics.median(times[1:])
    return rates


def measure(library: Any, call: Callable[[], Any], seconds: float) -> list[float]:
    """Return seconds per call of several repeats."""
    library.barrier()
    begin = time.perf_counter()
    for _ in range(3):
        call()
    once = library.slowest(time.perf_counter() - begin) / 3
    calls = max(1, min(2000, int(seconds / 10 / max(once, 1e-7))))
    times = []
    for _ in range(9):
        library.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append(library.slowest(time.perf_counter() - begin) / calls)
    return times


def work(args: argparse.Namespace) -> None:
    """Measure one library, as one of its ranks."""
    library = LIBRARIES[args.worker]()
    rates = [copy_rates(library, max(args.sizes))]
    entries = []
    for size in args.sizes:
        calls = library.calls(size // 4)
        for operation in args.operations:
            if operation not in calls:
                continue
            times = measure(library, calls[operation], args.seconds)
            entries.append(
                {
                    "library": library.name,
                    "operation": operation,
                    "bytes": size,
                    "seconds": statistics.median(times),
                    "repeats": times,
                }
            )
        del calls
    rates.append(copy_rates(library, max(args.sizes)))
    if library.rank == 0:
        Path(args.output).write_text(json.dumps({"copy_rates": rates, "entries": entries}))
    library.barrier()


def command_of(args: argparse.Namespace, name: str, output: str) -> list[list[str]]:
    """Return the commands that make up a job: mpirun, or one for each rank."""
    python = args.torch_python if name == "gloo" else sys.executable
    command = [python, __file__, "--worker", name, "--output", output]
    command += ["--seconds", str(args.seconds), "--sizes", *map(str, args.sizes)]
    command += ["--operations", *args.operations]
    if name == "gloo":
        return [command] * args.np
    mpirun = Path(sys.executable).parent / "mpirun"
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    start = [str(mpirun) if mpirun.exists() else "mpirun", *root, "--oversubscribe"]
    return [[*start, "--bind-to", "none", "-np", str(args.np), *command]]


def run_library(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """Run one library's job and return what it measured."""
    output = f"collectives_{name}_{os.getpid()}.json"
    commands = command_of(args, name, output)
    processes = []
    for rank, command in enumerate(commands):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        if len(commands) > 1:
            environment.update(
                RANK=str(rank),
                WORLD_SIZE=str(args.np),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(20000 + os.getpid() % 20000),
            )
        processes.append(subprocess.Popen(command, env=environment))
    if any([process.wait() for process in processes]):
        raise SystemExit(f"{name}: a process failed")
    found = json.loads(Path(output).read_text())
    Path(output).unlink()
    return found


def combined(args: argparse.Namespace, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over rounds, rates and shares of the limit."""
    limits = {}
    for who in ("all", "all but root"):
        by_way: dict[str, list[float]] = {}
        for job in rounds:
            for rates in job["copy_rates"]:
                for way, rate in rates.items():
                    if way.startswith(who + ","):
                        by_way.setdefault(way, []).append(rate)
        limits[who] = max(statistics.median(values) for values in by_way.values())
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for job in rounds:
        for entry in job["entries"]:
            key = (entry["library"], entry["operation"], entry["bytes"])
            found.setdefault(key, []).append(entry)
    entries = []
    for (library, operation, size), each in found.items():
        seconds = statistics.median(entry["seconds"] for entry in each)
        copy = limits["all but root" if operation == "broadcast" else "all"]
        entries.append(
            {
                "library": library,
                "operation": operation,
                "bytes": size,
                "seconds": seconds,
                "rounds": [entry["seconds"] for entry in each],
                "quartiles": common.Timing([t for e in each for t in e["repeats"]]).quartiles,
                "algorithm": size / seconds,
                "bus": size / seconds * bus_share(operation, args.np),
                "of_limit": size * must_get(operation, args.np) / copy / seconds,
            }
        )
    return {
        "processes": args.np,
        "rounds": args.rounds,
        "copy_rate": limits["all"],
        "copy_rate_all_but_root": limits["all but root"],
        "copy_rates": [job["copy_rates"] for job in rounds],
        "entries": entries,
        "against_mxlite": against(entries),
    }


def against(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return other libraries' time over mxlite's, for each operation and size."""
    ours = {(e["operation"], e["bytes"]): e for e in entries if e["library"] == "mxlite"}
    return [
        {
            "library": e["library"],
            "operation": e["operation"],
            "bytes": e["bytes"],
            "time_over_mxlite": e["seconds"] / ours[e["operation"], e["bytes"]]["seconds"],
        }
        for e in entries
        if e["library"] != "mxlite" and (e["operation"], e["bytes"]) in ours
    ]


def report(result: dict[str, Any]) -> None:
    """Print a table."""
    print(
        f"{result['processes']} processes; each copies {result['copy_rate'] / 1e9:.2f} GB/s while "
        f"all do, {result['copy_rate_all_but_root'] / 1e9:.2f} while all but one do\n"
    )
    by = {(e["library"], e["operation"], e["bytes"]): e for e in result["entries"]}
    libraries = list(dict.fromkeys(e["library"] for e in result["entries"]))
    for operation in dict.fromkeys(e["operation"] for e in result["entries"]):
        print(f"{operation:>12} " + "".join(f"{name:>44}" for name in libraries))
        print(" " * 13 + "       time us algo GB/s  bus GB/s    of limit" * len(libraries))
        for size in dict.fromkeys(e["bytes"] for e in result["entries"]):
            line = f"{size:>12} "
            for name in libraries:
                if (name, operation, size) not in by:
                    line += f"{'':>44}"
                    continue
                entry = by[name, operation, size]
                line += f"{entry['seconds'] * 1e6:>14.2f}{entry['algorithm'] / 1e9:>10.3f}"
                line += f"{entry['bus'] / 1e9:>10.3f}{entry['of_limit']:>10.1%}"
            print(line)
        print()
    sizes = sorted({e["bytes"] for e in result["entries"]})
    shown = {sizes[-1], min(sizes, key=lambda size: abs(size - 4096))}
    for e in result["against_mxlite"]:
        if e["bytes"] in shown:
            print(
                f"{e['operation']} of {e['bytes']} B: {e['library']} takes "
                f"{e['time_over_mxlite']:.2f} times mxlite's time"
            )


def plot(result: dict[str, Any], path: str) -> None:
    """Draw bus bandwidth over size, one panel for each operation."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    operations = list(dict.fromkeys(e["operation"] for e in result["entries"]))
    figure, axes = plt.subplots(1, len(operations), figsize=(5 * len(operations), 4), sharey=True)
    for axis, operation in zip(np.atleast_1d(axes), operations):
        for name in dict.fromkeys(e["library"] for e in result["entries"]):
            rows = [
                (e["bytes"], e["bus"] / 1e9)
                for e in result["entries"]
                if (e["library"], e["operation"]) == (name, operation)
            ]
            axis.loglog(*zip(*rows), marker="o", label=name)
        axis.axhline(result["copy_rate"] / 1e9, color="gray", linestyle=":", label="copy")
        axis.set(title=operation, xlabel="bytes", ylabel="bus GB/s")
    np.atleast_1d(axes)[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "np", rounds=3)
    parser.add_argument("--libraries", nargs="+", default=["mxlite", "openmpi"])
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--plot")
    parser.add_argument("--worker", choices=list(LIBRARIES), help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    jobs = [run_library(args, name) for _ in range(args.rounds) for name in args.libraries]
    result = combined(args, jobs)
    report(result)
    if args.json:
        names = ("np", "libraries", "operations", "sizes", "seconds", "rounds")
        settings = {name: getattr(args, name) for name in names}
        entries = result.pop("entries")
        common.write_json(args.json, common.report("collectives", settings, entries, **result))
    if args.plot:
        plot(result, args.plot)


if __name__ == "__main__":
    main()
