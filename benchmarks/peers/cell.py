"""One cell of the comparison: a network, a dtype and a batch size on all systems in turns."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from neighbours import neighbours
from worker_process import ANSWER_SECONDS, WorkerError, WorkerProcess

HERE = Path(__file__).resolve().parent
# Idle threads of the previous system may spin for this time after its turn.
SETTLE_SECONDS = 0.3
# Allowed distance of outputs, as a share of their size: rounding grows with depth.
TOLERANCE = {"float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1, "int8": 3e-1}


def ratio_of_turns(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Return how many times as fast we are: median and quartiles of the ratios of turns.

    Parameters
    ----------
    ours, theirs : list of float
        Seconds of an iteration, one entry for each turn.
    """
    ratios = [b / a for a, b in zip(ours, theirs)]
    if len(ratios) < 2:
        return ratios[0], ratios[0], ratios[0]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return middle, low, high


class System(NamedTuple):
    """A system, how it runs the network, and the Python that has it."""

    name: str
    variant: str
    dtypes: tuple[str, ...]
    python: str = sys.executable

    def __str__(self) -> str:
        return f"{self.name}:{self.variant}"


class Worker(WorkerProcess):
    """A process of worker.py.

    Parameters
    ----------
    system : System
        Network that runs in it.
    spec : Path
        The layer list.
    batch : int
        Images.
    dtype : str
        ``"float32"`` or ``"bfloat16"``.
    threads : int
        Threads that it may use.
    """

    SCRIPT = HERE / "worker.py"
    options: ClassVar[list[str]] = []

    def __init__(self, system: System, spec: Path, batch: int, dtype: str, threads: int) -> None:
        super().__init__(
            [*self.launcher(system), str(self.SCRIPT), "--system", system.name]
            + ["--variant", system.variant, "--dtype", dtype, "--batch", str(batch)]
            + ["--spec", str(spec), *self.options],
            threads,
            own_path=system.name == "mxlite",
        )

    def launcher(self, system: System) -> list[str]:
        """Return the start of the command line: the system's Python."""
        return [system.python]


class Cell:
    """Measurements of all systems on one network, dtype and batch size.

    Parameters
    ----------
    network, dtype : str
        Network to run.
    batch : int
        Images.
    """

    WORKER = Worker
    deadline = ANSWER_SECONDS  # seconds of a system for getting ready, and for a turn

    def __init__(self, network: str, dtype: str, batch: int) -> None:
        self.network, self.dtype, self.batch = network, dtype, batch
        self.medians: dict[str, list[float]] = {}  # seconds of an iteration, one for each turn
        self.cpu_medians: dict[str, list[float]] = {}  # sum over all threads, where it is known
        self.peaks: dict[str, float] = {}  # MiB of memory when a system was ready, likewise
        self.versions: dict[str, str] = {}
        self.build_seconds: dict[str, float] = {}
        self.failures: list[str] = []

    def run(
        self,
        systems: list[System],
        spec: Path,
        threads: int,
        rounds: int,
        turn: float,
        busy: int = 0,
    ) -> None:
        """Build the network on all systems, compare outputs, then let them take turns.

        Parameters
        ----------
        systems : list of System
            Systems to run; outputs are compared with those of the first one.
        spec : Path
            The layer list.
        threads : int
            Threads of each.
        rounds : int
            Turns of each.
        turn : float
            Seconds of a turn, at least one iteration.
        busy : int
            Busy processes that run beside every turn.
        """
        workers: dict[str, Worker] = {}
        counts: dict[str, int] = {}
        reference: dict[str, Any] | None = None
        try:
            for system in systems:
                name = str(system)
                worker = self.WORKER(system, spec, self.batch, self.dtype, threads)
                workers[name] = worker
                try:
                    answer = worker.ask(do="prepare", within=self.deadline)
                    self._check(answer, reference or answer)
                    reference = reference or answer
                except WorkerError as error:
                    self._drop(workers, name, error)
                    continue
                counts[name] = max(1, min(200, int(turn / statistics.median(answer["seconds"]))))
                self.versions[name] = answer["version"]
                self.build_seconds[name] = round(answer["build_seconds"], 2)
                self.medians[name] = []
                if "mib" in answer:
                    self.peaks[name] = answer["mib"]
                self._say_ready(name, answer)
            # Beside other programs, takes the mean, because iterations differ by whole time slices.
            typical = statistics.fmean if busy else statistics.median
            with neighbours(busy):
                for index in range(rounds):
                    # The order rotates, so that no system always follows the same one.
                    order = list(counts)
                    shift = index % max(1, len(order))
                    for name in order[shift:] + order[:shift]:
                        if name in workers:
                            self._take_turn(workers, name, counts[name], typical)
        finally:
            for worker in workers.values():
                worker.close()
        self.medians = {name: turns for name, turns in self.medians.items() if turns}

    def _take_turn(
        self,
        workers: dict[str, Worker],
        name: str,
        count: int,
        typical: Callable[[list[float]], float],
    ) -> None:
        time.sleep(SETTLE_SECONDS)
        try:
            answer = workers[name].ask(do="time", count=count, within=self.deadline)
        except WorkerError as error:
            self._drop(workers, name, error)
            return
        self.medians[name].append(typical(answer["seconds"]))
        if "cpu_seconds" in answer:
            cpu = typical(answer["cpu_seconds"])
            self.cpu_medians.setdefault(name, []).append(cpu)

    def _say_ready(self, name: str, answer: dict[str, Any]) -> None:
        """Do nothing when a system has built the network; subclasses report it."""

    def _drop(self, workers: dict[str, Worker], name: str, error: WorkerError) -> None:
        workers.pop(name).close()
        self.medians.pop(name, None)
        self.cpu_medians.pop(name, None)
        self.failures.append(f"{self.network} batch {self.batch} {self.dtype} {name}: {error}")

    def _check(self, answer: dict[str, Any], reference: dict[str, Any]) -> None:
        # Single entries may be near zero, so differences are relative to the size of the whole
        # output.
        scale = reference["norm"] / math.sqrt(1000)
        worst = max(
            abs(one - other) / scale for one, other in zip(answer["output"], reference["output"])
        )
        if not worst <= TOLERANCE[self.dtype]:
            raise WorkerError(
                f"output differs from the first system's by {worst:.2e} of its size, "
                f"expected at most {TOLERANCE[self.dtype]}"
            )

    def speed(self, name: str) -> float | None:
        """Return images/s of a system, None when it did not run."""
        turns = self.medians.get(name)
        return None if turns is None else self.batch / statistics.median(turns)

    def best_peer(self, peers: list[str]) -> str | None:
        """Return the fastest of ``peers``, None when none ran."""
        ran = [name for name in peers if name in self.medians]
        return max(ran, key=lambda name: self.speed(name) or 0.0) if ran else None

    def ratio(self, name: str, peer: str) -> tuple[float, float, float]:
        """Return how many times as fast ``name`` is as ``peer``: median and quartiles of rounds."""
        return ratio_of_turns(self.medians[name], self.medians[peer])

    def ratios(self, name: str) -> dict[str, Any]:
        """Return the ratios of ``name`` to all peers for the result file."""
        found = {}
        for peer in self.medians:
            if peer != name and name in self.medians:
                middle, low, high = self.ratio(name, peer)
                found[peer] = {"median": middle, "q1": low, "q3": high}
        return {
            "network": self.network,
            "batch": self.batch,
            "dtype": self.dtype,
            "ratios": found,
        }
