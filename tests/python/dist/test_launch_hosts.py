"""launch.py without servers and without MPI over several hosts: two loopback addresses."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mxlite as mx
import pytest
from conftest import HERE
from launch_jobs import PACKAGE, processes_with, wait_for_end

SCRIPTS = HERE / "scripts"
Spread = Callable[..., tuple[int, dict[int, str], str, float]]


@pytest.fixture
def spread(launch, tmp_path: Path) -> Spread:
    """Return a function that runs a script on processes of two hosts."""

    def run(
        script: str,
        slots: tuple[int, ...],
        *args: str,
        ok: bool = True,
        timeout: float = 120,
        **variables: str,
    ) -> tuple[int, dict[int, str], str, float]:
        path = SCRIPTS / script
        if not script.endswith(".py"):
            path = tmp_path / "job.py"
            path.write_text(script)
        lines = [f"127.0.0.{host} slots={count}\n" for host, count in enumerate(slots, 1)]
        (tmp_path / "hosts").write_text("".join(lines))
        line = f"-n {sum(slots)} -s 0 -H hosts --launcher local {sys.executable} {path}"
        variables.setdefault("MXLITE_COMM_TIMEOUT", "30")
        code, text, seconds = launch(f"{line} {' '.join(args)}", timeout=timeout, **variables)
        output: dict[int, str] = {}
        for rank, rest in re.findall(r"^\[worker (\d+)\] (.*)$", text, re.MULTILINE):
            output[int(rank)] = output.get(int(rank), "") + rest + "\n"
        assert not ok or code == 0, text
        return code, output, text, seconds

    return run


# Runs a script and checks how its processes talked.
CHECKED = """
import os, runpy, sys
path, backend, local, cross = sys.argv.pop(1), *sys.argv.pop(1).split(",")
runpy.run_path(path, run_name="__main__")
import mxlite as mx
import mxlite.horovod as hvd
info = mx._core.comm_info()
assert (info["backend"], info["local_size"], info["cross_size"]) == (
    backend, int(local), int(cross)), info
assert not hvd.mpi_enabled()
print("checked")
"""


@pytest.mark.parametrize("slots", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize(
    "script",
    [
        "collectives.py",
        "mistakes.py",
        "orders.py",
        "collective_operators.py",
        "store_values.py --check values",
        "store_values.py --check 2bit",
        "bucket_training.py plain add twice contexts",
        "sync_batch_norm_devices.py",
    ],
)
def test_suites_give_what_numpy_gives(spread: Spread, script: str, slots: tuple[int, int]) -> None:
    expected = f"tcp+shm,{slots[0]},2"
    path, *arguments = script.split()
    _, output, text, _ = spread(CHECKED, slots, str(SCRIPTS / path), expected, *arguments)
    assert len(output) == sum(slots) and text.count("checked") == sum(slots), text


@pytest.mark.parametrize("slots", [(1, 1), (2, 1), (2, 2), (1, 1, 1)], ids=str)
def test_random_sequences_agree_with_a_model_of_all_ranks(
    spread: Spread, slots: tuple[int, ...]
) -> None:
    _, output, text, _ = spread("collective_sequences.py", slots, "7", "30", timeout=240)
    assert len(output) == sum(slots), text
    assert all("30 sequences" in lines for lines in output.values()), text


def test_mistakes_are_errors_on_every_rank(spread: Spread) -> None:
    _, output, text, _ = spread("collective_mistakes.py", (2, 1))
    assert all("done" in lines for lines in output.values()) and len(output) == 3, text


def test_a_second_job_and_a_part_of_the_ranks(spread: Spread) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
rank = hvd.rank()
hosts = (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
assert hosts == ((0, 2, 0, 2), (1, 2, 0, 1), (0, 1, 1, 2))[rank], hosts
hvd.shutdown()
hvd.init([2, 1])  # in this order; rank 0 stays alone
assert (hvd.rank(), hvd.size()) == ((0, 1), (1, 2), (0, 2))[rank]
assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum).asnumpy().tolist() == [hvd.size()] * 2
hvd.shutdown()
store = mx.kv.create("dist_sync")
assert (store.rank, store.num_workers) == (rank, 3)
print("done")
"""
    _, _, text, _ = spread(program, (2, 1))
    assert text.count("done") == 3, text


