"""Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mxlite as mx

PACKAGE = str(Path(mx.__file__).resolve().parents[1])


def run_python(
    *arguments: object,
    status: int | None = 0,
    environment: dict[str, str] | None = None,
    timeout: float = 240,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run Python, which finds the package, and check its exit status unless that is None.

    The options are those of `subprocess.run`.
    """
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": PACKAGE, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done
