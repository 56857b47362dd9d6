"""Jobs of mxlite-run and results in JSON, for the programs of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def start_job(
    folder: Path,
    text: str,
    ranks: int,
    *words: str,
    options: tuple[str, ...] = (),
    **variables: Any,
) -> subprocess.Popen[str]:
    """Start a program on several ranks; their output goes to the file ``output``."""
    script = folder / "rank.py"
    script.write_text(text)
    command = [sys.executable, "-m", "mxlite.run", "-np", str(ranks), *options]
    environment = {name: str(value) for name, value in variables.items()}
    with (folder / "output").open("w") as output:
        return subprocess.Popen(
            [*command, sys.executable, str(script), *words],
            env={**os.environ, "MXLITE_CPU_THREADS": "1", **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )


def tail(folder: Path) -> str:
    """Return the end of what a job printed."""
    return (folder / "output").read_text(errors="replace")[-3000:]


def find_library(name: str) -> Path | None:
    """Return the newest build of a library for preloading, None if there is none."""
    built = ROOT.glob(f"build/*/tests/{name}")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def newest_library(name: str) -> str:
    """Return the newest build of a library; exit if there is none."""
    return str(find_library(name) or sys.exit(f"{name} is not built: ninja -C build/dev cpp_tests"))


def write(result: dict[str, Any], path: str | None, **details: Any) -> None:
    """Print a result, and write it with its details to a file."""
    print(json.dumps(result, indent=1))
    if path:
        Path(path).write_text(json.dumps({**result, **details}, indent=1) + "\n")