KILLED = """
import os, signal, sys, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
victim, number = int(sys.argv[1]), int(sys.argv[2])
try:
    for step in range(10**6):
        if step == 20 and hvd.rank() == victim:
            if "fork" in sys.argv and os.fork() == 0:  # outlives its parent
                os.closerange(0, 3)
                time.sleep(40)
                os._exit(0)
            os.kill(os.getpid(), number)
        hvd.allreduce(mx.nd.ones((100000 if step % 2 else 2,)), name="x").wait_to_read()
except mx.MXNetError as error:
    print("error", str(error).replace(chr(10), " "), flush=True)
    time.sleep(1)  # the launcher sees the end of the other process first
    os._exit(3)
"""


@pytest.mark.parametrize(("victim", "mode"), [(0, ""), (1, ""), (3, ""), (1, "fork"), (3, "fork")])
def test_a_killed_process_is_named_on_all_hosts(spread: Spread, victim: int, mode: str) -> None:
    code, output, text, seconds = spread(KILLED, (2, 2), str(victim), "9", mode, ok=False)
    assert code == 137 and seconds < 25, text
    for rank in {0, 1, 2, 3} - {victim}:
        assert re.search(rf"error .*rank {victim} is lost", output.get(rank, "")), text


def test_a_stopped_process_is_named_within_the_timeout(spread: Spread) -> None:
    code, output, text, seconds = spread(
        KILLED, (1, 1), "1", "19", ok=False, MXLITE_COMM_TIMEOUT="5"
    )
    assert code and seconds < 45, text
    assert re.search("error .*rank 1 is lost .*no heartbeat for 4 s", output[0]), text


def test_a_process_that_does_not_join_is_an_error(spread: Spread) -> None:
    program = """
import os, time
import mxlite as mx, mxlite.horovod as hvd
if os.environ["MXLITE_JOB_RANK"] == "2":
    time.sleep(8)
    raise SystemExit
try:
    hvd.init()
    raise SystemExit("no error")
except mx.MXNetError as error:
    print("error", error, flush=True)
"""
    _, output, text, _ = spread(program, (2, 1), MXLITE_COMM_TIMEOUT="3")
    for rank in (0, 1):
        assert re.search("has waited 3 s .*: rank 2 has not joined", output[rank]), text


def test_ssh_starts_the_processes(launch, tmp_path: Path) -> None:
    program = """
import os
os.environ["MXLITE_COMM_HOST"] = os.environ["THE_HOST"]  # the hosts are one machine
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
assert hvd.allreduce(mx.nd.ones((3,)), op=hvd.Sum).asnumpy().tolist() == [4] * 3
print("on", os.environ["THE_HOST"], hvd.rank(), hvd.local_rank(), hvd.cross_size(), flush=True)
assert "PS_ROOT" not in str(os.environ)
"""
    (tmp_path / "job.py").write_text(program)
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n127.0.0.2:2222 slots=3\n")
    line = f"-n 4 -s 0 -H hosts --launcher ssh {sys.executable} job.py"
    code, text, _ = launch(line, MXLITE_MPIRUN="none")
    assert code == 0, text
    assert sorted(re.findall(r"on (\S+) (\d) (\d) 2$", text, re.MULTILINE)) == [
        ("127.0.0.1", "0", "0"),
        ("127.0.0.1", "1", "1"),
        ("127.0.0.2", "2", "0"),
        ("127.0.0.2", "3", "1"),
    ], text
    assert re.search(r"4 workers sum among themselves and meet at 127\.0\.0\.1:\d+", text), text


def test_the_meeting_point_listens_on_one_interface_and_closes(launch, tmp_path: Path) -> None:
    program = """
import os, re
with open("/proc/net/tcp") as file:
    lines = [line.split() for line in file.readlines()[1:]]
port = int(os.environ["MXLITE_JOB_ADDRESS"].rpartition(":")[2])
found = [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
print("listens", found, os.environ["MXLITE_JOB_TOKEN"], port, flush=True)
"""
    (tmp_path / "job.py").write_text(program)
    (tmp_path / "hosts").write_text("127.0.0.1\n127.0.0.2\n")
    code, text, _ = launch(f"-n 2 -s 0 -H hosts --launcher local {sys.executable} job.py")
    found = re.findall(r"listens \['0100007F:\w+'\] (\w{32}) (\d+)$", text, re.MULTILINE)
    assert code == 0 and len(found) == 2 and len(set(found)) == 1, text
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", int(found[0][1])))


