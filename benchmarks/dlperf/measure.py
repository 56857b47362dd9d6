"""One case on all systems in turns: loss gate, turns, logs, and the figures of the case."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cell import Cell, System, Worker
from common import Timing, result
from worker_process import ANSWER_SECONDS, WorkerError, WorkerProcess

from dlperf.cases import (
    LONG_STEP_SECONDS,
    LONG_STEPS,
    LONG_WARM_UP,
    MATH,
    Case,
    model_flops,
    step_flops,
)
from dlperf.logs import write_log
from dlperf.models import MODELS, SAMPLING

HERE = Path(__file__).resolve().parent
# Allowed distance of the first and the fifth loss, as a share of the loss.
TOLERANCE = {"float32": 2e-3, "tf32": 1e-2, "float16": 2e-2, "bfloat16": 5e-2}
_CLOSE_SECONDS = 20.0
_FULL = ("float32", "tf32", "float16", "bfloat16")

# All other systems are compared with the first one.
SYSTEMS = [
    System("mxlite", "hybrid", _FULL),
    System("mxnet", "hybrid", ("float32",)),
    System("torch", "eager", _FULL),
    System("torch", "compile", _FULL),
]


class DlperfWorker(Worker):
    """A process of this folder's worker.py, or the launcher of several.

    Parameters
    ----------
    system : System
        What runs in it.
    spec : Path
        File with the case and its layers; its folder is shared by the ranks.
    batch : int
        Samples of a rank.
    dtype : str
        Element type of the case.
    threads : int
        Threads of all ranks together.
    """

    ranks = 1

    def __init__(self, system: System, spec: Path, batch: int, dtype: str, threads: int) -> None:
        self._exchange = Path(tempfile.mkdtemp())
        command = [*self.launcher(system), str(HERE / "worker.py"), "--system", system.name]
        command += ["--variant", system.variant, "--spec", str(spec)]
        command += ["--exchange", str(self._exchange), "--parent", str(os.getpid())]
        WorkerProcess.__init__(
            self,
            command,
            max(1, threads // self.ranks),
            own_path=system.name == "mxlite" or (self.ranks > 1 and system.name == "mxnet"),
        )

    def launcher(self, system: System) -> list[str]:
        """Return the start of the command line: the system's Python, for several ranks started."""
        if self.ranks == 1:
            return [system.python]
        count = str(self.ranks)
        if system.name == "torch":
            run = "torch.distributed.run"
            return [system.python, "-m", run, "--standalone", "--nproc-per-node", count]
        return [sys.executable, "-m", "mxlite.run", "-np", count, system.python]

    def ask(self, *, within: float = ANSWER_SECONDS, **request: Any) -> dict[str, Any]:
        """Send one request and return the answer; see :meth:`WorkerProcess.ask`."""
        file = super().ask(within=within, **request)["file"]
        answer: dict[str, Any] = json.loads((self._exchange / file).read_text())
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        """Let the job end by itself, then end processes that still run."""
        stream = self._process.stdin
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)
        super().close()
        # Tries again while a rank that has outlived the launcher writes to the folder. Such ranks
        # end when the folder is removed.
        for _ in range(50):
            shutil.rmtree(self._exchange, ignore_errors=True)
            if not self._exchange.exists():
                break
            time.sleep(0.1)


