"""A program that answers JSON lines, one request at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
from typing import Any

# Limit of the wait for an answer. It suffices for torch.compile of 152 layers.
ANSWER_SECONDS = 1200.0


class WorkerError(RuntimeError):
    """A system failed in its process."""


class WorkerProcess:
    """A started program.

    Parameters
    ----------
    command : list of str
        Program and arguments.
    threads : int
        Threads that it may use.
    own_path : bool
        Whether the process keeps PYTHONPATH, which is meant for mxlite.
    """

    def __init__(self, command: list[str], threads: int, own_path: bool) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
        }
        if not own_path:
            environment.pop("PYTHONPATH", None)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def ask(self, *, within: float = ANSWER_SECONDS, **request: Any) -> dict[str, Any]:
        """Send one request and return the answer.

        Parameters
        ----------
        within : float
            Seconds to wait for it.
        **request
            As in worker.py.

        Returns
        -------
        dict
            The answer.

        Raises
        ------
        WorkerError
            The process ended, answered with an error, or did not answer in time.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        ready, _, _ = select.select([self._process.stdout], [], [], within)
        if not ready:
            raise WorkerError(f"no answer to {request} in {within:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        try:
            # A launcher of several ranks writes the rank before the JSON object.
            answer: dict[str, Any] = json.loads(line[max(0, line.find("{")) :])
        except ValueError:
            raise WorkerError(f"the answer must be JSON, got {line.strip()[:200]!r}") from None
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        return f"ended with {code}: {self._errors.read()[-500:].strip()}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
