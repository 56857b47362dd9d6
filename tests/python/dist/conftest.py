"""Starts jobs of several processes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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


class Result(NamedTuple):
    """A finished job."""

    code: int
    output: dict[int, str]  # by rank
    text: str  # all of it, with what mpirun says


def find_mpirun() -> str | None:
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


def by_rank(text: str) -> dict[int, str]:
    """Split tagged output; a rank's lines may come in pieces."""
    output: dict[int, str] = {}
    for line in text.splitlines():
        match = re.match(r"\[[^\]]*?,(\d+)\](?:<\w+>)?:? ?(.*)", line)
        if match:
            rank = int(match.group(1))
            output[rank] = output.get(rank, "") + match.group(2) + "\n"
    return output


@pytest.fixture
def mpirun() -> None:
    """Skip if there is no mpirun."""
    from mxlite.run.launch import find_mpirun

    if not mx._core.mpi_built():
        pytest.skip("needs a build with MXLITE_MPI=ON")
    try:
        find_mpirun()
    except mx.MXNetError as error:
        pytest.skip(str(error))


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs a script on several processes."""
    mpirun = find_mpirun()
    if mpirun is None or not mx._core.mpi_built():
        pytest.skip("needs Open MPI and a build with MXLITE_MPI=ON")

    def run(
        script: str,
        ranks: int = 2,
        *args: str,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        ok: bool = True,
        options: tuple[str, ...] = (),
    ) -> Result:
        path = HERE / "scripts" / script if script.endswith(".py") else tmp_path / "job.py"
        if not script.endswith(".py"):
            path.write_text(script)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [mpirun, *root, "--oversubscribe", "--tag-output", "-np", str(ranks), *options]
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONFAULTHANDLER="1")
        environment.setdefault("MXLITE_COMM_TIMEOUT", "30")
        environment.update(env or {})
        process = subprocess.Popen(
            [*command, sys.executable, str(path), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            pytest.fail(f"{script}: {ranks} processes hang after {timeout} s\n{text}")
        result = Result(process.returncode, by_rank(text), text)
        if ok and result.code != 0:
            pytest.fail(f"{script}: {ranks} processes ended with {result.code}\n{text}")
        return result

    return run


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs a script with servers, by launch.py."""
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
    ) -> Result:
        path = HERE / "scripts" / script if script.endswith(".py") else tmp_path / "job.py"
        if not script.endswith(".py"):
            path.write_text(script)
        line = [sys.executable, "-m", "mxlite.tools.launch"]
        line += ["-n", str(workers), "-s", str(servers)]
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONFAULTHANDLER="1")
        environment.setdefault("MXLITE_PS_TIMEOUT", "30")
        environment.update(env or {})
        process = subprocess.Popen(
            [*line, *command, str(path), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        try:
            text, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()
            text, _ = process.communicate()
            pytest.fail(f"{script}: the job hangs after {timeout} s\n{text}")
        output: dict[int, str] = {}
        for rank, rest in re.findall(r"^\[worker (\d+)\] (.*)$", text, re.MULTILINE):
            output[int(rank)] = output.get(int(rank), "") + rest + "\n"
        result = Result(process.returncode, output, text)
        if ok and result.code != 0:
            pytest.fail(f"{script}: the job ended with {result.code}\n{text}")
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

    def run(line: str, timeout: float = 60, **variables: str) -> tuple[int, str, float]:
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE), **variables)
        environment["PATH"] = f"{programs / 'bin'}:{environment['PATH']}"
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "mxlite.tools.launch", *shlex.split(line)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - begin

    return run
