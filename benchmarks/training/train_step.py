"""Training steps on mxlite and on its peers, interleaved: ratios, peak memory, one JSON file.

    benchmarks/peers/setup                                        # once: environments from PyPI
    python benchmarks/training/train_step.py --networks resnetv1-50 --batches 16 --json out.json

A step is forward, softmax cross entropy, backward and SGD with momentum and weight decay on a fixed
batch. Each system runs in a process of its own that builds the network once; the processes then
take turns. All begin with the same parameters and must give the same losses before they are timed;
where layers drop at random, losses are compared in processes whose dropout keeps everything.
Peak memory is that of the fresh process after its first steps. Half types are half-precision
parameters with float32 master copies on mxlite, autocast on PyTorch. The file of --json is written
again after each network and batch size.

    # on a machine with a GPU
    python benchmarks/training/train_step.py --device gpu --batches 256 --dtypes bfloat16 float16
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from cell import Cell, System, Worker
from command_line import add_options
from common import progress, report, write_json
from run import (
    chosen_systems,
    entries,
    gpu_name,
    memory_table,
    ratio_table,
    write_spec,
)
from worker_process import WorkerError

HERE = Path(__file__).resolve().parent

# System, variant, dtypes. All other systems are compared with the first one.
SYSTEMS = [
    System("mxlite", "hybrid", ("float32", "float16", "bfloat16")),
    System("mxlite", "module", ("float32",)),
    System("mxnet", "hybrid", ("float32",)),
    System("mxnet", "module", ("float32",)),
    System("torch", "eager", ("float32", "float16", "bfloat16")),
    System("torch", "compile", ("float32", "float16", "bfloat16")),
]
DEFAULT = ["resnetv1-50", "alexnet", "inception-v3"]
PEERS = ["mxnet:hybrid", "torch:compile"]
# Allowed distance of the first loss, as a share of it. PyTorch's own loss of ResNet-50 in bfloat16
# is 0.6 % from the one in float32, so bfloat16 cannot have the limit of the others.
TOLERANCE = {"float32": 5e-4, "float16": 5e-3, "bfloat16": 1e-2}


def without_drops(spec: Path) -> Path | None:
    """Write the layer list again with dropout rates of 0, None where no layer drops.

    Generators differ between systems, so losses are compared with masks that keep everything.
    """
    content = json.loads(spec.read_text())
    dropouts = [layer for layer in content["layers"] if layer["op"] == "dropout"]
    if not dropouts:
        return None
    for layer in dropouts:
        layer["attrs"]["rate"] = 0.0
    path = spec.with_name(f"{spec.stem}-kept.json")
    path.write_text(json.dumps({**content, "keeps_all": True}))
    return path


class TrainWorker(Worker):
    """A process of this folder's worker.py."""

    SCRIPT = HERE / "worker.py"
    options: ClassVar[list[str]] = []


