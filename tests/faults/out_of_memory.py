"""Fails the n-th allocation of mxlite's libraries: ``out_of_memory.py [--last 2000]``.

For each program and each n from 1 a forked process runs the program while its n-th allocation is
refused. It has to end with the right result or with MemoryError, and afterwards a small computation
has to give the right numbers; a signal, a hang, another exception or a wrong result is a fault. The
allocations counted are those of ``libmxlite.so``, ``_core`` and the C++ library (``--libraries``);
what CPython, NumPy, OpenCV and libgomp ask for never fails. Every process is forked before the
engine starts its threads, so it has threads of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from typing import Any

from fault_jobs import newest_library, write

INTERPOSER = "libmxlite_fail_allocation.so"
SECONDS = 20.0  # a run that takes longer hangs
GOOD, MEMORY, OTHER, BROKEN = 0, 10, 11, 12  # exit codes of a run
MEANING = {GOOD: "right result", MEMORY: "MemoryError", OTHER: "other error", BROKEN: "broken"}


def preload() -> None:
    """Start this program again with the interposer loaded, unless it is."""
    library = newest_library(INTERPOSER)
    if os.environ.get("LD_PRELOAD", "") != library:
        os.environ["LD_PRELOAD"] = library
        os.execv(sys.executable, [sys.executable, *sys.argv])


def is_memory_error(error: BaseException | None) -> bool:
    """Return whether the error, or one that it came from, is a MemoryError."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def run(program: Any, n: int, libraries: bytes, expected: Any) -> int:
    """Run the program with its n-th allocation refused; return an exit code."""
    import mxlite as mx

    interposer = ctypes.CDLL(None)
    mx.random.seed(7)
    outcome = GOOD
    interposer.mxlite_fail_allocations(libraries, ctypes.c_long(n), ctypes.c_long(n))
    try:
        result = program()
    except BaseException as error:  # noqa: BLE001 - judged here
        interposer.mxlite_stop_failing()
        outcome = MEMORY if is_memory_error(error) else OTHER
        if outcome == OTHER:
            traceback.print_exc()
    else:
        if interposer.mxlite_stop_failing() < n:
            return 100  # the program has fewer allocations
        if expected is not None and result != expected:
            print(f"{expected} expected, {result} computed", file=sys.stderr)
            return BROKEN
    with contextlib.suppress(MemoryError):
        mx.nd.waitall()
    if (mx.nd.ones((3, 2)) * 2 + 1).asnumpy().tolist() != [[3, 3]] * 3:
        return BROKEN
    return outcome


def run_forked(program: Any, n: int, libraries: bytes, expected: Any, log: int) -> tuple[str, int]:
    """Run in a forked process; return what happened and the exit code or signal."""
    import mxlite as mx

    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            code = run(program, n, libraries, expected)
            mx._core.engine_stop()
            sys.stderr.flush()
        finally:
            os._exit(code)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return "signal", os.WTERMSIG(status)
            return "exit", os.WEXITSTATUS(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hang", 0


def try_all(name: str, first: int, last: int, step: int, libraries: bytes) -> dict[str, Any]:
    """Fail each allocation of one program in turn; return the counts and the faults."""
    from memory_programs import PROGRAMS

    program, stable = PROGRAMS[name]
    counts: dict[str, int] = {meaning: 0 for meaning in MEANING.values()}
    counts.update(signal=0, hang=0)
    faults = []
    fewer = 0
    log = os.memfd_create("log")
    expected = stable() if stable else None
    for n in range(first, last + 1, step):
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        how, code = run_forked(program, n, libraries, expected, log)
        if how == "exit" and code == 100:
            fewer += 1
            if fewer == 5:  # threads make the number of allocations vary
                break
            continue
        kind = MEANING.get(code, "broken") if how == "exit" else how
        counts[kind] += 1
        if kind not in ("right result", "MemoryError"):
            text = os.pread(log, 8000, 0).decode(errors="replace")
            faults.append({"n": n, "kind": kind, "code": code, "text": text[-600:]})
            shown = text if "MXLITE_SHOW_REFUSALS" in os.environ else text[-900:]
            print(f"{name}: n={n}: {kind} {code}\n{shown}", flush=True)
    os.close(log)
    runs = sum(counts.values())
    print(f"{name}: {runs} runs, {counts}", flush=True)
    return {"program": name, "runs": runs, **counts, "faults": faults}


def main() -> int:
    """Run all programs, write the result, return the number of faulty runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=2000)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--program", action="append", help="only these")
    parser.add_argument("--libraries", default="libmxlite.so:_core.:libstdc++")
    parser.add_argument("--json", help="file for the result")
    options = parser.parse_args()
    preload()
    from memory_programs import PROGRAMS

    begin = time.time()
    found = [
        try_all(name, options.first, options.last, options.step, options.libraries.encode())
        for name in options.program or PROGRAMS
    ]
    faults = sum(len(one["faults"]) for one in found)
    runs = sum(one["runs"] for one in found)
    result = {
        "what": "out of memory",
        "libraries": options.libraries,
        "allocations": [options.first, options.last, options.step],
        "runs": runs,
        "faults": faults,
        "seconds": round(time.time() - begin),
    }
    write(result, options.json, programs=found)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
