"""Repeats programs and watches the resident memory: ``slopes.py [--cycles 2000]``.

Each program of slope_programs.py runs in a process of its own. The first half of its cycles fills
caches; in the second half the memory may not grow by more than ``ALLOWED_KIB`` for each cycle, less
than what one lost Python array of 100 numbers takes. The slope is the median of the slopes between
all pairs of samples (Theil and Sen), which single steps of the allocator do not disturb.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ALLOWED_KIB = 0.25
SAMPLES = 60  # memory measurements in the second half of a run


def resident_kib() -> float:
    """Return the resident memory of this process in KiB."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4.0


def watch(name: str, cycles: int) -> dict[str, Any]:
    """Repeat a program in this process; return its slope in KiB for each cycle."""
    import mxlite as mx
    from slope_programs import PROGRAMS

    samples: list[tuple[int, float]] = []
    every = max(1, cycles // 2 // SAMPLES)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mxlite-slopes-") as folder:
        cycle = PROGRAMS[name](folder)
        for i in range(cycles):
            cycle(i)
            if i >= cycles // 2 and i % every == 0:
                mx.nd.waitall()
                gc.collect()
                samples.append((i, resident_kib()))
    pairs = itertools.combinations(samples, 2)
    slope = statistics.median((m2 - m1) / (i2 - i1) for (i1, m1), (i2, m2) in pairs)
    return {
        "program": name,
        "cycles": cycles,
        "kib_per_cycle": round(slope, 4),
        "grown_kib": round(samples[-1][1] - samples[0][1]),
        "resident_mib": round(samples[-1][1] / 1024),
        "seconds": round(time.monotonic() - begin),
    }


def main() -> int:
    """Run the programs, write the result, return 1 if the memory of one grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--program", action="append", help="only these")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(watch(options.child, options.cycles)))
        return 0
    from slope_programs import PROGRAMS

    found = []
    for name in options.program or PROGRAMS:
        command = [sys.executable, __file__, "--child", name, "--cycles", str(options.cycles)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            found.append({"program": name, "fault": f"exit code {done.returncode}"})
        else:
            found.append(json.loads(done.stdout.splitlines()[-1]))
            if found[-1]["kib_per_cycle"] > ALLOWED_KIB:
                found[-1]["fault"] = f"more than {ALLOWED_KIB} KiB in each cycle"
        print(json.dumps(found[-1]), flush=True)
    if options.json:
        result = {"what": "memory over cycles", "allowed_kib_per_cycle": ALLOWED_KIB}
        Path(options.json).write_text(json.dumps({**result, "programs": found}, indent=1) + "\n")
    return 1 if any("fault" in one for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
