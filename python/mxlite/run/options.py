"""The command line of ``mxlite-run``: the supported options of horovodrun."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from ..base import ValueError_

# Environment variable of each option; its value is forwarded as text.
_NUMBERS = {
    "fusion_threshold_mb": ("HOROVOD_FUSION_THRESHOLD", float),
    "cycle_time_ms": ("HOROVOD_CYCLE_TIME", float),
    "cache_capacity": ("HOROVOD_CACHE_CAPACITY", int),
    "autotune_warmup_samples": ("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", int),
    "autotune_steps_per_sample": ("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", int),
    "autotune_bayes_opt_max_samples": ("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", int),
    "autotune_gaussian_process_noise": ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", float),
    "stall_check_warning_time_seconds": ("HOROVOD_STALL_CHECK_TIME_SECONDS", float),
    "stall_check_shutdown_time_seconds": ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", float),
    "num_nccl_streams": ("HOROVOD_NUM_NCCL_STREAMS", int),
}
_ELASTIC = {
    "min_np": "MXLITE_ELASTIC_MIN",
    "max_np": "MXLITE_ELASTIC_MAX",
    "elastic_timeout": "MXLITE_ELASTIC_TIMEOUT",
    "start_timeout": "MXLITE_ELASTIC_START_TIMEOUT",
    "reset_limit": "MXLITE_ELASTIC_RESET_LIMIT",
    "host_discovery_script": "MXLITE_ELASTIC_DISCOVERY",
}
_SWITCHES = {
    "hierarchical_allreduce": "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "hierarchical_allgather": "HOROVOD_HIERARCHICAL_ALLGATHER",
    "torus_allreduce": "HOROVOD_TORUS_ALLREDUCE",
    "autotune": "HOROVOD_AUTOTUNE",
    "timeline_mark_cycles": "HOROVOD_TIMELINE_MARK_CYCLES",
}


class Hosts:
    """Hosts and the number of processes that each may run."""

    def __init__(self, slots: list[tuple[str, int]]) -> None:
        self.slots = slots

    @classmethod
    def from_text(cls, text: str) -> Hosts:
        """Read ``h1:2,h2:4``."""
        slots = []
        for entry in text.split(","):
            name, _, count = entry.strip().partition(":")
            if not name or not (count or "1").isdigit():
                raise ValueError_(f"-H: host must have the form host:slots, got {entry!r}")
            slots.append((name, int(count or 1)))
        return cls(slots)

    @classmethod
    def from_file(cls, path: str) -> Hosts:
        """Read lines ``host slots=N``; ``#`` begins a comment."""
        slots = []
        with open(path) as file:
            for number, line in enumerate(file, 1):
                words = line.split("#")[0].split()
                if not words:
                    continue
                count = re.fullmatch(r"slots\s*=\s*(\d+)", " ".join(words[1:]) or "slots=1")
                if count is None:
                    raise ValueError_(
                        f"{path}:{number}: line must be 'host slots=N', got {line.strip()!r}"
                    )
                slots.append((words[0], int(count.group(1))))
        if not slots:
            raise ValueError_(f"{path}: the file must name at least one host, got none")
        return cls(slots)

    def total(self) -> int:
        """Return the number of slots."""
        return sum(count for _, count in self.slots)

    def processes_by_host(self, processes: int) -> list[int]:
        """Return the number of processes per host; hosts are filled one after another."""
        left, counts = processes, []
        for _, slots in self.slots:
            counts.append(min(left, slots))
            left -= counts[-1]
        return counts


