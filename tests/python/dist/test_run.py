"""mxlite-run: command lines, errors, and jobs that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from conftest import run_python, write_program
from mxlite.run.launch import MpiRun, mpirun_command
from mxlite.run.options import Hosts, parse, settings_of

FIVE, FOUR = MpiRun("mpirun", (5, 0, 11)), MpiRun("mpirun", (4, 1, 4))


def command(
    line: str, mpirun: MpiRun = FIVE, environment: dict[str, str] | None = None
) -> list[str]:
    return mpirun_command(parse(line.split()), mpirun, environment or {})


def test_the_program_keeps_its_own_options() -> None:
    made = command("-np 2 python train.py --lr 0.1 -np 7 --verbose")
    assert made[-7:] == ["python", "train.py", "--lr", "0.1", "-np", "7", "--verbose"]
    assert made[made.index("-np") + 1] == "2"


def test_options_are_spelled_as_the_version_wants_them() -> None:
    five, four = command("-np 2 -p 22 p"), command("-np 2 -p 22 p", FOUR)
    assert "--enable-recovery" in five and "--enable-recovery" not in four
    assert five[five.index("plm_ssh_args") + 1] == four[four.index("plm_rsh_args") + 1] == "-p 22"
    assert "--tag-output" in four and five[five.index("--output") + 1] == "tag"
    for made in (five, four):
        assert made[made.index("--bind-to") + 1] == "none"  # never with one dash
        assert ("--allow-run-as-root" in made) == (os.geteuid() == 0)


def test_processes_of_one_host_open_no_tcp_port_unless_asked() -> None:
    def transports(line: str) -> list[str]:
        made = command(line)
        return [made[i + 1] for i, word in enumerate(made) if word == "btl"]

    assert transports("-np 2 p") == ["^tcp"]
    assert transports("-np 2 --tcp p") == ["tcp,self,sm"]
    assert transports("-np 2 -H a:1,b:1 p") == []
    assert transports("-np 2 --network-interface eth0 p") == []


def test_hosts_and_forwarded_variables(tmp_path: Path) -> None:
    environment = {"PATH": "/bin", "MXLITE_X": "1", "HOROVOD_Y": "2", "SECRET": "3"}
    made = command("-np 3 -H a:2,b:2 p", environment=environment)
    assert made[made.index("-H") + 1] == "a:2,b:2"
    forwarded = [made[i + 1] for i, word in enumerate(made) if word == "-x"]
    assert forwarded == ["HOROVOD_Y", "MXLITE_X", "PATH"]
    assert "-x" not in command("-np 2 p", environment=environment)
    file = tmp_path / "hosts"
    file.write_text("# two\na slots=2\n\nb\n")
    assert Hosts.from_file(str(file)).slots == [("a", 2), ("b", 1)]
    assert Hosts.from_text("a:2,b:2").processes_by_host(3) == [2, 1]
    file.write_text("a 2\n")
    with pytest.raises(ValueError, match="hosts:1: line must be .*got 'a 2'"):
        Hosts.from_file(str(file))
    with pytest.raises(mx.MXNetError, match="at most that of slots, 4, got 5"):
        command("-np 5 -H a:2,b:2 p")


def test_options_become_variables() -> None:
    line = (
        "-np 2 --fusion-threshold-mb 32 --cycle-time-ms 3.5 --no-stall-check --autotune "
        "--timeline-filename t.json --timeline-mark-cycles --no-hierarchical-allreduce "
        "--cpu-threads 3 p"
    )
    assert settings_of(parse(line.split())) == {
        "HOROVOD_FUSION_THRESHOLD": str(32 << 20),
        "HOROVOD_CYCLE_TIME": "3.5",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_TIMELINE": os.path.abspath("t.json"),
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
        "MXLITE_CPU_THREADS": "3",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python train.py", "-np"),
        ("-np 2", "no program"),
        ("-np 2 --gloo p", "--gloo"),
        ("-np 2 -H a --hostfile b p", "must be left out, got both"),
    ],
)
def test_what_cannot_be_done_is_refused(line: str, words: str, capsys) -> None:
    with pytest.raises(SystemExit):
        parse(line.split())
    assert words in capsys.readouterr().err


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "mxlite.run", *arguments, timeout=60, **options)


def test_another_mpi_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "mpirun"
    other.write_text("#!/bin/sh\necho 'HYDRA build details: Version: 4.1'\n")
    other.chmod(0o755)
    result = run("-np", "2", "true", MXLITE_MPIRUN=str(other))
    assert result.returncode == 1 and "not Open MPI's mpirun" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_check_build_and_version() -> None:
    assert run("--version").stdout.strip() == mx.__version__
    assert "Available Controllers" in run("--check-build").stdout


def test_a_job_shares_the_cores_and_passes_its_exit_code(mpirun: str, tmp_path: Path) -> None:
    program = """
