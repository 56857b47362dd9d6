"""Plans of jobs: the host, command and variables of each process."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...base import ValueError_
from .hosts import Host, LaunchError, check_port, free_port, own_address

# Variables that are always forwarded to other hosts.
_FORWARDED = re.compile(
    r"(MXLITE|MXNET|HOROVOD|PS|OMP|KMP|MKL|NCCL|CUDA)_\w+$|LD_LIBRARY_PATH$|PYTHONPATH$|DMLC_INTERFACE$"
    r"|AWS_ACCESS_KEY_ID$|AWS_SECRET_ACCESS_KEY$"
)


class ProcessPlan(NamedTuple):
    """A process of a job."""

    role: str  # scheduler, server or worker
    rank: int
    host: Host | None  # None for this machine
    variables: dict[str, str]  # added to the environment of the launcher or the host
    processes: int = 0  # if above 0, an mpirun that starts this number of processes

    def label(self) -> str:
        """Return ``worker 0``, or ``workers`` for an mpirun's processes; there is one scheduler."""
        if self.processes:
            return f"{self.role}s"
        return self.role if self.role == "scheduler" else f"{self.role} {self.rank}"


def command_of(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command without leading ``NAME=value`` words, and these variables."""
    variables = {}
    left = list(words)
    while left and re.match(r"[A-Za-z_]\w*=", left[0]):
        name, _, value = left.pop(0).partition("=")
        variables[name] = value
    if not left:
        raise ValueError_("launch: command must be a program with its arguments, got none")
    if len(left) == 1 and re.search(r"\s", left[0]):
        left = ["bash", "-c", left[0]]
    return left, variables


def _assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        match = re.match(r"([A-Za-z_]\w*)[:=](.*)", text, re.DOTALL)
        if match is None:
            raise ValueError_(f"launch: {option} must be VARIABLE:value, got {text!r}")
        found[match.group(1)] = match.group(2)
    return found


def _forwarded(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in environment.items() if _FORWARDED.match(name)}
    for text in names:
        name, sign, value = text.partition("=")
        if sign:
            found[name] = value
        elif name in environment:
            found[name] = environment[name]
    return found


def _cores_for_each(workers_here: int) -> int:
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, cores // max(workers_here, 1))


def check_slots(args: argparse.Namespace, hosts: Sequence[Host]) -> None:
    """Raise if the hosts have too few slots."""
    slots = sum(host.slots for host in hosts)
    if hosts and slots < args.num_workers:
        raise LaunchError(
            f"the number of workers must be at most that of slots, {slots} on the {len(hosts)} "
            f"hosts of {args.hostfile}, got {args.num_workers}; add hosts, or 'slots=N' after "
            "their names"
        )


def plan_all_reduce(
    args: argparse.Namespace, hosts: Sequence[Host], environment: Mapping[str, str]
) -> ProcessPlan:
    """Return the workers of a job without servers, which one mpirun starts."""
    check_slots(args, hosts)
    variables = _forwarded(args.env, environment) if hosts else {}
    variables.update(
        DMLC_ROLE="worker",
        DMLC_NUM_WORKER=str(args.num_workers),
        DMLC_NUM_SERVER="0",
        DMLC_JOB_CLUSTER=args.launcher,
        PYTHONUNBUFFERED="1",
        **_assignments("--env-worker", args.env_worker),
    )
    return ProcessPlan("worker", 0, None, variables, args.num_workers)


def plan_host_job(
    args: argparse.Namespace, environment: Mapping[str, str], memory: str
) -> list[ProcessPlan]:
    """Return the workers of a job without servers and without mpirun, all on this machine."""
    return _workers(args, [], environment, {"MXLITE_JOB_MEMORY": memory})


def plan_hosts_job(
    args: argparse.Namespace,
    hosts: Sequence[Host],
    environment: Mapping[str, str],
    address: str,
    token: str,
) -> list[ProcessPlan]:
    """Return the workers of a job without servers and without mpirun on several hosts."""
    common = {"MXLITE_JOB_ADDRESS": address, "MXLITE_JOB_TOKEN": token}
    return _workers(args, hosts, environment, common)


def _workers(
    args: argparse.Namespace,
    hosts: Sequence[Host],
    environment: Mapping[str, str],
    meeting: Mapping[str, str],
) -> list[ProcessPlan]:
    """Return the workers of a job without mpirun; variables in `meeting` connect them."""
    local = args.launcher == "local"
    common = plan_all_reduce(args, hosts, environment).variables
    places: list[Host | None] = [host for host in hosts for _ in range(host.slots)]
    plans = []
    for rank in range(args.num_workers):
        host = places[rank] if places else None
        variables = {
            **common,
            **meeting,
            "MXLITE_JOB_RANK": str(rank),
            "MXLITE_JOB_SIZE": str(args.num_workers),
        }
        if host is not None and local:
            variables.update(MXLITE_COMM_HOST=host.label(), DMLC_NODE_HOST=host.name)
        plans.append(ProcessPlan("worker", rank, None if local else host, variables))
    return plans


def plan_job(
    args: argparse.Namespace, hosts: Sequence[Host], environment: Mapping[str, str]
) -> list[ProcessPlan]:
    """Return the processes of a job with servers: the scheduler first, then servers and workers."""
    check_slots(args, hosts)
    address = own_address(hosts)
    port = environment.get("DMLC_PS_ROOT_PORT", "").strip()
    if not port:
        port = str(free_port(address))
    elif port.isdigit() and int(port) < 1 << 16:  # for an invalid port, the scheduler raises
        check_port(address, int(port))
    common = _forwarded(args.env, environment) if hosts else {}
    common.update(
        DMLC_NUM_WORKER=str(args.num_workers),
        DMLC_NUM_SERVER=str(args.num_servers),
        DMLC_PS_ROOT_URI=address,
        DMLC_PS_ROOT_PORT=port,
        DMLC_JOB_CLUSTER=args.launcher,
        # With the token, the scheduler rejects other programs and processes of other jobs.
        MXLITE_PS_TOKEN=environment.get("MXLITE_PS_TOKEN") or secrets.token_hex(16),
        PYTHONUNBUFFERED="1",
    )
    if args.p3:
        common.update(DMLC_PS_VAN_TYPE="p3", DMLC_PS_WATER_MARK="10")
    plans = [ProcessPlan("scheduler", 0, None, {**common, "DMLC_ROLE": "scheduler"})]
    if not hosts and not {"OMP_NUM_THREADS", "MXLITE_CPU_THREADS"} & set(environment):
        common["MXLITE_CPU_THREADS"] = str(_cores_for_each(args.num_workers))
    extra = {
        "server": _assignments("--env-server", args.env_server),
        "worker": _assignments("--env-worker", args.env_worker),
    }
    places = _round_of(hosts)
    for role, count in (("server", args.num_servers), ("worker", args.num_workers)):
        for rank in range(count):
            host = None
            if hosts:
                host = hosts[rank % len(hosts)] if role == "server" else places[rank]
            task = rank if role == "worker" else args.num_workers + rank
            variables = {
                **common,
                "DMLC_ROLE": role,
                "DMLC_TASK_ID": str(task),
                "MXLITE_PS_RANK": str(rank),
                **extra[role],
            }
            if host is not None:
                variables["DMLC_NODE_HOST"] = host.name
            plans.append(ProcessPlan(role, rank, host, variables))
    return plans


def _round_of(hosts: Sequence[Host]) -> list[Host]:
    """Return one host per slot, in round-robin order."""
    most = max((host.slots for host in hosts), default=0)
    return [host for turn in range(most) for host in hosts if host.slots > turn]


def remote_script(plan: ProcessPlan, folder: str, command: Sequence[str]) -> str:
    """Return the script that bash on another host reads from its input to run a process.

    The process ends when the input closes, that is, whenever the ssh connection ends.
    """
    exports = "".join(
        f"export {name}={shlex.quote(value)}; " for name, value in sorted(plan.variables.items())
    )
    line = " ".join(shlex.quote(word) for word in command)
    return (
        f"{{ {exports}cd {shlex.quote(folder)} || exit 1; set -m; exec 3<&0; "
        f"{line} </dev/null 3<&- & p=$!; "
        "( cat <&3 >/dev/null; kill -TERM -- -$p; sleep 5; kill -KILL -- -$p ) "
        ">/dev/null 2>&1 & w=$!; "
        "wait $p; r=$?; kill -TERM -- -$w 2>/dev/null; exit $r; }\n"
    )


def table(plans: Sequence[ProcessPlan], processes: Mapping[str, int]) -> str:
    """Return the host of each process, one line for each process."""
    root = plans[0].variables
    workers, servers = root["DMLC_NUM_WORKER"], root["DMLC_NUM_SERVER"]
    if servers == "0":
        first = f"{workers} workers sum among themselves"
        if "MXLITE_JOB_ADDRESS" in root:
            first += f" and meet at {root['MXLITE_JOB_ADDRESS']}"
    else:
        address = f"{root['DMLC_PS_ROOT_URI']}:{root['DMLC_PS_ROOT_PORT']}"
        first = f"{workers} workers and {servers} servers meet at {address}"
    lines = [first, f"{'process':<14}{'host':<24}pid"]
    for plan in plans:
        host = plan.host.label() if plan.host else "this machine"
        if plan.processes:
            host = "by mpirun"
        number = processes.get(plan.label())
        lines.append(f"{plan.label():<14}{host:<24}{'' if number is None else number}".rstrip())
    return "\n".join(lines)
