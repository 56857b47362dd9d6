"""Programs that tests run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import mxlite as mx

PACKAGE = str(Path(mx.__file__).resolve().parents[1])
FOLDER = str(Path(__file__).parent)  # helpers of the tests


def run_command(
    *command: object,
    status: int | None = 0,
    environment: dict[str, Any] | None = None,
    timeout: float = 300,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command whose Python finds the package; check its exit status unless that is None.

    A variable of None is removed from the environment. Options are those of `subprocess.run`.
    """
    variables = {**os.environ, "PYTHONPATH": PACKAGE, **(environment or {})}
    done = subprocess.run(
        [str(word) for word in command],
        env={name: str(value) for name, value in variables.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def run_python(
    *arguments: object, ok: bool = True, environment: dict[str, Any] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments; options in capital letters are environment variables, too.

    Other options are those of `run_command`. Without ``ok`` any exit status is accepted.
    """
    variables = {name: options.pop(name) for name in list(options) if name.isupper()}
    if not ok:
        options["status"] = None
    everything = {**(environment or {}), **variables}
    return run_command(sys.executable, *arguments, environment=everything, **options)


def run_program(
    text: str, *arguments: object, code: int = 0, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code, which may import this folder's helpers, and check its exit code."""
    paths = os.pathsep.join([FOLDER, PACKAGE])
    variables = {"PYTHONPATH": paths, **environment}
    program = textwrap.dedent(text)
    return run_python("-c", program, *arguments, status=code, timeout=seconds, **variables)


def peak_mib() -> int:
    """Return the most memory that this process has held."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
