"""Runs programs that end in the middle of something: ``exits.py [--runs 2000] [--busy 2]``.

The programs come from exit_programs.py, one per seed. Each must end with its own exit code (or the
signal that it got), without an abort message, and in time. ``--busy`` processes compute at the same
time. Jobs of two processes (mpirun, or workers with a server) are every 20th run where mpirun is
found.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import exit_programs
from fault_jobs import write

SECONDS = 120.0  # a program that takes longer hangs
ABORTS = re.compile(
    "terminate called|Fatal Python error|FATAL:|Segmentation fault|AssertionError|double free|"
    "corrupted|core dumped|pure virtual"
)
JOB_ACTIVITIES = {
    "allreduce": """
import mxlite.horovod as hvd
hvd.init()
for i in range(STAGE + 1):
    kept.append(hvd.allreduce(mx.nd.ones((1000,)), name=f"a{i}"))
""",
    "dist_store": """
store = mx.kv.create("dist_sync_device")
store.init("w", mx.nd.ones((100, 100)))
for _ in range(STAGE + 1):
    store.push("w", mx.nd.ones((100, 100)))
kept.append(store)
""",
}


def write_data(folder: str) -> None:
    """Write the files that the programs read."""
    import mxlite as mx
    import numpy as np

    writer = mx.recordio.MXRecordIO(os.path.join(folder, "images.rec"), "w")
    pixels = np.arange(32 * 32 * 3, dtype="uint8").reshape(32, 32, 3)
    for i in range(60):
        header = mx.recordio.IRHeader(0, float(i % 5), i, 0)
        writer.write(mx.recordio.pack_img(header, pixels, img_fmt=".jpg"))
    writer.close()
    np.savetxt(os.path.join(folder, "data.csv"), np.ones((50, 3)), delimiter=",")


def job(seed: int) -> tuple[exit_programs.Program, list[str]]:
    """Return a program for two processes and the command that starts it."""
    choose = exit_programs.random.Random(seed)
    name = choose.choice(list(JOB_ACTIVITIES))
    activities = {name: JOB_ACTIVITIES[name]}
    other = choose.choice(["queued", "daemon_operators", "prefetching", "custom", "profiler"])
    activities[other] = exit_programs.ACTIVITIES[other]
    text = exit_programs.HEAD + exit_programs.OPERATORS
    for part in activities.values():
        stage = str(choose.choice([0, 1, 2, 4]))
        text += part.replace("STAGE", stage).replace("NAME", "n0").replace("KEEP", "kept.append")
    text += choose.choice(["", "sys.exit(0)\n"])
    words = [sys.executable, "-m", "mxlite.run", "-np", "2", sys.executable]
    return exit_programs.Program(f"job:{'+'.join(activities)}", text, {0}, False), words


def run(seed: int, folder: str, jobs: bool) -> dict[str, Any]:
    """Run the program of one seed and return what happened."""
    start = [sys.executable]
    if jobs and seed % 20 == 19:
        program, start = job(seed)
    else:
        program = exit_programs.write(seed)
    path = os.path.join(folder, f"{seed}.py")
    Path(path).write_text(program.text)
    environment = dict(os.environ, PYTHONFAULTHANDLER="1", MXLITE_COMM_TIMEOUT="60")
    if program.naive:
        environment["MXLITE_ENGINE"] = "naive"
    begin = time.monotonic()
    process = subprocess.Popen(
        [*start, path, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        cwd=folder,
    )
    try:
        output = process.communicate(timeout=SECONDS)[0].decode(errors="replace")
        how = "ok" if process.returncode in program.codes else "code"
        if ABORTS.search(output):
            how = "abort"
    except subprocess.TimeoutExpired:
        how = "hang"
        os.killpg(process.pid, signal.SIGABRT)  # the fault handler shows the threads
        output = process.communicate()[0].decode(errors="replace")
    os.unlink(path)
    result = {"seed": seed, "name": program.name, "how": how, "code": process.returncode}
    result["seconds"] = round(time.monotonic() - begin, 2)
    if how != "ok":
        result["text"] = output[-1500:]
    return result


def main() -> int:
    """Run the programs, write the result, return 1 if one ended wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--busy", type=int, default=2, help="processes that compute beside")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--json", help="file for the result")
    options = parser.parse_args()
    from mxlite.horovod import mpi_built
    from mxlite.run.launch import has_mpirun

    with_jobs = mpi_built() and has_mpirun()
    counts: Counter[str] = Counter()
    faults = []
    slowest = 0.0
    begin = time.time()
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)
    ]
    try:
        with tempfile.TemporaryDirectory(prefix="mxlite-exits-") as folder:
            write_data(folder)
            seeds = range(options.first, options.first + options.runs)
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                for one in pool.map(lambda seed: run(seed, folder, with_jobs), seeds):
                    counts[one["how"]] += 1
                    slowest = max(slowest, one["seconds"])
                    if one["how"] != "ok":
                        faults.append(one)
                        print(json.dumps(one, indent=1).replace("\\n", "\n"), flush=True)
    finally:
        for process in busy:
            process.kill()
    seconds = round(time.time() - begin)
    result = {
        "what": "exits",
        "python": sys.version.split()[0],
        "runs": options.runs,
        "first_seed": options.first,
        "busy": options.busy,
        "load_average": round(os.getloadavg()[2], 1),  # the machine's other programs, too
        "at_a_time": options.jobs,
        "jobs_of_two": with_jobs,
        **{how: counts[how] for how in ("ok", "code", "abort", "hang")},
        "seconds": seconds,
        "slowest": slowest,
    }
    write(result, options.json, faults=faults)
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