def test_no_process_outlives_the_launcher(tmp_path: Path) -> None:
    mark = f"mark{os.getpid()}hosts"
    program = "import mxlite.horovod as hvd, time\nhvd.init()\nprint('up', flush=True)\n"
    (tmp_path / "job.py").write_text(program + "time.sleep(600)\n")
    (tmp_path / "hosts").write_text("127.0.0.1\n127.0.0.2\n")
    line = [sys.executable, "-m", "mxlite.tools.launch", "-n", "2", "-s", "0", "-H", "hosts"]
    process = subprocess.Popen(
        [*line, "--launcher", "local", sys.executable, "job.py", mark],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(PACKAGE)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    begin, up = time.monotonic(), 0
    while up < 2 and time.monotonic() - begin < 60:
        up += process.stdout.readline().endswith("up\n")
    running = len(processes_with(mark))
    process.kill()
    process.communicate()
    assert up == 2 and running >= 2, (up, running)
    wait_for_end(mark)


def test_launcher_errors(launch, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n192.0.2.7\n")
    command = f"{sys.executable} job.py"
    code, text, _ = launch(f"-n 3 -s 0 -H hosts --launcher local {command}")
    assert code == 1 and "host 192.0.2.7 is no address of this machine" in text, text
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n")
    code, text, _ = launch(f"-n 3 -s 0 -H hosts --launcher local {command}")
    assert code == 1 and "3 workers given, the 1 hosts of hosts have 2 slots" in text, text
    (tmp_path / "hosts").write_text("127.0.0.1\ngone1\n")
    code, text, _ = launch(f"-n 2 -s 0 -H hosts --launcher ssh {command}", MXLITE_MPIRUN="none")
    assert code == 1 and "gone1" in text, text


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MXLITE_JOB_ADDRESS": "127.0.0.1"}, "MXLITE_JOB_ADDRESS: '127.0.0.1' given, 'host:port'"),
        ({"MXLITE_JOB_ADDRESS": "127.0.0.1:70000"}, "'host:port' expected"),
        ({"MXLITE_JOB_TOKEN": ""}, "MXLITE_JOB_TOKEN is missing"),
        ({"MXLITE_JOB_RANK": "2"}, "MXLITE_JOB_RANK='2' given, a number from 0 to 1"),
        ({"DMLC_INTERFACE": "none0"}, "DMLC_INTERFACE='none0' given, one of this host's"),
        ({}, "cannot reach 127.0.0.1:9 (MXLITE_JOB_ADDRESS) within 2 s: Connection refused"),
    ],
    ids=str,
)
def test_wrong_variables_are_named(variables: dict[str, str], words: str) -> None:
    own = {"MXLITE_JOB_SIZE": "2", "MXLITE_JOB_RANK": "1", "MXLITE_JOB_ADDRESS": "127.0.0.1:9"}
    result = subprocess.run(
        [sys.executable, "-c", "import mxlite.horovod as hvd\nhvd.init()\n"],
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE),
            "MXLITE_JOB_TOKEN": "t",
            "MXLITE_COMM_TIMEOUT": "2",
            **own,
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1 and words in result.stderr, result.stderr


def test_another_token_is_refused() -> None:
    meeting = mx._core.JobRendezvous(2, "127.0.0.1", 0, "right")
    result = subprocess.run(
        [sys.executable, "-c", "import mxlite.horovod as hvd\nhvd.init()\n"],
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE),
            "MXLITE_JOB_TOKEN": "wrong",
            "MXLITE_JOB_ADDRESS": meeting.text,
            "MXLITE_JOB_SIZE": "2",
            "MXLITE_JOB_RANK": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "has closed the connection; MXLITE_JOB_TOKEN of another job" in result.stderr


def test_a_meeting_point_that_other_hosts_do_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxlite.run.launching import hosts

    others = [hosts.Host("far", 22, 1)]
    monkeypatch.setattr(hosts, "reaching_address", lambda _: "192.0.2.7")
    for address in ("127.0.1.1:9091", "0.0.0.0:9091", "[::1]:9091"):
        with pytest.raises(hosts.LaunchError, match=r"DMLC_PS_ROOT_URI .* 192\.0\.2\.7"):
            hosts.check_meeting(address, others)
    hosts.check_meeting("192.0.2.7:9091", others)
    monkeypatch.setattr(hosts, "reaching_address", lambda _: "127.0.0.1")
    hosts.check_meeting("127.0.0.2:9091", others)