class TrainCell(Cell):
    """Training steps of all systems on one network, dtype and batch size."""

    WORKER = TrainWorker
    _drops = False  # layers drop at random: losses of systems cannot be compared

    def _say_ready(self, name: str, answer: dict[str, Any]) -> None:
        print(
            f"{self.network} batch {self.batch} {self.dtype} {name}: built in "
            f"{answer['build_seconds']:.1f} s, {answer['seconds'][0]:.2f} s a step, "
            f"{answer['mib']:.0f} MiB",
            flush=True,
        )

    def run(
        self,
        systems: list[System],
        spec: Path,
        threads: int,
        rounds: int,
        turn: float,
        busy: int = 0,
    ) -> None:
        """Compare losses, where layers drop in processes of their own, then time the steps.

        Parameters
        ----------
        systems, spec, threads, rounds, turn, busy
            As in :meth:`Cell.run`.
        """
        kept = without_drops(spec)
        if kept is not None:
            systems = self._agreeing(systems, kept, threads)
        self._drops = kept is not None
        super().run(systems, spec, threads, rounds, turn, busy)

    def _agreeing(self, systems: list[System], spec: Path, threads: int) -> list[System]:
        """Return the systems whose losses equal the first one's; the others become failures."""
        self._drops = False
        reference: dict[str, Any] | None = None
        agreeing = []
        for system in systems:
            workers = {str(system): self.WORKER(system, spec, self.batch, self.dtype, threads)}
            try:
                answer = workers[str(system)].ask(do="prepare", within=self.deadline)
                reference = reference or answer
                self._check(answer, reference)
            except WorkerError as error:
                self._drop(workers, str(system), error)
                continue
            workers[str(system)].close()
            agreeing.append(system)
        return agreeing

    def _check(self, answer: dict[str, Any], reference: dict[str, Any]) -> None:
        ours, theirs = answer["losses"], reference["losses"]
        if not all(math.isfinite(loss) for loss in ours):
            raise WorkerError(f"losses must be finite, got {ours}")
        allowed = TOLERANCE[self.dtype]
        if not self._drops and not abs(ours[0] - theirs[0]) <= allowed * abs(theirs[0]):
            raise WorkerError(
                f"first loss is {ours[0]:.5f}, the first system's {theirs[0]:.5f}, expected to "
                f"differ by at most {allowed} of it"
            )


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--networks", nargs="+", default=DEFAULT, help="names of benchmark_score")
    line.add_argument("--batches", nargs="+", type=int, default=[16, 32])
    line.add_argument("--dtypes", nargs="+", default=["float32"], choices=list(TOLERANCE))
    line.add_argument(
        "--systems",
        nargs="+",
        default=PEERS,
        help="all, or such as torch:eager; %(default)s by default",
    )
    names = ("json", "mxnet-python", "peers-python", "threads", "clock")
    add_options(line, *names, rounds=3, turn=2.0)
    line.add_argument(
        "--device",
        default="cpu",
        choices=["cpu", "gpu"],
        help="gpu: the first GPU; mxlite and PyTorch only, memory is that of the host",
    )
    line.add_argument(
        "--deadline",
        type=float,
        default=240.0,
        help="seconds that a system may take for its first steps, or for a turn: %(default)s",
    )
    line.add_argument("--only-memory", action="store_true", help="peak memory alone, no timing")
    return line


def _write(
    options: argparse.Namespace,
    systems: list[System],
    cells: list[TrainCell],
    memory: dict[tuple[str, str, str], float | None],
    failures: list[str],
    planned: int,
) -> None:
    """Write the figures so far."""
    settings = {key: value for key, value in vars(options).items() if "python" not in key}
    del settings["json"]
    content = report(
        "train_step",
        settings,
        entries(cells),
        ratios=[cell.ratios(str(systems[0])) for cell in cells],
        peak_memory=[
            {"network": key[0], "dtype": key[1], "system": key[2], "mib": mib}
            for key, mib in memory.items()
        ],
        failures=failures,
        cells_planned=planned,
    )
    write_json(options.json, content)


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
    from scoring.networks import zoo_name

    for network in options.networks:
        zoo_name(network)
    if min(options.batches) < 1:
        raise SystemExit(f"train_step: batch size must be at least 1, got {min(options.batches)}")
    systems = chosen_systems(options, SYSTEMS)
    TrainWorker.options = ["--clock", options.clock, "--device", options.device]
    TrainCell.deadline = options.deadline
    options.device_name = gpu_name() if options.device == "gpu" else ""
    plan = [(n, d, b) for n in options.networks for d in options.dtypes for b in options.batches]
    cells: list[TrainCell] = []
    memory: dict[tuple[str, str, str], float | None] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for network, dtype, batch in progress(plan, len(plan), "training"):
            runs = [system for system in systems if dtype in system.dtypes]
            spec = write_spec(network, Path(name), random=False, training=True)
            cell = TrainCell(network, dtype, batch)
            rounds = 0 if options.only_memory else options.rounds
            cell.run(runs, spec, options.threads, rounds, options.turn)
            failures += cell.failures
            for system in runs:
                key = (f"{network} batch {batch}", dtype, str(system))
                memory[key] = cell.peaks.get(str(system))
            if rounds:
                cells.append(cell)
                print(ratio_table([cell], runs), flush=True)
            if options.json:
                _write(options, systems, cells, memory, failures, len(plan))
    if len(cells) > 1:
        for dtype in options.dtypes:
            runs = [system for system in systems if dtype in system.dtypes]
            print(ratio_table([cell for cell in cells if cell.dtype == dtype], runs))
    if memory:
        print(memory_table(memory, systems))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if options.json:
        print(f"figures: {options.json}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
