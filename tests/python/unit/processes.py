"""Programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mxlite as mx

PACKAGE = str(Path(mx.__file__).resolve().parents[1])


def run_program(
    *command: object,
    status: int | None = 0,
    environment: dict[str, str] | None = None,
    timeout: float = 300,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command whose Python finds the package; check its exit status unless that is None.

    The options are those of `subprocess.run`.
    """
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PYTHONPATH": PACKAGE, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def run_python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with the arguments, as `run_program` does."""
    return run_program(sys.executable, *arguments, **options)
