"""Programs that tests run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run_program(
    text: str, *arguments: object, code: int = 0, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code, check its exit code and return its streams."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done
