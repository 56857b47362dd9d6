"""Hosts of a job: the hostfile, whether they answer, and how to reach this one from there."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Sequence
from typing import NamedTuple

from ...base import MXNetError, ValueError_

__all__ = ["Host", "LaunchError", "check_hosts", "free_port", "own_address", "read_hosts", "ssh"]

_PORTS = range(9091, 9999)  # of schedulers, as in MXNet
_CONNECT_SECONDS = 10
_PROBE_SECONDS = 20


class LaunchError(MXNetError):
    """The job cannot be started."""


class Host(NamedTuple):
    """A line of a hostfile."""

    name: str
    port: int  # of sshd
    slots: int

    def label(self) -> str:
        """Return the name, with the port where it is not 22."""
        return self.name if self.port == 22 else f"{self.name}:{self.port}"


def read_hosts(path: str) -> list[Host]:
    """Read lines ``name[:port] [slots=N]``; ``#`` begins a comment.

    Parameters
    ----------
    path : str

    Returns
    -------
    list of Host

    Raises
    ------
    ValueError
        For another line, with its number.
    LaunchError
        If the file cannot be read.
    """
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
            raise ValueError_(f"{path}:{number}: {text!r} given, 'host[:port] [slots=N]' expected")
        name, port, slots = match.groups()
        hosts.append(Host(name, int(port or 22), int(slots or 1)))
    if not hosts:
        raise ValueError_(f"{path}: no host given")
    return hosts


def ssh(host: Host) -> list[str]:
    """Return the command that runs its last argument on a host.

    Parameters
    ----------
    host : Host

    Returns
    -------
    list of str
        Never asks for a password; gives up after ten seconds.
    """
    command = ["ssh", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"]
    command += ["-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-o", "ServerAliveInterval=5"]
    return [*command, "-o", "ServerAliveCountMax=3", "-p", str(host.port), host.name]


def check_hosts(hosts: Sequence[Host], folder: str) -> None:
    """Ask all hosts at the same time whether they answer and have the working directory.

    Parameters
    ----------
    hosts : sequence of Host
    folder : str
        Where processes will run.

    Raises
    ------
    LaunchError
        With all hosts that do not, and what ssh says; after some 20 seconds at most.
    """
    troubles: dict[Host, str] = {}
    question = f"cd {shlex.quote(folder)}"

    def ask(host: Host) -> None:
        try:
            answer = subprocess.run(
                [*ssh(host), question],
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


def free_port(address: str) -> int:
    """Return a port of this machine that nobody listens at.

    Parameters
    ----------
    address : str
        Where the scheduler will listen.

    Returns
    -------
    int
        One of those that MXNet uses.

    Raises
    ------
    LaunchError
        If all are taken.
    """
    # Launchers that start at the same time begin at different places.
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


def own_address(hosts: Sequence[Host]) -> str:
    """Return the address under which the hosts find this machine.

    Parameters
    ----------
    hosts : sequence of Host
        None for a job of this machine only.

    Returns
    -------
    str
        ``DMLC_PS_ROOT_URI`` if that is set, else the address from which the first host is reached.

    Raises
    ------
    LaunchError
        If the first host has no address.
    """
    given = os.environ.get("DMLC_PS_ROOT_URI", "").strip()
    if given:
        return given
    if not hosts:
        return "127.0.0.1"
    host = hosts[0]
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host.name, host.port, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # of datagrams: chooses a route, sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise LaunchError(
            f"host {host.label()}: {error.strerror or error}; the address of this machine can be "
            "given in DMLC_PS_ROOT_URI"
        ) from error
