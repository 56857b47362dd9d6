"""Runs a function on several processes: ``hvd.run(train, args=(0.1,), num_proc=4)``."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import queue
import secrets
import shlex
import site
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import spawn
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from .. import _core
from ..base import MXNetError, NotSupportedError, TypeError_, ValueError_
from ..run.launch import check_reachable, find_mpirun, job_environment, mpirun_command
from ..run.launching.ended import EndedRanks, ended_ranks
from ..run.launching.hosts import Host, reaching_address
from ..run.launching.job import end_with_parent
from ..run.options import Hosts, parse
from .secret_channel import Channel, ChannelError

# Environment variables for the processes: address of the caller and key of the job.
ADDRESS, KEY = "MXLITE_CALL_ADDRESS", "MXLITE_CALL_KEY"
_PROGRAM = "mxlite.horovod.called"
_FIRST_WORD_SECONDS = 10.0
_LAST_OUTPUT_SECONDS = 15.0  # limit for the output of other ranks after a failure
_END_SECONDS = 60.0  # limit between the last result and the end of the processes
_PAUSE_SECONDS = 0.1  # pause before accept() is retried after file descriptors ran out
_OWN_DESCRIPTORS = 16  # number of file descriptors needed in addition to connections


class RunError(MXNetError):
    """The function failed on a rank, or a process ended before it returned."""


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Run a function on the processes of a new job and return what each of them returned.

    Parameters
    ----------
    func : callable
        Must call `init` itself. With cloudpickle, any function; otherwise a function that the
        processes can import, or of the main script, which then needs
        ``if __name__ == '__main__':``.
    args : sequence
        Arguments of the function; they and its result must be picklable.
    kwargs : dict, optional
    num_proc : int
        Number of processes; ``np`` is its old name.
    hosts : str, optional
        ``'host1:2,host2:4'``; default: this machine.
    hostfile : str, optional
        A file with lines ``host slots=N``, instead of ``hosts``.
    start_timeout, ssh_port, ssh_identity_file, output_filename, mpi_args, network_interface
        As in the options of ``mxlite-run``.
    verbose : int, optional
        Print the command that is started.
    executable : str, optional
        Python interpreter of the processes; default: that of this process.
    min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, min_np, max_np
        Refused: elastic jobs are started by ``mxlite-run --elastic``.
    disable_cache, use_mpi, use_gloo
        Accepted and ignored: Open MPI always starts the processes.

    Returns
    -------
    list
        One value for each rank, in their order.

    Raises
    ------
    RunError
        If the function raised, with rank and traceback, or a process ended before it returned.
    TypeError, ValueError
        For arguments that do not describe a job.
    MXNetError
        If Open MPI is missing, or hosts cannot be reached.
    """
    if not callable(func):
        raise TypeError_(f"run: func must be a function, got {func!r}")
    elastic = (min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, min_np, max_np)
    if any(value is not None for value in elastic):
        raise NotSupportedError(
            "run: arguments of elastic training are not supported; start an elastic program with "
            "`mxlite-run --elastic`"
        )
    if hosts is not None and hostfile is not None:
        raise ValueError_("run: hosts or hostfile must be None, got both")
    if use_gloo and use_mpi:
        raise ValueError_("run: use_gloo or use_mpi must be False, got both")
    if use_gloo:
        warnings.warn("run: mxlite has no Gloo, Open MPI starts the job", stacklevel=2)
    if np is not None:
        warnings.warn(
            "run: np is deprecated, use num_proc instead", DeprecationWarning, stacklevel=2
        )
        num_proc = np if num_proc == 1 else num_proc
    if isinstance(num_proc, bool) or not isinstance(num_proc, int) or num_proc < 1:
        raise ValueError_(f"run: num_proc must be a number above 0, got {num_proc!r}")
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        raise MXNetError("run: this process must not be part of a job of mpirun")
    options = {
        "--hosts": hosts,
        "--hostfile": hostfile,
        "--start-timeout": start_timeout,
        "--ssh-port": ssh_port,
        "--ssh-identity-file": ssh_identity_file,
        "--output-filename": output_filename,
        "--mpi-args": mpi_args,
        "--network-interfaces": network_interface,
    }
    line = ["-np", str(num_proc)]
    line += [f"{name}={value}" for name, value in options.items() if value is not None]
    if verbose:
        line.append("--verbose")
    line += [executable or sys.executable, "-m", _PROGRAM]
    return _Call(_message(func, tuple(args), dict(kwargs or {})), num_proc).run(line)


def packed(value: Any) -> tuple[bytes, bool]:
    """Return the pickle of a value, and whether it contains the code of functions."""
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return pickle.dumps(value, protocol=4), False
    return bytes(cloudpickle.dumps(value, protocol=4)), True


