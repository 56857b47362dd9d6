"""Start a job with servers: ``python -m mxlite.tools.launch -n 2 -s 2 python train.py``.

Also ``tools/launch.py``, as in MXNet 1.x. Every process runs the same command. In the scheduler and
in servers, ``import mxlite`` (or ``mxnet`` through ``mxlite.compat``) serves and then exits.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

from .. import _core
from ..base import MXNetError, NotSupportedError, ValueError_
from ..run.launch import find_mpirun, has_mpirun
from ..run.launching.ended import ended_ranks, watched
from ..run.launching.hosts import (
    Host,
    LaunchError,
    check_hosts,
    check_hosts_of_mpirun,
    check_meeting,
    check_own_hosts,
    own_address,
    read_hosts,
    ssh,
)
from ..run.launching.job import Job
from ..run.launching.plan import (
    ProcessPlan,
    command_of,
    plan_all_reduce,
    plan_host_job,
    plan_hosts_job,
    plan_job,
)

_REFUSED = {
    "sge": "ask Grid Engine for the hosts (qsub with a parallel environment), write them to a "
    "hostfile, and use --launcher ssh -H hostfile or mpirun",
    "yarn": "use Kubernetes (an MPIJob), Slurm or mpirun: examples/distributed/README.md",
}


def option_parser() -> argparse.ArgumentParser:
    """Return a parser of the options of MXNet's launch.py."""
    p = argparse.ArgumentParser(prog="launch.py", description="Launch a distributed job")
    p.add_argument(
        "-n", "--num-workers", required=True, type=int, help="number of worker processes"
    )
    p.add_argument(
        "-s",
        "--num-servers",
        type=int,
        help="number of server processes, default: as many as workers; 0: workers sum among "
        "themselves, started by mpirun, or by this program where there is none (MXLITE_MPIRUN=none "
        "asks for that): through shared memory on this machine, over TCP between the hosts of -H",
    )
    p.add_argument(
        "-H",
        "--hostfile",
        help="lines 'host[:port] [slots=N]' of the hosts that run the job. With "
        "--launcher local and -s 0 the lines name addresses of this machine, such as 127.0.0.1 and "
        "127.0.0.2: its workers then talk as if each line were another host",
    )
    p.add_argument(
        "--sync-dst-dir",
        help="copy the current directory to this one on all hosts and run there; ssh only",
    )
    p.add_argument(
        "--launcher",
        choices=["local", "ssh", "mpi", "sge", "yarn"],
        help="what starts the processes; default: ssh with -H, else local",
    )
    p.add_argument(
        "--env-server",
        action="append",
        default=[],
        metavar="VAR:VALUE",
        help="variable of server processes, as OMP_NUM_THREADS:3",
    )
    p.add_argument(
        "--env-worker",
        action="append",
        default=[],
        metavar="VAR:VALUE",
        help="variable of worker processes",
    )
    p.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="VAR",
        help="variable of this shell that processes on other hosts get as well",
    )
    p.add_argument("--p3", action="store_true", help="push and pull by priority: always done")
    p.add_argument("command", nargs=argparse.REMAINDER, help="program with its arguments")
    return p


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line."""
    args = option_parser().parse_args(arguments)
    if args.command and args.command[0] == "--":
        args.command = args.command[1:]
    if args.num_servers is None:
        args.num_servers = args.num_workers
    if args.launcher is None:
        args.launcher = "ssh" if args.hostfile or args.sync_dst_dir else "local"
    if args.num_workers < 1 or args.num_servers < 0:
        raise ValueError_(
            f"launch: -n must be at least 1 and -s at least 0, got -n {args.num_workers} -s "
            f"{args.num_servers}"
        )
    if args.launcher in _REFUSED:
        raise NotSupportedError(
            f"launch: --launcher {args.launcher} is not supported; {_REFUSED[args.launcher]}"
        )
    if args.sync_dst_dir and args.launcher != "local":
        if args.launcher == "mpi" or args.num_servers == 0:
            raise ValueError_(
                "launch: --sync-dst-dir must be given only for --launcher ssh with servers; "
                "mpirun needs the same directory on all hosts"
            )
        if args.sync_dst_dir.startswith("~/"):
            args.sync_dst_dir = args.sync_dst_dir[2:]  # relative to home for ssh and rsync
    if args.launcher == "ssh" and not args.hostfile:
        raise LaunchError(
            "launch: --launcher ssh needs -H hostfile; for this machine use --launcher local"
        )
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; print errors as one line."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        return _run(parse(sys.argv[1:] if arguments is None else arguments))
    except (MXNetError, OSError) as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    command, variables = command_of(args.command)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DMLC_ROLE", "DMLC_TASK_ID", "MXLITE_PS_RANK")
    }
    environment.update(variables)
    args.env += [f"{name}={value}" for name, value in variables.items()]
    uses_hosts = args.launcher != "local" or args.num_servers == 0
    hosts = read_hosts(args.hostfile) if args.hostfile and uses_hosts else []
    if args.num_servers == 0:
        return _run_without_servers(args, hosts, command, environment)
    plans = plan_job(args, hosts, environment)
    folder = args.sync_dst_dir or os.getcwd()
    if args.launcher == "ssh":
        used = [plan.host for plan in plans if plan.host is not None]
        check_hosts(used, "/" if args.sync_dst_dir else folder)
        if args.sync_dst_dir:
            _copy_directory(list(dict.fromkeys(used)), args.sync_dst_dir)
    if args.launcher == "mpi":
        return _run_by_mpi(args, plans, hosts, command, environment)
    attempts = _attempts(environment.get("DMLC_NUM_ATTEMPT", "0"))
    return Job(plans, command, environment, folder, attempts).run()


def _attempts(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError_(f"environment variable DMLC_NUM_ATTEMPT must be a number, got {text!r}")
    return int(text)


def _copy_directory(hosts: Sequence[Host], target: str) -> None:
    for host in hosts:
        shell = shlex.join(ssh(host)[:-1])
        command = ["rsync", "-az", "--timeout=60", "--rsh", shell, "./", f"{host.name}:{target}/"]
        logging.info("rsync %s -> %s:%s", os.getcwd(), host.label(), target)
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise LaunchError(f"rsync: {error.strerror or error}") from error
        if answer.returncode:
            raise LaunchError(f"rsync to {host.label()} failed: {answer.stderr.strip()}")


def _mpirun(hosts: Sequence[Host], plan: ProcessPlan, program: Sequence[str]) -> list[str]:
    """Return the mpirun command that starts the processes of a plan."""
    found = find_mpirun()
    five = found.version >= (5,)
    command = [found.path]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    command += ["-np", str(plan.processes), "--bind-to", "none"]
    if five:
        command += ["--map-by", "slot:OVERSUBSCRIBE", "--output", "tag"]
        # If a process dies, the others must report which rank is lost before mpirun ends them.
        command.append("--enable-recovery")
    else:
        command += ["--map-by", "slot", "--oversubscribe", "--tag-output"]
    started = watched(program) if five else program
    if not hosts:
        return [*command, *started]
    command += ["-H", ",".join(f"{host.name}:{host.slots}" for host in hosts)]
    port = _port_of_all(hosts)
    if port != 22:
        option = ("--prtemca", "plm_ssh_args") if five else ("--mca", "plm_rsh_args")
        command += [*option, f"-p {port}"]
    for name in sorted(plan.variables):
        command += ["-x", name]
    return [*command, *started]


def _port_of_all(hosts: Sequence[Host]) -> int:
    ports = {host.port for host in hosts}
    if len(ports) > 1:
        raise LaunchError(
            "mpirun: sshd of all hosts must have the same port, got ports "
            f"{', '.join(map(str, sorted(ports)))}; write the ports into ~/.ssh/config, or use "
            "--launcher ssh"
        )
    return ports.pop()


def _run_by_mpi(
    args: argparse.Namespace,
    plans: Sequence[ProcessPlan],
    hosts: Sequence[Host],
    command: Sequence[str],
    environment: Mapping[str, str],
) -> int:
    """Run servers by one mpirun and workers by another; mpirun sets their ranks."""
    check_hosts_of_mpirun(hosts, os.getcwd())
    own = ("MXLITE_PS_RANK", "DMLC_TASK_ID", "DMLC_NODE_HOST")
    groups = [plans[0]]
    starters = {"scheduler": list(command)}
    for role, count in (("server", args.num_servers), ("worker", args.num_workers)):
        first = next(plan for plan in plans if plan.role == role)
        variables = {name: value for name, value in first.variables.items() if name not in own}
        group = ProcessPlan(role, 0, None, variables, count)
        starters[role] = _mpirun(hosts, group, command)
        groups.append(group)
    return _run_by_starters(groups, starters, environment)


def _run_by_starters(
    plans: Sequence[ProcessPlan],
    starters: Mapping[str, Sequence[str]],
    environment: Mapping[str, str],
) -> int:
    with ended_ranks() as ended:
        job = Job(plans, starters, {**environment, **ended.variables()}, os.getcwd())
        return ended.code(job.run())


def _run_without_servers(
    args: argparse.Namespace,
    hosts: Sequence[Host],
    command: Sequence[str],
    environment: dict[str, str],
) -> int:
    """Run workers that use all-reduce."""
    # Remove variables of other jobs, so that workers do not connect to their processes.
    for name in (
        "DMLC_PS_ROOT_URI",
        "DMLC_PS_ROOT_PORT",
        "MXLITE_JOB_ADDRESS",
        "MXLITE_JOB_MEMORY",
        "MXLITE_JOB_RANK",
        "MXLITE_JOB_SIZE",
    ):
        environment.pop(name, None)
    folder = os.getcwd()
    if hosts and (args.launcher == "local" or (args.launcher == "ssh" and not has_mpirun())):
        return _run_over_tcp(args, hosts, command, environment)
    if args.launcher == "local" and not has_mpirun():
        memory = _core.JobMemory(args.num_workers)  # must exist until the job ends
        plans = plan_host_job(args, environment, memory.text)
        return Job(plans, command, environment, folder).run()
    plan = plan_all_reduce(args, hosts, environment)
    check_hosts_of_mpirun(hosts, folder)
    return _run_by_starters([plan], {plan.role: _mpirun(hosts, plan, command)}, environment)


def _run_over_tcp(
    args: argparse.Namespace,
    hosts: Sequence[Host],
    command: Sequence[str],
    environment: dict[str, str],
) -> int:
    """Run workers on several hosts without mpirun; this process runs their rendezvous."""
    for name in ("MXLITE_COMM_HOST", "DMLC_NODE_HOST"):
        environment.pop(name, None)
    port = os.environ.get("DMLC_PS_ROOT_PORT", "").strip() or "0"
    if not port.isdigit() or int(port) > 65535:
        raise ValueError_(f"environment variable DMLC_PS_ROOT_PORT must be a port, got {port!r}")
    token = environment.get("MXLITE_JOB_TOKEN") or secrets.token_hex(16)
    folder = os.getcwd()
    if args.launcher == "local":
        check_own_hosts(hosts)
    meeting = _core.JobRendezvous(args.num_workers, own_address(hosts), int(port), token)
    check_meeting(meeting.text, hosts)
    plans = plan_hosts_job(args, hosts, environment, meeting.text, token)
    used = list(dict.fromkeys(plan.host for plan in plans if plan.host is not None))
    check_hosts(used, folder)
    return Job(plans, command, environment, folder).run()


if __name__ == "__main__":
    sys.exit(main())
