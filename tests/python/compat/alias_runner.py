"""Runs Python code through the mxnet import alias in a fresh process."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

from processes import run_python

SCRIPTS = Path(__file__).resolve().parent / "scripts"


def run(
    *arguments: str, cwd: Path | None = None, returncode: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m mxlite.compat arguments...``; the return code is checked."""
    return run_python("-m", "mxlite.compat", *arguments, cwd=cwd, status=returncode)


def run_code(code: str, folder: Path, *arguments: str, returncode: int = 0) -> str:
    """Write code to a file, run it through the alias and return what it printed."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    return run(str(script), *arguments, cwd=folder, returncode=returncode).stdout


def run_script(name: str, *arguments: str, cwd: Path) -> str:
    """Run one of the scripts beside this file and return what it printed."""
    return run(str(SCRIPTS / name), *arguments, cwd=cwd).stdout
