"""Starts jobs of several processes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import mxlite as mx
import pytest
from launch_jobs import PACKAGE, PROGRAM, put_on_path

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.fspath).parents:
            item.add_marker(pytest.mark.dist)


# First lines of each program that a test gives as text.
PRELUDE = """
import os, pathlib, runpy, signal, sys, time
import numpy as np
import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon
from rank_checks import agree, equal, fails, in_step, pulled, refused
"""
# Options of mpirun with which the other ranks continue if one is killed.
SURVIVE = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")
# Makes calls of a job fail if a rank has not made them within some seconds.
STALLED = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"}
MPIRUN_TAG = r"\[[^\]]*?,(\d+)\](?:<\w+>)?:? ?(.*)"
LAUNCH_TAG = r"\[worker (\d+)\] (.*)"


class Result(NamedTuple):
    """A finished job."""

    code: int
    output: dict[int, str]  # by rank
    text: str  # the whole output, including that of mpirun
    seconds: float

    def ranks_with(self, text: str) -> list[int]:
        """Return the ranks that have printed a text."""
        return sorted(rank for rank, output in self.output.items() if text in output)


def write_program(script: str, folder: Path, prelude: str = PRELUDE) -> Path:
    """Return the path of a script; a text becomes a program that prints "done" at its end."""
    if script.endswith(".py"):
        return HERE / "scripts" / script
    path = folder / "job.py"
    path.write_text(f"{prelude}{script}\nprint('done', flush=True)\n")
    return path


def environment_of_job(**variables: str) -> dict[str, str]:
    """Return the environment of processes that import the package and the helpers of scripts."""
    paths = os.pathsep.join([str(PACKAGE), str(HERE / "scripts")])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1", **variables}


def run_python(
    *words: str, cwd: Path | None = None, timeout: float = 120, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with a command line and further variables; return its output."""
    return subprocess.run(
        [sys.executable, *words],
        env=environment_of_job(**variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def by_rank(text: str, tag: str) -> dict[int, str]:
    """Split tagged output; a rank's lines may come in pieces."""
    output: dict[int, str] = {}
    for line in text.splitlines():
        match = re.match(tag, line)
        if match:
            rank = int(match.group(1))
            output[rank] = output.get(rank, "") + match.group(2) + "\n"
    return output


def finish(
    command: list[str], folder: Path, env: Mapping[str, str], timeout: float, tag: str
) -> Result:
    """Run a job to its end; fail the test if it hangs."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment_of_job(**env),
        cwd=folder,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL if tag == MPIRUN_TAG else signal.SIGTERM)
        text, _ = process.communicate()
        pytest.fail(f"{shlex.join(command)} hangs after {timeout} s\n{text}")
    return Result(process.returncode, by_rank(text, tag), text, time.monotonic() - begin)


def check_end(result: Result, path: Path, ranks: int, done: Collection[int] | None) -> None:
    """Fail the test unless these ranks, or all of them, have reached the end of a program."""
    expected = range(ranks) if done is None else done
    ours = HERE in path.parents or path.name == "job.py"
    if result.code != 0 or (ours and result.ranks_with("done") != sorted(expected)):
        pytest.fail(f"{path.name}: {ranks} processes ended with {result.code}\n{result.text}")


@pytest.fixture(scope="session")
def mpirun() -> str:
    """Return the path of mpirun; skip if there is none."""
    from mxlite.run.launch import find_mpirun

    if not mx._core.mpi_built():
        pytest.skip("needs a build with MXLITE_MPI=ON")
    try:
        return find_mpirun().path
    except mx.MXNetError as error:
        pytest.skip(str(error))


@pytest.fixture
def start(tmp_path: Path, mpirun: str) -> Callable[..., Result]:
    """Return a function that runs a script on several processes by mpirun.

    It fails if a rank does not reach the end, unless ``ok`` is False. ``done`` are the ranks that
    do.
    """

    def run(
        script: str,
        ranks: int = 2,
        *args: str,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        ok: bool = True,
        options: tuple[str, ...] = (),
        done: Collection[int] | None = None,
    ) -> Result:
        path = write_program(script, tmp_path)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [mpirun, *root, "--oversubscribe", "--tag-output", "-np", str(ranks), *options]
        command += [sys.executable, str(path), *args]
        env = {"MXLITE_COMM_TIMEOUT": "30", **(env or {})}
        result = finish(command, tmp_path, env, timeout, MPIRUN_TAG)
        if ok:
            check_end(result, path, ranks, done)
        return result

    return run


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Result]:
    """Return a function like that of ``start``, which runs a script with servers, by launch.py."""
    if not hasattr(mx._core, "ServerClient"):
        pytest.skip("needs a build with the parameter server")

    def run(
        script: str,
        *args: str,
        workers: int = 2,
        servers: int = 2,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        ok: bool = True,
        command: tuple[str, ...] = (sys.executable,),
        prelude: str = PRELUDE,
    ) -> Result:
        path = write_program(script, tmp_path, prelude)
        line = [sys.executable, "-m", "mxlite.tools.launch"]
        line += ["-n", str(workers), "-s", str(servers), *command, str(path), *args]
        env = {"MXLITE_PS_TIMEOUT": "30", **(env or {})}
        result = finish(line, tmp_path, env, timeout, LAUNCH_TAG)
        if ok:
            check_end(result, path, workers, None)
        return result

    return run


@pytest.fixture
def launch(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[int, str, float]]:
    """Return a function that runs launch.py and returns exit code, output and seconds."""
    programs = tmp_path_factory.mktemp("programs")
    put_on_path(programs)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(
        line: str, timeout: float = 60, hosts: str = "", **variables: str
    ) -> tuple[int, str, float]:
        if hosts:
            (tmp_path / "hosts").write_text(hosts)
            line = f"-H hosts {line}"
        variables["PATH"] = f"{programs / 'bin'}:{os.environ['PATH']}"
        command = [sys.executable, "-m", "mxlite.tools.launch", *shlex.split(line)]
        result = finish(command, tmp_path, variables, timeout, LAUNCH_TAG)
        return result.code, result.text, result.seconds

    return run
