"""launch.py: command lines, environments, ends of jobs; ssh is a script of the test."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import sys
from pathlib import Path

import mxlite as mx
import pytest
from launch_jobs import PROGRAM, stop_launcher, wait_for_end
from mxlite.run.launching.hosts import Host, read_hosts
from mxlite.run.launching.plan import command_of, plan_job
from mxlite.tools.launch import parse


def test_every_process_gets_its_part_and_a_prefix(launch) -> None:
    line = "-n 2 -s 1 --launcher local --env-worker THREADS:3 --env-server THREADS:1 --p3"
    code, text, _ = launch(f"{line} SAID=hello {sys.executable} program.py")
    assert code == 0, text
    for rank in (0, 1):
        found = re.search(rf"^\[worker {rank}\] worker {rank} (.*)", text, re.MULTILINE)
        assert found, text
        for pair in (
            "'DMLC_NUM_WORKER': '2'",
            "'DMLC_NUM_SERVER': '1'",
            f"'DMLC_TASK_ID': '{rank}'",
            "'DMLC_PS_ROOT_URI': '127.0.0.1'",
            "'THREADS': '3'",
            "'SAID': 'hello'",
            "'DMLC_PS_VAN_TYPE': 'p3'",
        ):
            assert pair in found.group(1)
    assert re.search(r"^\[server 0\] server 0 .*'DMLC_TASK_ID': '2'.*'THREADS': '1'", text, re.M)
    assert re.search(r"^\[scheduler\] scheduler - ", text, re.MULTILINE)
    # The table at the start.
    assert "2 workers and 1 servers meet at 127.0.0.1:" in text
    assert re.search(r"^worker 1 +this machine +\d+$", text, re.MULTILINE)


def test_a_failure_ends_the_job_with_its_code(launch) -> None:
    code, text, seconds = launch(f"-n 2 -s 1 --launcher local {sys.executable} program.py fail")
    assert code == 7, text
    assert "worker 1 ended with exit code 7" in text
    code, text, _ = launch(f"-n 1 -s 1 --launcher local {sys.executable} program.py die")
    assert code == 128 + signal.SIGKILL, text


def test_a_failed_worker_is_started_again_where_that_is_allowed(launch) -> None:
    line = f"-n 2 -s 1 --launcher local {sys.executable} program.py once"
    code, text, _ = launch(line, DMLC_NUM_ATTEMPT="1")
    assert code == 0, text
    assert text.count("is started again") == 2
    assert len(re.findall(r"^\[worker 0\] worker 0", text, re.MULTILINE)) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_launcher(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    mark = f"{tmp_path}/program.py"
    # A shell starts each process, so the launcher has to end the process's whole session.
    command = f"bash -c '{sys.executable} {mark} hang; true'"
    if number == signal.SIGKILL:
        command = f"{sys.executable} {mark} hang"  # the kernel notifies only of children
    line = "mxlite.tools.launch -n 2 -s 1 --launcher local".split()
    code = stop_launcher([*line, command], mark, 4, number)
    assert code == (-number if number == signal.SIGKILL else 128 + number)


def test_hosts_get_their_processes_through_ssh(launch) -> None:
    hosts = "localhost slots=2  # first\n127.0.0.1:2222\n"
    line = f"-n 3 -s 1 --launcher ssh --env SAID {sys.executable} program.py"
    code, text, _ = launch(line, hosts=hosts, SAID="a 'quoted' text")
    assert code == 0, text
    places = dict(re.findall(r"^\[worker (\d)\].*'THE_HOST': '([^']+)'", text, re.MULTILINE))
    assert places == {"0": "localhost", "1": "127.0.0.1", "2": "localhost"}
    assert text.count("a 'quoted' text") == 5, text
    assert re.search(r"^worker 1 +127.0.0.1:2222$", text, re.MULTILINE)


def test_processes_on_other_hosts_end_with_the_job(launch, tmp_path: Path) -> None:
    mark = str(tmp_path / "program.py")
    line = f"-n 2 -s 1 --launcher ssh {sys.executable} {mark} fail stay"
    code, text, _ = launch(line, hosts="localhost\n127.0.0.1\n")
    assert code == 7, text
    wait_for_end(mark)


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (
            "localhost\ngone1\ngone2:2200\n",
            [
                "2 of 3 hosts cannot be used",
                "gone1: ssh: connect to host gone1: No route to host",
                "gone2:2200: ",
            ],
        ),
        ("localhost\n", ["slots, 1 on the 1 hosts of hosts, got 3"]),
    ],
)
def test_hosts_that_cannot_be_used_are_named(launch, hosts: str, words: list[str]) -> None:
    code, text, seconds = launch("-n 3 -s 1 python train.py", hosts=hosts)
    assert code == 1 and seconds < 30
    assert all(word in text for word in words) and "Traceback" not in text, text


def test_a_port_in_use_is_named_at_once(launch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = f"-n 1 -s 1 --launcher local {sys.executable} program.py"
        code, text, seconds = launch(line, DMLC_PS_ROOT_PORT=str(port))
        assert code == 1
        assert f"port {port} on 127.0.0.1 is in use (DMLC_PS_ROOT_PORT)" in text, text
        assert seconds < 10
    code, text, _ = launch(line, DMLC_PS_ROOT_PORT=str(port))
    assert code == 0 and f"meet at 127.0.0.1:{port}" in text, text


def test_options_that_make_no_job_are_refused() -> None:
    for options, kind, words in (
        ("-n 2 --launcher sge", NotImplementedError, "sge is not supported.*hostfile"),
        ("-n 2 --launcher yarn", NotImplementedError, "yarn is not supported.*MPIJob"),
        ("-n 2 --launcher ssh", mx.MXNetError, "ssh needs -H hostfile.*--launcher local"),
        ("-n 0 --launcher local", ValueError, "got -n 0 -s 0"),
    ):
        with pytest.raises(kind, match=words):
            parse(f"{options} python train.py".split())
    with pytest.raises(ValueError, match="command must be a program with its arguments"):
        command_of([])
    assert parse(shlex.split("-n 2 -s 1 python train.py")).launcher == "local"
    assert parse(shlex.split("-n 2 -H hosts python train.py")).launcher == "ssh"
    args = parse(shlex.split("-n 3 --launcher local python train.py -n 7 --lr 1"))
    assert (args.num_workers, args.num_servers) == (3, 3)
    assert args.command == shlex.split("python train.py -n 7 --lr 1")
    args.env_worker = ["OMP_NUM_THREADS"]
    with pytest.raises(ValueError, match="must be VARIABLE:value, got 'OMP_NUM_THREADS'"):
        plan_job(args, [], {})


def test_hostfiles(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# two\n10.0.0.1:2222 slots=4\n\nnode2\n")
    assert read_hosts(str(path)) == [Host("10.0.0.1", 2222, 4), Host("node2", 22, 1)]
    path.write_text("node1\nnode2 4\n")
    with pytest.raises(ValueError, match="hosts:2: line must be .*got 'node2 4'"):
        read_hosts(str(path))
    path.write_text("\n")
    with pytest.raises(ValueError, match="must name at least one host, got none"):
        read_hosts(str(path))
    with pytest.raises(mx.MXNetError, match="nothing: No such file"):
        read_hosts(str(tmp_path / "nothing"))