def option_parser() -> argparse.ArgumentParser:
    """Return the parser of mxlite-run's command line."""
    p = argparse.ArgumentParser(
        prog="mxlite-run",
        description="Start a training on several processes: mxlite-run -np 4 python train.py",
        allow_abbrev=False,
    )
    p.add_argument("-v", "--version", action="store_true", help="print the version and end")
    p.add_argument("-np", "--num-proc", type=int, help="number of processes")
    p.add_argument(
        "-cb", "--check-build", action="store_true", help="print available features and exit"
    )
    p.add_argument("--verbose", action="store_true", help="print the command that is started")
    p.add_argument("--start-timeout", type=int, help="seconds until all processes must be there")
    p.add_argument("--output-filename", help="folder for rank.N/stdout and rank.N/stderr")
    p.add_argument("--config-file", help="YAML file with these options (needs PyYAML)")
    p.add_argument("--disable-cache", action="store_true", help="accepted: nothing is cached")
    p.add_argument("--prefix-output-with-timestamp", action="store_true")
    p.add_argument("--log-level", choices=["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"])
    p.add_argument("--log-with-timestamp", action="store_true", default=None)
    p.add_argument("--log-without-timestamp", action="store_true", default=None)

    where = p.add_argument_group("hosts")
    where.add_argument("-H", "--hosts", help="host1:slots,host2:slots; default localhost")
    where.add_argument("-hostfile", "--hostfile", help="file with lines 'host slots=N'")
    where.add_argument("-p", "--ssh-port", type=int)
    where.add_argument("-i", "--ssh-identity-file")
    where.add_argument("--network-interfaces", "--network-interface", help="names, as eth0,eth1")

    tuning = p.add_argument_group("tuning")
    tuning.add_argument("--fusion-threshold-mb", type=float)
    tuning.add_argument("--cycle-time-ms", type=float)
    tuning.add_argument("--cache-capacity", type=int)
    for name in ("hierarchical-allreduce", "hierarchical-allgather", "torus-allreduce"):
        _switch(tuning, name, "accepted: shared memory is used inside hosts, MPI between them")
    tuning.add_argument("--thread-affinity", type=int, help="accepted; see --cpu-threads")
    tuning.add_argument("--cpu-threads", type=int, help="threads of each process")
    tuning.add_argument("--num-nccl-streams", type=int)

    autotune = p.add_argument_group("autotune")
    _switch(autotune, "autotune", "accepted for old command lines and ignored")
    autotune.add_argument("--autotune-log-file")
    autotune.add_argument("--autotune-warmup-samples", type=int)
    autotune.add_argument("--autotune-steps-per-sample", type=int)
    autotune.add_argument("--autotune-bayes-opt-max-samples", type=int)
    autotune.add_argument("--autotune-gaussian-process-noise", type=float)

    watch = p.add_argument_group("timeline and stalls")
    watch.add_argument("--timeline-filename")
    _switch(watch, "timeline-mark-cycles", "show where rounds begin")
    watch.add_argument("--no-stall-check", action="store_true")
    watch.add_argument("--stall-check-warning-time-seconds", type=float)
    watch.add_argument("--stall-check-shutdown-time-seconds", type=float)

    mpi = p.add_argument_group("MPI")
    mpi.add_argument("--mpi", action="store_true", help="accepted: MPI is what is used")
    mpi.add_argument("--gloo", action="store_true", help=argparse.SUPPRESS)
    mpi.add_argument("--jsrun", action="store_true", help=argparse.SUPPRESS)
    mpi.add_argument("--mpi-threads-disable", action="store_true", help="accepted")
    mpi.add_argument("--mpi-args", help="more arguments of mpirun: --mpi-args='--mca x y'")
    mpi.add_argument("--binding-args", help="instead of '--bind-to none --map-by slot'")
    mpi.add_argument("--tcp", action="store_true", help="between hosts use TCP only")
    mpi.add_argument("--gloo-timeout-seconds", type=int, help=argparse.SUPPRESS)

    elastic = p.add_argument_group("elastic training (Open MPI 5; mxlite.horovod.elastic)")
    elastic.add_argument("--elastic", action="store_true", help="continue when processes are lost")
    elastic.add_argument("--min-np", "--min-num-proc", type=int, help="end with fewer; default 1")
    elastic.add_argument(
        "--max-np", "--max-num-proc", type=int, help="start processes while there are fewer"
    )
    elastic.add_argument(
        "--host-discovery-script", help="prints lines host:slots; new slots get processes"
    )
    elastic.add_argument(
        "--elastic-timeout", type=float, help="seconds to wait for --min-np processes; default 600"
    )
    elastic.add_argument("--reset-limit", type=int, help="how often the job may change")
    elastic.add_argument("--slots-per-host", type=int, help="accepted: -H has the slots")
    elastic.add_argument("--blacklist-cooldown-range", type=int, nargs=2, help="accepted")
    p.add_argument("command", nargs=argparse.REMAINDER, help="program and its arguments")
    return p


