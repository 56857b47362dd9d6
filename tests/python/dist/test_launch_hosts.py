"""launch.py without servers and without MPI: one host, and two loopback addresses as hosts."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from conftest import HERE, LAUNCH_TAG, Result, by_rank, check_end, run_python, write_program
from launch_jobs import stop_launcher


@pytest.fixture
def spread(launch, tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs a script on processes of one host, or of several addresses."""

    def run(
        script: str, slots: tuple[int, ...], *args: str, ok: bool = True, **variables: Any
    ) -> Result:
        path = write_program(script, tmp_path)
        lines = [f"127.0.0.{host} slots={count}\n" for host, count in enumerate(slots, 1)]
        hosts = "".join(lines) if len(slots) > 1 else ""
        line = f"-n {sum(slots)} -s 0 --launcher local {sys.executable} {path}"
        variables = {"timeout": 120, "MXLITE_COMM_TIMEOUT": "30", **variables}
        code, text, seconds = launch(
            f"{line} {' '.join(args)}", hosts=hosts, MXLITE_MPIRUN="none", **variables
        )
        result = Result(code, by_rank(text, LAUNCH_TAG), text, seconds)
        if ok:
            check_end(result, path, sum(slots), None)
        return result

    return run


# Runs a script and checks how its processes talked.
CHECKED = """
path, backend, local, cross = sys.argv.pop(1), *sys.argv.pop(1).split(",")
runpy.run_path(path, run_name="__main__")
info = mx._core.comm_info()
assert (info["backend"], info["local_size"], info["cross_size"]) == (
    backend, int(local), int(cross)), info
assert not hvd.mpi_enabled()
"""


