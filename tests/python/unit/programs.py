"""Programs that tests run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

FOLDER = str(Path(__file__).parent)


def run_program(
    text: str, *arguments: object, code: int = 0, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code, which may import this folder's helpers, and check its exit code."""
    path = os.pathsep.join([FOLDER, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def peak_mib() -> int:
    """Return the most memory that this process has held."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