def _switch(group: argparse._ArgumentGroup, name: str, text: str) -> None:
    group.add_argument(f"--{name}", action="store_true", default=None, help=text)
    group.add_argument(
        f"--no-{name}",
        action="store_false",
        dest=name.replace("-", "_"),
        default=None,
        help=argparse.SUPPRESS,
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; exit with an error if options are not supported."""
    parser = option_parser()
    args = parser.parse_args(list(arguments))
    if args.config_file:
        _read_config(parser, args)
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if args.version or args.check_build:
        return args
    if args.min_np or args.max_np or args.host_discovery_script:
        args.elastic = True
    if args.num_proc is None:
        args.num_proc = args.min_np
    if args.gloo or args.jsrun:
        parser.error("--gloo, --jsrun: processes are started by Open MPI's mpirun; leave it out")
    if args.hosts and args.hostfile:
        parser.error("-H or --hostfile must be left out, got both")
    if not args.num_proc or args.num_proc < 1:
        parser.error("-np: the number of processes is needed, 1 or more")
    least, most = args.min_np or 1, args.max_np or args.num_proc
    if not 1 <= least <= args.num_proc <= most:
        parser.error(
            f"--min-np, -np and --max-np must be rising numbers, got {least}, {args.num_proc} and "
            f"{most}"
        )
    if not args.command:
        parser.error("no program given, as in: mxlite-run -np 4 python train.py")
    return args


def _read_config(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Set options from a YAML file; options of the command line take precedence."""
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        parser.error("--config-file needs PyYAML (pip install pyyaml)")
    try:
        with open(args.config_file) as file:
            content = yaml.safe_load(file) or {}
    except (OSError, yaml.YAMLError) as error:
        parser.error(f"--config-file {args.config_file}: {error}")
    flat: dict[str, object] = {}
    for key, value in dict(content).items():
        if isinstance(value, dict):  # sections: params, autotune, timeline, stall-check, ...
            prefix = {"autotune": "autotune-", "timeline": "timeline-"}.get(key, "")
            prefix = "stall-check-" if key in ("stall-check", "stall_check") else prefix
            flat.update({prefix + str(k): v for k, v in value.items()})
        else:
            flat[key] = value
    for key, value in flat.items():
        name = key.replace("-", "_")
        name = {"autotune_enabled": "autotune", "stall_check_enabled": "stall_check"}.get(
            name, name
        )
        if name == "stall_check":
            args.no_stall_check = not value
        elif not hasattr(args, name):
            parser.error(f"--config-file {args.config_file}: unknown option {key!r}")
        elif getattr(args, name) in (None, False):
            setattr(args, name, value)


def settings_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the environment variables for the processes."""
    variables: dict[str, str] = {}
    for name, (variable, kind) in _NUMBERS.items():
        value = getattr(args, name)
        if value is None:
            continue
        if name == "fusion_threshold_mb":
            value, kind = int(value * (1 << 20)), int
        variables[variable] = str(kind(value))
    for name, variable in _SWITCHES.items():
        if getattr(args, name) is not None:
            variables[variable] = "1" if getattr(args, name) else "0"
    if args.autotune_log_file:
        variables["HOROVOD_AUTOTUNE_LOG"] = os.path.abspath(args.autotune_log_file)
    if args.timeline_filename:
        dynamic = args.timeline_filename.upper() == "DYNAMIC"
        path = args.timeline_filename
        variables["HOROVOD_TIMELINE"] = "DYNAMIC" if dynamic else os.path.abspath(path)
    if args.no_stall_check:
        variables["HOROVOD_STALL_CHECK_DISABLE"] = "1"
    if args.log_level:
        variables["HOROVOD_LOG_LEVEL"] = args.log_level
    if args.log_without_timestamp:
        variables["HOROVOD_LOG_HIDE_TIME"] = "1"
    if args.cpu_threads:
        variables["MXLITE_CPU_THREADS"] = str(args.cpu_threads)
    for name, variable in _ELASTIC.items():
        if getattr(args, name) is not None:
            variables[variable] = str(getattr(args, name))
    return variables