hvd.init()
print('threads', mx._core.cpu_threads(), hvd.rank(), hvd.size())
sys.exit(int(sys.argv[1]))
"""
    script = str(write_program(program, tmp_path))
    cores = len(os.sched_getaffinity(0))
    result = run("-np", "2", sys.executable, script, "0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(f"threads {max(1, cores // 2)} ") == 2
    assert run("-np", "2", sys.executable, script, "5").returncode != 0


@pytest.mark.parametrize(
    ("end", "code"),
    [("kill -9 $$", 137), ("kill -15 $$", 143), ("kill -11 $$", 139), ("exit 7", 7), ("exit 0", 0)],
)
def test_the_code_of_a_rank_that_fails_is_that_of_the_job(mpirun: str, end: str, code: int) -> None:
    script = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then {end}; fi; sleep 0.2; exit 0'
    result = run("-np", "2", "sh", "-c", script)
    assert result.returncode == code, result.stdout + result.stderr


def test_a_rank_that_is_killed_after_its_last_collective_fails_the_job(
    mpirun: str, tmp_path: Path
) -> None:
    program = """
hvd.init()
hvd.allreduce(mx.nd.ones((2,)), name='x').wait_to_read()
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
time.sleep(0.5)
print('ends well', flush=True)
os._exit(0)
"""
    result = run("-np", "2", sys.executable, str(write_program(program, tmp_path)))
    assert "ends well" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 137, result.stdout + result.stderr


DEATH = """
hvd.init()
x = mx.nd.ones((100000,))
begin = time.monotonic()
try:
    for step in range(10**6):
        if hvd.rank() == 1 and step == 20:
            os.kill(os.getpid(), int(sys.argv[1]))
        hvd.allreduce_(x, name="grad").wait_to_read()
except mx.MXNetError as error:
    print("survived", hvd.rank(), "rank 1" in str(error), round(time.monotonic() - begin, 1), error)
    open(f"spoken{hvd.rank()}", "w").close()
    sys.exit(3)
"""


@pytest.mark.parametrize(("signal", "limit"), [("9", 1.0), ("19", 3.0)])
def test_survivors_of_a_lost_rank_raise(
    mpirun: str, tmp_path: Path, signal: str, limit: float
) -> None:
    script = write_program(DEATH, tmp_path)
    program = (sys.executable, str(script), signal)
    if signal == "19":
        # A stopped rank keeps mpirun alive: it is killed when the others have reported errors.
        spoken = f"[ -e {tmp_path}/spoken0 ] && [ -e {tmp_path}/spoken2 ]"
        wait = f"for i in $(seq 400); do {spoken} && break; sleep 0.1; done"
        program = ("sh", "-c", f"{sys.executable} {script} 19 & p=$!; {wait}; kill -9 $p; wait $p")
    result = run("-np", "3", *program, cwd=tmp_path, MXLITE_COMM_TIMEOUT="2")
    lines = [line for line in result.stdout.splitlines() if "survived" in line]
    assert len(lines) == 2, result.stdout + result.stderr
    for line in lines:
        words = line[line.index("survived") :].split()
        assert words[2] == "True", line
        assert float(words[3]) < limit + 2, line  # the steps before take a moment
