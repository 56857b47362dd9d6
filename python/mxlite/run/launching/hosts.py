"""Hosts of a job: the hostfile, checks by ssh, and addresses of this machine."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Sequence
from typing import NamedTuple

from ...base import MXNetError, ValueError_

_PORTS = range(9091, 9999)  # ports for schedulers, as in MXNet
_CONNECT_SECONDS = 10
_PROBE_SECONDS = 20
# mpirun does not use ssh if one of these variables is set.
_NOT_BY_SSH = (
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "PE_HOSTFILE",
    "OMPI_MCA_plm",
    "OMPI_MCA_plm_rsh_agent",
    "PRTE_MCA_plm",
    "PRTE_MCA_plm_ssh_agent",
)
_SSH_ARGS = ("OMPI_MCA_plm_rsh_args", "OMPI_MCA_plm_ssh_args", "PRTE_MCA_plm_ssh_args")


class LaunchError(MXNetError):
    """The job cannot be started."""


class Host(NamedTuple):
    """A line of a hostfile."""

    name: str
    port: int  # port of the ssh server
    slots: int

    def label(self) -> str:
        """Return the name, with the port if it is not 22."""
        return self.name if self.port == 22 else f"{self.name}:{self.port}"


def read_hosts(path: str) -> list[Host]:
    """Read lines ``name[:port] [slots=N]``; ``#`` begins a comment."""
    hosts = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise LaunchError(f"hostfile {path}: {error.strerror or error}") from error
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        match = re.fullmatch(r"([^\s:]+)(?::(\d+))?(?:\s+slots\s*=\s*(\d+))?", text)
        if match is None:
            raise ValueError_(
                f"{path}:{number}: line must be 'host[:port] [slots=N]', got {text!r}"
            )
        name, port, slots = match.groups()
        hosts.append(Host(name, int(port or 22), int(slots or 1)))
    if not hosts:
        raise ValueError_(f"{path}: the file must name at least one host, got none")
    return hosts


def ssh(host: Host, options: Sequence[str] = ()) -> list[str]:
    """Return the command that runs its last argument on a host."""
    command = ["ssh", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"]
    command += ["-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-o", "ServerAliveInterval=5"]
    command += ["-o", "ServerAliveCountMax=3", *options]
    if host.port != 22:  # for 22, the configuration of ssh may choose another port
        command += ["-p", str(host.port)]
    return [*command, host.name]


def own_names() -> tuple[str, ...]:
    """Return the names by which hostfiles may refer to this machine."""
    own = socket.gethostname()
    return ("localhost", "127.0.0.1", "::1", own, own.split(".")[0])


def check_hosts_of_mpirun(hosts: Sequence[Host], folder: str, options: Sequence[str] = ()) -> None:
    """Run `check_hosts` for the hosts that mpirun will reach through ssh."""
    if any(os.environ.get(name) for name in _NOT_BY_SSH):
        return
    given = [word for name in _SSH_ARGS for word in shlex.split(os.environ.get(name, ""))]
    here = own_names()
    others = [host for host in hosts if host.name not in here]
    check_hosts(others, folder, [*options, *given])


def check_hosts(hosts: Sequence[Host], folder: str, options: Sequence[str] = ()) -> None:
    """Raise if a host does not answer or lacks the working directory; checks hosts in parallel."""
    troubles: dict[Host, str] = {}
    question = f"cd {shlex.quote(folder)}"

    def ask(host: Host) -> None:
        try:
            answer = subprocess.run(
                [*ssh(host, options), question],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            troubles[host] = f"no answer in {_PROBE_SECONDS} s"
        except OSError as error:
            troubles[host] = f"ssh: {error.strerror or error}"
        else:
            if answer.returncode:
                last = (answer.stderr or answer.stdout).strip().splitlines()[-1:]
                troubles[host] = last[0] if last else f"exit code {answer.returncode}"

    threads = [threading.Thread(target=ask, args=(host,)) for host in dict.fromkeys(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        lines = "".join(f"\n    {host.label()}: {text}" for host, text in troubles.items())
        raise LaunchError(f"{len(troubles)} of {len(threads)} hosts cannot be used:{lines}")


def check_own_hosts(hosts: Sequence[Host]) -> None:
    """Raise if a name in a hostfile is not an address of this machine."""
    for host in hosts:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host.name, 0, type=socket.SOCK_STREAM)[
                0
            ]
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError as error:
            raise LaunchError(
                f"host {host.label()} is no address of this machine ({error.strerror or error}); "
                "--launcher local runs all workers here, --launcher ssh on the hosts"
            ) from error


def free_port(address: str) -> int:
    """Return a free port of this machine."""
    # Start at a port that depends on the process id, so that concurrent launchers do not collide.
    begin = os.getpid() % len(_PORTS)
    for i in range(len(_PORTS)):
        port = _PORTS[(begin + i) % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise LaunchError(
        f"no free port between {_PORTS[0]} and {_PORTS[-1]} on {address}; name one in "
        "DMLC_PS_ROOT_PORT"
    )


def check_port(address: str, port: int) -> None:
    """Raise if a port of this machine is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise LaunchError(
                    f"port {port} on {address} is in use (DMLC_PS_ROOT_PORT); leave the variable "
                    "out, and a free one is found"
                ) from error


def own_address(hosts: Sequence[Host]) -> str:
    """Return the address of this machine that the hosts can reach."""
    given = os.environ.get("DMLC_PS_ROOT_URI", "").strip()
    if given:
        return given
    try:
        return reaching_address(hosts)
    except LaunchError as error:
        raise LaunchError(
            f"{error}; the address of this machine can be given in DMLC_PS_ROOT_URI"
        ) from error


def check_meeting(address: str, hosts: Sequence[Host]) -> None:
    """Raise if workers on other hosts cannot reach the address at which this process listens."""
    found = ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    if not (found.is_loopback or found.is_unspecified):
        return
    others = reaching_address(hosts)
    if not ipaddress.ip_address(others).is_loopback:
        raise LaunchError(
            f"other hosts cannot reach {address}, at which the workers must register; set "
            f"DMLC_PS_ROOT_URI to an address of this machine that they reach, such as {others}"
        )


def reaching_address(hosts: Sequence[Host]) -> str:
    """Return the local address of the route to the first host that is not this machine."""
    trouble: LaunchError | None = None
    local = not hosts
    for host in hosts:
        try:
            found = _address_that_reaches(host)
        # A name that only ssh can resolve, or a host that does not exist.
        except LaunchError as error:
            trouble = trouble or error
            continue
        if not found.startswith("127.") and found != "::1":
            return found
        local = True
    if trouble is not None and not local:
        raise trouble
    return "127.0.0.1"


def _address_that_reaches(host: Host) -> str:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host.name, host.port, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # connecting a datagram socket selects a route without sending
            return str(probe.getsockname()[0])
    except OSError as error:
        raise LaunchError(f"host {host.label()}: {error.strerror or error}") from error