@pytest.mark.parametrize("slots", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize(
    "script",
    [
        "collectives.py",
        "mistakes.py",
        "orders.py",
        "collective_operators.py",
        "store_values.py values",
        "store_values.py 2bit",
        "bucket_training.py plain add twice contexts",
        "sync_batch_norm_devices.py",
    ],
)
def test_suites_give_what_numpy_gives(spread, script: str, slots: tuple[int, int]) -> None:
    expected = f"tcp+shm,{slots[0]},2"
    path, *arguments = script.split()
    spread(CHECKED, slots, str(HERE / "scripts" / path), expected, *arguments)


@pytest.mark.parametrize("slots", [(1, 1), (2, 1), (2, 2), (1, 1, 1)], ids=str)
def test_random_sequences_agree_with_a_model_of_all_ranks(spread, slots: tuple[int, ...]) -> None:
    spread("collective_sequences.py", slots, "7", "30", timeout=240)


def test_mistakes_are_errors_on_every_rank(spread) -> None:
    spread("collective_mistakes.py", (2, 1))


@pytest.mark.parametrize("slots", [(3,), (2, 1)])
def test_a_second_job_and_a_part_of_the_ranks(spread, slots: tuple[int, ...]) -> None:
    program = """
one_host = "MXLITE_JOB_MEMORY" in os.environ
print("memory", os.environ.get("MXLITE_JOB_MEMORY"), flush=True)
pair = hvd.ProcessSet([0, 2])
hvd.init(process_sets=[pair])
rank = hvd.rank()
assert (rank, hvd.size()) == (int(os.environ["MXLITE_JOB_RANK"]), 3)
hosts = (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
if one_host:
    assert hosts == (rank, 3, 0, 1), hosts
else:
    assert hosts == ((0, 2, 0, 2), (1, 2, 0, 1), (0, 1, 1, 2))[rank], hosts
assert not hvd.mpi_enabled()
x = mx.nd.full((5,), rank + 1)
if pair.included():
    y = mx.nd.contrib.all_reduce(x, process_set=pair.process_set_id)
    assert y.asnumpy().tolist() == [4] * 5
values = [np.random.RandomState(r).normal(size=(300, 1000)).astype("float32") for r in range(3)]
agree([hvd.allreduce(mx.nd.array(values[rank]), op=hvd.Sum)], [sum(values)], 1e-4, 1e-5)
hvd.shutdown()
hvd.init([2, 1])  # in this order; rank 0 stays alone
assert (hvd.rank(), hvd.size()) == ((0, 1), (1, 2), (0, 2))[rank]
assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum).asnumpy().tolist() == [hvd.size()] * 2
hvd.shutdown()
store = mx.kv.create("dist_sync")
assert (store.rank, store.num_workers) == (rank, 3)
store.init("w", mx.nd.zeros((2,)))
out = mx.nd.zeros((2,))
store.pushpull("w", x[:2], out=out)
assert out.asnumpy().tolist() == [6, 6]
"""
    result = spread(program, slots)
    assert "3 workers sum among themselves" in result.text and "mpirun" not in result.text
    if len(slots) == 1:
        names = re.findall(r"memory (/\S+):\d+$", result.text, re.MULTILINE)
        assert len(names) == 3 and len(set(names)) == 1, result.text
        assert not Path("/dev/shm" + names[0]).exists()


KILLED = """
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


@pytest.mark.parametrize(
    ("slots", "victim", "mode"),
    [((2, 2), 0, ""), ((2, 2), 1, ""), ((2, 2), 3, ""), ((2, 2), 1, "fork"), ((2, 2), 3, "fork")]
    + [((3,), 1, "")],
)
def test_a_killed_process_is_named_on_all_hosts(
    spread, slots: tuple[int, ...], victim: int, mode: str
) -> None:
    result = spread(KILLED, slots, str(victim), "9", mode, ok=False)
    assert result.code == 137 and result.seconds < 25, result.text
    for rank in set(range(sum(slots))) - {victim}:
        assert re.search(rf"error .*rank {victim} is lost", result.output.get(rank, "")), (
            result.text
        )


def test_a_stopped_process_is_named_within_the_timeout(spread) -> None:
    result = spread(KILLED, (1, 1), "1", "19", ok=False, MXLITE_COMM_TIMEOUT="5")
    assert result.code and result.seconds < 45, result.text
    assert re.search("error .*rank 1 is lost .*no heartbeat for 4 s", result.output[0])


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ((2, 1), "has waited 3 s .*: rank 2 has not joined"),
        ((3,), "init: .*only 2 of 3 ranks have joined the shared memory in 3 s"),
    ],
)
def test_a_process_that_does_not_join_is_an_error(
    spread, slots: tuple[int, ...], words: str
) -> None:
    program = """
if os.environ["MXLITE_JOB_RANK"] == "2":
    time.sleep(8)
else:
    try:
        hvd.init()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        print("error", error, flush=True)
"""
    result = spread(program, slots, MXLITE_COMM_TIMEOUT="3")
    for rank in (0, 1):
        assert re.search(words, result.output[rank]), result.text


def test_ssh_starts_the_processes(launch, tmp_path: Path) -> None:
    program = """
os.environ["MXLITE_COMM_HOST"] = os.environ["THE_HOST"]  # the hosts are one machine
hvd.init()
assert hvd.allreduce(mx.nd.ones((3,)), op=hvd.Sum).asnumpy().tolist() == [4] * 3
print("on", os.environ["THE_HOST"], hvd.rank(), hvd.local_rank(), hvd.cross_size(), flush=True)
assert "PS_ROOT" not in str(os.environ)
"""
    path = write_program(program, tmp_path)
    hosts = "127.0.0.1 slots=2\n127.0.0.2:2222 slots=3\n"
    line = f"-n 4 -s 0 --launcher ssh {sys.executable} {path}"
    code, text, _ = launch(line, hosts=hosts, MXLITE_MPIRUN="none")
    assert code == 0, text
    assert sorted(re.findall(r"on (\S+) (\d) (\d) 2$", text, re.MULTILINE)) == [
        ("127.0.0.1", "0", "0"),
        ("127.0.0.1", "1", "1"),
        ("127.0.0.2", "2", "0"),
        ("127.0.0.2", "3", "1"),
    ], text
    assert re.search(r"4 workers sum among themselves and meet at 127\.0\.0\.1:\d+", text), text


def test_the_meeting_point_listens_on_one_interface_and_closes(spread) -> None:
    program = """
import os, re
with open("/proc/net/tcp") as file:
    lines = [line.split() for line in file.readlines()[1:]]
port = int(os.environ["MXLITE_JOB_ADDRESS"].rpartition(":")[2])
found = [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
print("listens", found, os.environ["MXLITE_JOB_TOKEN"], port, flush=True)
"""
    result = spread(program, (1, 1))
    found = re.findall(r"listens \['0100007F:\w+'\] (\w{32}) (\d+)$", result.text, re.MULTILINE)
    assert len(found) == 2 and len(set(found)) == 1, result.text
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", int(found[0][1])))


def test_no_process_outlives_the_launcher(tmp_path: Path) -> None:
    mark = f"mark{os.getpid()}hosts"
    program = "import mxlite.horovod as hvd, time\nhvd.init()\nprint('up', flush=True)\n"
    (tmp_path / "job.py").write_text(program + "time.sleep(600)\n")
    (tmp_path / "hosts").write_text("127.0.0.1\n127.0.0.2\n")
    line = "mxlite.tools.launch -n 2 -s 0 -H hosts --launcher local".split()
    stop_launcher([*line, sys.executable, "job.py", mark], mark, 2, signal.SIGKILL, tmp_path)


@pytest.mark.parametrize(
    ("hosts", "line", "words"),
    [
        ("127.0.0.1 slots=2\n192.0.2.7\n", "-n 3", "host 192.0.2.7 is no address of this machine"),
        ("127.0.0.1 slots=2\n", "-n 3", "slots, 2 on the 1 hosts of hosts, got 3"),
        ("127.0.0.1\ngone1\n", "-n 2 --launcher ssh", "gone1"),
    ],
)
def test_launcher_errors(launch, hosts: str, line: str, words: str) -> None:
    line = f"-s 0 --launcher local {line} {sys.executable} job.py"
    code, text, _ = launch(line, hosts=hosts, MXLITE_MPIRUN="none")
    assert code == 1 and words in text, text


MEMORY = {"MXLITE_JOB_MEMORY": "/a:4096"}
ADDRESS = {"MXLITE_JOB_ADDRESS": "127.0.0.1:9", "MXLITE_JOB_TOKEN": "t"}


def why_it_cannot_join(**variables: str) -> str:
    """Return the error of a process that is rank 1 of a job of 2, unless variables say more."""
    usual = {"MXLITE_JOB_SIZE": "2", "MXLITE_JOB_RANK": "1", "MXLITE_COMM_TIMEOUT": "2"}
    words = ("-c", "import mxlite.horovod as hvd\nhvd.init()\n")
    result = run_python(*words, **{**usual, **variables})
    assert result.returncode == 1, result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {**MEMORY, "MXLITE_JOB_RANK": "2"},
            "MXLITE_JOB_RANK must be a number from 0 to 1, got '2'",
        ),
        ({**MEMORY, "MXLITE_JOB_RANK": ""}, "MXLITE_JOB_RANK must be a number from 0 to 1, got ''"),
        (
            {**MEMORY, "MXLITE_JOB_SIZE": "-3"},
            "MXLITE_JOB_SIZE must be a number from 1 to 4096, got '-3'",
        ),
        ({**MEMORY, "MXLITE_JOB_SIZE": "two"}, "MXLITE_JOB_SIZE must be an integer, got 'two'"),
        ({"MXLITE_JOB_MEMORY": ""}, "MXLITE_JOB_MEMORY must be '/name:bytes', got ''"),
        ({"MXLITE_JOB_MEMORY": "/a/b:4096"}, "must be '/name:bytes'"),
        ({"MXLITE_JOB_MEMORY": "/a:4096x"}, "must be '/name:bytes'"),
        ({"MXLITE_JOB_MEMORY": "/a:99999999999999999999"}, "must be '/name:bytes'"),
        ({"MXLITE_JOB_MEMORY": "/" + "a" * 80 + ":4096"}, "must be '/name:bytes'"),
        ({"MXLITE_JOB_MEMORY": "/mxlite-none:4096"}, "/mxlite-none of"),
        (
            {**ADDRESS, "MXLITE_JOB_ADDRESS": "127.0.0.1"},
            "MXLITE_JOB_ADDRESS: address must be 'host:port', got '127.0.0.1'",
        ),
        ({**ADDRESS, "MXLITE_JOB_ADDRESS": "127.0.0.1:70000"}, "must be 'host:port'"),
        ({**ADDRESS, "MXLITE_JOB_TOKEN": ""}, "MXLITE_JOB_TOKEN must be set"),
        (
            {**ADDRESS, "MXLITE_JOB_RANK": "2"},
            "MXLITE_JOB_RANK must be a number from 0 to 1, got '2'",
        ),
        (
            {**ADDRESS, "DMLC_INTERFACE": "none0"},
            "DMLC_INTERFACE must be one of this host's",
        ),
        (ADDRESS, "cannot reach 127.0.0.1:9 (MXLITE_JOB_ADDRESS) within 2 s: Connection refused"),
    ],
    ids=str,
)
def test_wrong_variables_are_named(variables: dict[str, str], words: str) -> None:
    assert words in why_it_cannot_join(**variables)


def test_another_token_is_refused() -> None:
    meeting = mx._core.JobRendezvous(2, "127.0.0.1", 0, "right")
    text = why_it_cannot_join(MXLITE_JOB_TOKEN="wrong", MXLITE_JOB_ADDRESS=meeting.text)
    assert "without an answer; either MXLITE_JOB_TOKEN is that of another job" in text


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
