"""Runs the C++ tests of kernels on one mutant.

These tests call kernels that plans of a graph choose by layout. Python tests reach these kernels
only with large arrays, or not at all. Each test is a separate process that loads the library of
``build.py`` instead of its own; the environment says which mutant to switch on, and where the
process writes which mutants it executed.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

from limits import STOPPED, WAIT, limit_for

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "build" / "dev" / "tests"
LIBRARY = ROOT / "build" / "mutation" / "python" / "mxlite" / "libmxlite.so"
BINARIES = (
    "onednn_kernel_test planned_norm_test planned_convolution_test planned_kernel_test"
    " pointwise_chain_test gemm_test rnn_steps_test ordering_test"
).split()


def _run(binary: str, *words: str, limit: int = 600, **variables: str) -> int:
    """Return the exit status; a process ends after ``limit`` seconds of processor time."""
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "MXLITE_VERIFY_GRAPH": "1"}
    try:
        return subprocess.run(
            [TESTS / binary, *words],
            env={**environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WAIT * limit,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),  # noqa: PLW1509
        ).returncode
    except subprocess.TimeoutExpired:
        return -signal.SIGXCPU


def _processor_seconds() -> float:
    """Return what all ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _names(binary: str) -> list[str]:
    """Return the tests of a program."""
    lines = subprocess.run(
        [TESTS / binary, "--gtest_list_tests"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    suite, names = "", []
    for line in lines:
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name if name.endswith(".") else ""
        elif suite:
            names.append(suite + name)
    return names


def baseline() -> dict[str, Any]:
    """Run all tests without a mutant: by ``program:test``, time and executed mutants."""
    found: dict[str, Any] = {}
    reached = LIBRARY.parents[2] / "reached"
    for binary in BINARIES:
        for name in _names(binary):
            reached.unlink(missing_ok=True)
            begin = _processor_seconds()
            status = _run(binary, f"--gtest_filter={name}", MXLITE_REACHED=str(reached))
            seconds = _processor_seconds() - begin
            if status != 0:
                raise SystemExit(f"{binary} {name} ends with {status} without a mutant")
            numbers = [i for i, byte in enumerate(reached.read_bytes()) if byte]
            found[f"{binary}:{name}"] = {"seconds": round(seconds, 3), "mutants": numbers}
    return found


def run_mutant(number: int, tests: dict[str, Any]) -> dict[str, Any]:
    """Return what the tests that execute a mutant add to its row; nothing if there are none."""
    chosen = [(t["seconds"], n) for n, t in tests.items() if number in t["mutants"]]
    for seconds, name in sorted(chosen):
        binary, _, test = name.partition(":")
        status = _run(
            binary, f"--gtest_filter={test}", limit=limit_for(seconds), MXLITE_MUTANT=str(number)
        )
        if status != 0:
            how = "hang" if -status in STOPPED else "crash" if status < 0 else "failure"
            return {"caught": True, "how": how, "by": name}
    return {"how": "survived"} if chosen else {}