def _message(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the pickle of the call and of the settings with which a process can import it."""
    try:
        call, whole = packed((func, args, kwargs))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError_(
            f"run: func and its arguments must be picklable, got {error}; lambdas and nested "
            "functions need cloudpickle (pip install cloudpickle)"
        ) from error
    preparation: dict[str, Any] = {}
    if not whole and b"__main__" in call:  # the processes must import the main script
        found = spawn.get_preparation_data("mxlite")
        names = ("init_main_from_name", "init_main_from_path")
        preparation = {name: found[name] for name in names if name in found}
    path = [os.getcwd() if entry == "" else entry for entry in sys.path]
    return pickle.dumps((path, preparation, call), protocol=4)


class _Call:
    """The caller's side of one job."""

    def __init__(self, message: bytes, count: int) -> None:
        self._message = message
        self._count = count
        self._key = secrets.token_bytes(32)
        # (rank, whether it returned, result or error); a negative rank reports the end of mpirun.
        self._events: queue.SimpleQueue[tuple[int, bool, Any]] = queue.SimpleQueue()
        self._open = True
        self._shortage = ""  # why connections had to wait

    def run(self, line: Sequence[str]) -> list[Any]:
        """Start the processes and return their results."""
        try:
            args = parse(line)
        except SystemExit:
            raise ValueError_(
                f"run: {' '.join(line)}: mxlite-run refuses these arguments"
            ) from None
        mpirun = find_mpirun()
        check_reachable(args)
        environment = job_environment(args)
        package = str(Path(__file__).resolve().parents[2])
        if package not in (*site.getsitepackages(), site.getusersitepackages()):
            others = environment.get("PYTHONPATH")
            environment["PYTHONPATH"] = os.pathsep.join([others, package] if others else [package])
        _core.reserve_descriptors(
            f"run: the caller of {self._count} processes", self._count + _OWN_DESCRIPTORS, 0
        )
        listener = Listener((_own_address(args), 0), backlog=max(self._count, 16))
        host, port = listener.address
        environment[ADDRESS], environment[KEY] = f"{host}:{port}", self._key.hex()
        command = mpirun_command(args, mpirun, environment)
        if args.verbose:
            print(shlex.join(command), file=sys.stderr, flush=True)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        with ended_ranks() as ended:
            environment.update(ended.variables())
            return self._results_of(command, environment, listener, ended)

    def _results_of(
        self,
        command: list[str],
        environment: Mapping[str, str],
        listener: Listener,
        ended: EndedRanks,
    ) -> list[Any]:
        """Start mpirun and wait for the results and the end of the processes."""
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent
        )
        threading.Thread(target=self._wait_for, args=(process,), daemon=True).start()
        try:
            results = self._results()
            code = ended.code(process.wait(timeout=_END_SECONDS))
            if code:
                raise RunError(f"run: all ranks have returned, but one ended with exit code {code}")
            return results
        except subprocess.TimeoutExpired:
            raise RunError(
                f"run: all ranks have returned, but processes did not end within {_END_SECONDS} s"
            ) from None
        finally:
            self._open = False
            with contextlib.suppress(OSError):
                Client(listener.address).close()  # wakes the thread that accepts connections
            listener.close()
            _end(process)

    def _results(self) -> list[Any]:
        answers: dict[int, bytes] = {}
        failures: dict[int, str] = {}
        ended = "they do not answer"
        deadline: float | None = None
        while len(answers) + len(failures) < self._count:
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                rank, good, content = self._events.get(timeout=left)
            except queue.Empty:
                break
            if rank < 0:
                # Waits one more second, because messages sent before the end may still arrive.
                deadline = min(deadline or float("inf"), time.monotonic() + 1)
                ended = f"mpirun ended with {content}"
            elif good:
                answers[rank] = content
            else:
                failures[rank] = content
                deadline = deadline or time.monotonic() + _LAST_OUTPUT_SECONDS
        if len(answers) == self._count:
            return [pickle.loads(answers[rank]) for rank in range(self._count)]
        missing = set(range(self._count)) - set(answers)
        raise RunError(_report(failures, missing, ended + self._shortage))

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        self._events.put((-1, False, process.wait()))

    def _accept(self, listener: Listener) -> None:
        while self._open:
            try:
                connection = listener.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    return
                # The new process waits for the first message and ends if it does not arrive.
                self._shortage = (
                    f"; connections waited for a descriptor: {error.strerror}; raise the limit of "
                    "open files (ulimit -n)"
                )
                time.sleep(_PAUSE_SECONDS)
                continue
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: Connection) -> None:
        rank = -1
        try:
            with connection:
                channel = Channel(connection, self._key, "caller", _FIRST_WORD_SECONDS)
                rank = int.from_bytes(channel.receive(limit=4), "big")
                channel.send(self._message)
                good, content = pickle.loads(channel.receive())
                self._events.put((rank, good, content))
        except (ChannelError, EOFError, OSError) as error:
            if rank >= 0:  # a negative rank means an unknown process
                self._events.put((rank, False, f"the process is gone ({error!r})"))


def _report(failures: Mapping[int, str], missing: set[int], ended: str) -> str:
    """Return the failures of all ranks as text, in the order in which they occurred."""
    texts = [f"rank {rank} failed:\n{text.rstrip()}" for rank, text in failures.items()]
    silent = ", ".join(str(rank) for rank in sorted(missing - set(failures)))
    if silent:
        texts.append(f"no result of rank {silent}: {ended}")
    return "run: " + "\n".join(texts)


def _own_address(args: Any) -> str:
    """Return the address at which the processes of a job can reach this process."""
    given = Hosts.from_text(args.hosts) if args.hosts else None
    if args.hostfile:
        given = Hosts.from_file(args.hostfile)
    return reaching_address([Host(name, 22, slots) for name, slots in given.slots] if given else [])


def _end(process: subprocess.Popen[bytes]) -> None:
    for end in (process.terminate, process.kill):
        if process.poll() is not None:
            return
        end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