class DlperfCell(Cell):
    """Training steps of all systems in one case.

    Parameters
    ----------
    case : Case
        What runs.
    logs : Path or None
        Folder for a log of every turn.
    """

    WORKER = DlperfWorker

    def __init__(self, case: Case, logs: Path | None = None) -> None:
        super().__init__(case.name, case.dtype, case.batch)
        self.case, self._logs = case, logs
        self.window = (case.warm_up, case.steps)
        self.reasons: dict[str, str] = {}  # why systems have no figures, by system
        self._decided = False
        self._ready: dict[str, float] = {}
        self._steps: dict[str, list[float]] = {}
        self._losses: dict[str, list[float]] = {}
        self._memory: dict[str, dict[str, float]] = {}

    def _say_ready(self, name: str, answer: dict[str, Any]) -> None:
        self._ready[name] = answer["seconds"][0]
        self._losses[name] = [*answer["losses"]]
        self._keep_memory(name, answer)
        print(
            f"{self.case.name} {name}: built in {answer['build_seconds']:.1f} s, "
            f"{answer['seconds'][0]:.2f} s a step, losses {answer['losses'][0]:.4f} and "
            f"{answer['losses'][1]:.4f}, {answer['mib']:.0f} MiB",
            flush=True,
        )

    def _keep_memory(self, name: str, answer: dict[str, Any]) -> None:
        kept = self._memory.setdefault(name, {})
        for key in ("mib", "driver_mib", "allocator_mib"):
            if key in answer:
                kept[key] = max(kept.get(key, 0.0), answer[key])

    def _check(self, answer: dict[str, Any], reference: dict[str, Any]) -> None:
        allowed = TOLERANCE[self.dtype]
        for when, ours, theirs in zip(("first", "fifth"), answer["losses"], reference["losses"]):
            if not math.isfinite(ours):
                raise WorkerError(f"{when} loss must be a number, got {ours}")
            if not abs(ours - theirs) <= allowed * abs(theirs):
                raise WorkerError(
                    f"{when} loss is {ours:.5f}, the first system's {theirs:.5f}, expected to "
                    f"differ by at most {allowed} of it"
                )

    def _drop(self, workers: dict[str, Worker], name: str, error: WorkerError) -> None:
        super()._drop(workers, name, error)
        self.reasons[name] = str(error)

    def _decide(self) -> None:
        """Choose the steps of a turn, the same for all systems."""
        self._decided = True
        slowest = max(seconds for name, seconds in self._ready.items() if name in self.medians)
        if slowest > LONG_STEP_SECONDS and self.window[1] > LONG_STEPS:
            self.window = (LONG_WARM_UP, LONG_STEPS)
            print(
                f"{self.case.name}: a step takes {slowest:.1f} s, so a turn has {LONG_STEPS} "
                f"steps after {LONG_WARM_UP} instead of {self.case.steps} after "
                f"{self.case.warm_up}",
                flush=True,
            )

    def _take_turn(
        self,
        workers: dict[str, Worker],
        name: str,
        count: int,
        typical: Callable[[list[float]], float],
    ) -> None:
        if not self._decided:
            self._decide()
        warm_up, steps = self.window
        try:
            answer = workers[name].ask(
                do="time", warm_up=warm_up, count=steps, within=self.deadline
            )
            if not math.isfinite(answer["loss"]):
                raise WorkerError(f"loss must be a number, got {answer['loss']}")
        except WorkerError as error:
            self._drop(workers, name, error)
            return
        self.medians[name].append(answer["seconds"][0])
        self._steps.setdefault(name, []).extend(answer["steps"])
        self._losses[name][2:] = [answer["loss"]]
        self._keep_memory(name, answer)
        if self._logs is not None and self.case.mode != SAMPLING:  # which DLPerf did not measure
            write_log(self._logs, self.case, name, len(self.medians[name]), answer)

    def speed(self, name: str) -> float | None:
        """Return samples/s of all ranks of a system, None when it did not run."""
        turns = self.medians.get(name)
        return None if turns is None else self.case.samples / statistics.median(turns)

    def record(self, first: str, peak_tflops: float | None) -> dict[str, Any]:
        """Return the figures of the case.

        Parameters
        ----------
        first : str
            System that the ratios are of.
        peak_tflops : float or None
            Peak of all devices together for the MFU.

        Returns
        -------
        dict
            Plain values; ``systems`` by name, ``reasons`` for those without figures.
        """
        flops, useful = step_flops(self.case), model_flops(self.case)
        sample = "tokens" if self.case.mode == SAMPLING else MODELS[self.case.model].sample
        systems = {}
        for name, turns in self.medians.items():
            seconds = statistics.median(turns)
            steps = Timing(self._steps[name])
            figures = result(
                f"{self.case.name} {name}",
                Timing(turns, self.window[1]),
                unit=f"{sample}/s",
                amount=self.case.samples,
            )
            systems[name] = {
                **figures,
                "turn_seconds": turns,
                "step_seconds": {
                    "median": steps.median,
                    "q1": steps.quartiles[0],
                    "q3": steps.quartiles[1],
                },
                "tflops": flops / seconds / 1e12,
                "mfu": None if peak_tflops is None else useful / seconds / 1e12 / peak_tflops,
                "losses": self._losses[name],
                "memory": self._memory[name],
                "version": self.versions[name],
                "build_seconds": self.build_seconds[name],
            }
        return {
            "name": self.case.name,
            "case": dataclasses.asdict(self.case),
            "math": MATH[self.case.dtype],
            "warm_up": self.window[0],
            "steps": self.window[1],
            "systems": systems,
            "ratios": self.ratios(first)["ratios"],
            "reasons": self.reasons,
        }
