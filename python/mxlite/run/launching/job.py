"""Runs the processes of a job, copies their output, and ends all of them with the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

from .hosts import LaunchError, ssh
from .plan import ProcessPlan, remote_script, table

# Seconds in which other processes may write output after one has failed, before they are ended.
_LAST_OUTPUT_SECONDS = 15.0
_TERM_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
# Prefixes of lines from mpirun: [prterun-host-4711@1,0]<stdout>: or [1,0]<stdout>:
_TAG = re.compile(rb"\[[^\]\s]*,(\d+)\](?:<\w+>)?:? ?")

_libc = ctypes.CDLL(None)
_output_lock = threading.Lock()


def end_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _Running:
    """A started process."""

    def __init__(self, plan: ProcessPlan, process: subprocess.Popen[bytes]) -> None:
        self.plan = plan
        self.process = process
        self.ended: int | None = None  # exit code, or None while it runs


class Job:
    """The processes of a job, from start to end."""

    def __init__(
        self,
        plans: Sequence[ProcessPlan],
        command: Sequence[str] | Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        folder: str,
        attempts: int = 0,
    ) -> None:
        self._plans = list(plans)
        self._commands: dict[str, list[str]] = {
            plan.role: list(command[plan.role] if isinstance(command, Mapping) else command)
            for plan in plans
        }
        self._environment = dict(environment)
        self._folder = folder
        self._left = {plan.label(): attempts for plan in plans}
        self._running: dict[str, _Running] = {}
        self._started: list[_Running] = []
        self._events: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._signal: int | None = None
        self._readers: list[threading.Thread] = []

    def run(self) -> int:
        """Start all processes, wait for the end of the job, and end processes that still run."""
        previous = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            for plan in self._plans:
                self._start(plan)
            numbers = {
                label: running.process.pid
                for label, running in self._running.items()
                if running.plan.host is None
            }
            logging.info("%s", table(self._plans, numbers))
            return self._watch()
        finally:
            self._end_all()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _start(self, plan: ProcessPlan) -> None:
        try:
            if plan.host is None:
                process = subprocess.Popen(
                    self._commands[plan.role],
                    env={**self._environment, **plan.variables},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                )
            else:
                process = subprocess.Popen(
                    [*ssh(plan.host), "bash", "-s"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                )
        except OSError as error:
            raise LaunchError(f"{plan.label()}: {error.filename}: {error.strerror}") from error
        running = _Running(plan, process)
        self._running[plan.label()] = running
        self._started.append(running)
        if plan.host is not None and process.stdin is not None:
            # Keeps the input open, because the process on the host ends when it is closed.
            script = remote_script(plan, self._folder, self._commands[plan.role])
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(script.encode())
                process.stdin.flush()
        reader = threading.Thread(target=self._read, args=(running,), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _read(self, running: _Running) -> None:
        """Copy output line by line, then report that the process has ended."""
        stream: IO[bytes] | None = running.process.stdout
        plan = running.plan
        waiter = threading.Thread(target=self._wait_for, args=(running,), daemon=True)
        waiter.start()
        if stream is not None:
            for line in stream:
                text, label = line.rstrip(b"\n"), plan.label()
                tag = _TAG.match(text) if plan.processes else None
                if tag:
                    text, label = text[tag.end() :], f"{plan.role} {int(tag.group(1))}"
                with _output_lock:
                    sys.stdout.buffer.write(f"[{label}] ".encode() + text + b"\n")
                    sys.stdout.buffer.flush()

    def _wait_for(self, running: _Running) -> None:
        code = running.process.wait()
        self._events.put((running.plan.label(), 128 - code if code < 0 else code))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        self._events.put(("", 128 + number))

    def _watch(self) -> int:
        """Wait for the end of the job and return its exit code."""
        failure: int | None = None
        deadline: float | None = None
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                label, code = self._events.get(timeout=left if left is None else max(left, 0))
            except queue.Empty:
                return failure or 0
            if self._signal is not None:
                logging.info("Stop launcher: %s", signal.Signals(self._signal).name)
                return 128 + self._signal
            self._running[label].ended = code
            workers = [r for r in self._running.values() if r.plan.role == "worker"]
            if code and failure is None:
                if self._again(label, code):
                    continue
                logging.error("%s ended with exit code %d, the job ends", label, code)
                failure = code
                deadline = time.monotonic() + _LAST_OUTPUT_SECONDS
            if all(worker.ended is not None for worker in workers):
                if failure is not None:
                    return failure
                if all(running.ended is not None for running in self._running.values()):
                    return 0
                deadline = deadline or time.monotonic() + _LAST_OUTPUT_SECONDS

    def _again(self, label: str, code: int) -> bool:
        """Restart a failed process if attempts are left; return whether it was restarted."""
        plan = self._running[label].plan
        if plan.role == "scheduler" or not self._left[label]:
            return False
        self._left[label] -= 1
        logging.warning("%s ended with exit code %d and is started again", label, code)
        self._start(plan)
        return True

    def _end_all(self) -> None:
        """End all running processes and their sessions: SIGTERM first, then SIGKILL."""
        for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _TERM_SECONDS)):
            for running in self._started:
                process = running.process
                if process.stdin is not None:
                    with contextlib.suppress(OSError):
                        process.stdin.close()
                # Children of an ended process may still run in its session.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if all(r.process.poll() is not None for r in self._started):
                    break
                time.sleep(0.02)
        for reader in self._readers:
            reader.join(timeout=2)
