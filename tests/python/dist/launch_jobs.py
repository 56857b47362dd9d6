"""Code that tests of launch.py share: programs in PATH, jobs, and lists of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import mxlite as mx

PACKAGE = Path(mx.__file__).resolve().parents[1]

# Runs the last argument here, in the folder "home" beside its own; a host that begins with "gone"
# cannot be reached.
SSH = """#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in -o|-p|-i) shift 2;; -*) shift;; *) break;; esac
done
host=$1; shift
case "$host" in gone*) echo "ssh: connect to host $host: No route to host" >&2; exit 255;; esac
cd "${0%/bin/ssh}/home" || exit 255
exec env -i PATH="$PATH" THE_HOST="$host" bash -c "$*"
"""

# Copies as rsync does, through the shell that it is given.
RSYNC = """#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in --rsh) shell=$2; shift 2;; -*) shift;; *) break;; esac
done
host=${2%%:*} to=${2#*:}
[ "$host" = full ] && { echo "rsync: No space left on device (28)" >&2; exit 11; }
tar -C "$1" -c . | $shell "$host" "mkdir -p '$to' && tar -C '$to' -x"
"""

# The program of every process of a job; workers may fail or hang.
PROGRAM = """
import os, signal, sys, time
role = os.environ["DMLC_ROLE"]
rank = os.environ.get("MXLITE_PS_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "-"))
names = ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_TASK_ID", "DMLC_PS_ROOT_URI", "THREADS",
         "THE_HOST", "SAID", "DMLC_PS_VAN_TYPE", "PWD")
print(role, rank, {n: os.environ[n] for n in names if n in os.environ}, flush=True)
mode = sys.argv[1:]
if role == "worker" and "fail" in mode and rank == "1":
    sys.exit(7)
if role == "worker" and mode == ["die"] and rank == "0":
    os.kill(os.getpid(), signal.SIGKILL)
if role == "worker" and mode == ["once"] and not os.path.exists("failed" + rank):
    open("failed" + rank, "w").close()
    sys.exit(3)
if mode == ["hang"]:
    print("up", flush=True)
if mode == ["hang"] or (role != "worker" and "stay" in mode):
    time.sleep(600)
"""


def put_on_path(folder: Path) -> None:
    """Write ``ssh`` and ``rsync`` to the folder ``bin`` of a folder."""
    (folder / "bin").mkdir()
    (folder / "home").mkdir()
    for name, text in (("ssh", SSH), ("rsync", RSYNC)):
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)


def processes_with(text: str) -> list[str]:
    """Return command lines that contain a text, of all processes except launchers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if text in line and "mxlite.tools.launch" not in line:
                found.append(line)
    return found


def wait_for_end(mark: str) -> None:
    """Wait until no process has a text in its command line; fail after ten seconds."""
    end = time.monotonic() + 10
    while processes_with(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert not processes_with(mark)


def stop_launcher(
    words: list[str], mark: str, count: int, number: int, cwd: Path | None = None
) -> int:
    """Send a signal to a launcher when ``count`` processes have printed a line that ends in "up".

    Check that no process with ``mark`` in its command line is left; return the exit code.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env=dict(os.environ, PYTHONPATH=str(PACKAGE)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    begin, up = time.monotonic(), 0
    while up < count and time.monotonic() - begin < 60:
        up += process.stdout.readline().endswith("up\n")
    running = len(processes_with(mark))
    process.send_signal(number)
    code = process.wait(timeout=30)
    assert up == count and running >= count, (up, running)
    wait_for_end(mark)
    return code
