"""Jobs of a parameter server on this host: processes that are started, killed and replaced."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"  # rank_checks.py
ROLE = "import sys; from mxlite import _core; _core.run_server_role(sys.argv[1])"


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One process of a job; its output is in a file."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, env=environment, stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()

    def text(self) -> str:
        """Return the output of the process."""
        return self.log.read_text()


class ServerJob:
    """Scheduler, servers and workers, which run a script.

    ``settings`` are further variables; "{folder}" stands for the job's folder.
    """

    def __init__(self, script: str, workers: int = 2, servers: int = 1, **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.script = self.folder / "worker.py"
        self.script.write_text(script)
        self.port = free_port()
        self.environment = {
            **os.environ,
            "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(self.port),
            "MXLITE_PS_TOKEN": "token of this test",
            "DMLC_NUM_WORKER": str(workers),
            "DMLC_NUM_SERVER": str(servers),
            "MXLITE_CPU_THREADS": "1",
            "MXLITE_PS_TIMEOUT": "40",
            "JOB_FOLDER": str(self.folder),
            "PYTHONPATH": f"{SCRIPTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        for name, value in settings.items():
            self.environment[name] = str(value).replace("{folder}", str(self.folder))
        self._started = 0
        self.scheduler = self.start("scheduler")
        self.servers = [self.start("server") for _ in range(servers)]
        self.workers = [self.start("worker", DMLC_TASK_ID=rank) for rank in range(workers)]

    def start(self, role: str, **settings: Any) -> Process:
        """Start one more process."""
        self._started += 1
        environment = {**self.environment, "DMLC_ROLE": role}
        environment.update((name, str(value)) for name, value in settings.items())
        command = [sys.executable, str(self.script)]
        if role != "worker":
            command = [sys.executable, "-c", ROLE, role]
        return Process(command, environment, self.folder / f"{role}{self._started}.log")

    def all(self) -> list[Process]:
        """Return all processes that are part of the job."""
        return [self.scheduler, *self.servers, *self.workers]

    def wait(self, seconds: float = 90) -> list[int]:
        """Return the exit codes of all processes; raise TimeoutError if one has not ended."""
        end = time.monotonic() + seconds
        for process in self.all():
            try:
                process.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"a process hangs:\n{self.text()}") from None
        return [process.process.returncode for process in self.all()]

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Wait until the workers have printed a text."""
        end = time.monotonic() + seconds
        while not all(text in worker.text() for worker in self.workers):
            if time.monotonic() > end or all(w.process.poll() is not None for w in self.workers):
                raise TimeoutError(f"no {text!r}:\n{self.text()}")
            time.sleep(0.01)

    def text(self) -> str:
        """Return the output of all processes."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log"))
        )

    def __enter__(self) -> ServerJob:
        return self

    def __exit__(self, *unused: object) -> None:
        for process in self.all():
            if process.process.poll() is None:
                process.kill()
        self._folder.cleanup()
