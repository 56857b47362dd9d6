"""``profile_process="server"``: workers make the servers record and write."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import PRELUDE
from server_jobs import ServerJob

BEGIN = """
from mxlite import nd, profiler
kv = mx.kv.create("dist_sync")
def train(steps, key="w", shape=(1200, 1100)):
    for step in range(steps):
        kv.push(key, nd.ones(shape) * (kv.rank + 1))
        pulled(kv, key, shape).wait_to_read()
"""


def events_of(path: Path) -> list[dict[str, Any]]:
    """Read a Chrome trace and check it: what begins ends, in order, on each thread."""
    content = json.loads(path.read_text())
    events: list[dict[str, Any]] = content["traceEvents"]
    open_spans: dict[tuple[int, int], list[str]] = {}
    last = 0.0
    for event in events:
        assert event["ph"] in "MBECbe", event
        if event["ph"] == "M":
            continue
        assert isinstance(event["name"], str)
        assert event["ts"] >= last
        last = event["ts"]
        spans = open_spans.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            spans.append(event["name"])
        elif event["ph"] == "E" and spans:  # events that began before the profiler have no begin
            assert spans.pop() == event["name"]
    return events


def count_begun(events: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["name"] for event in events if event["ph"] == "B")


def test_servers_record_their_work_and_write_files_of_their_own(serve, tmp_path: Path) -> None:
    body = """
kv.init(["w", "small"], [nd.zeros((1200, 1100)), nd.zeros((3,))])
kv.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1))
train(1)
if kv.rank == 0:
    profiler.set_config(filename="server.json", profile_all=True, profile_process="server")
    profiler.set_state("run", profile_process="server")
kv.barrier()
train(4)
train(3, "small", (3,))
kv.barrier()
if kv.rank == 0:
    profiler.set_state("stop", profile_process="server")
kv.barrier()
train(1)
kv.barrier()
profiler.dump(profile_process="server")  # all workers: the second one's changes nothing
"""
    serve(BEGIN + body, env={"MXNET_KVSTORE_BIGARRAY_BOUND": "1000"})
    small = 0
    for rank in range(2):
        events = events_of(tmp_path / f"rank{rank}_server.json")
        begun = count_begun(events)
        # The array is shared by both servers: two workers push four times, one merge for both.
        parts = begun["push w"] // 8
        assert parts >= 1
        assert begun["push w"] == begun["pull w"] == begun["reply w"] == 8 * parts
        assert begun["merge w"] == begun["update w"] == 4 * parts
        small += begun["merge small"]
        assert begun["request: push"] >= begun["push w"]
        assert begun["request: pull"] >= begun["pull w"]
        assert begun["receive"] > 0
        assert begun["send"] > 0
        kinds = {event["name"]: event["cat"] for event in events if event["ph"] == "B"}
        assert kinds["merge w"] == kinds["update w"] == "operator"
        assert kinds["push w"] == kinds["send"] == "communication"
    assert small == 3  # on one of the servers
    assert not (tmp_path / "server.json").exists()  # no worker was profiled


def test_compressed_pushes_are_decoded_and_pause_and_resume_reach_the_servers(
    serve, tmp_path: Path
) -> None:
    body = """
kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
kv.init("w", nd.zeros((1200, 1100)))
profiler.set_kvstore_handle(kv.handle)
profiler.set_config(filename=os.path.join("traces", "s.json"), profile_process="server")
os.makedirs("traces", exist_ok=True)
profiler.set_state("run", profile_process="server")
train(2)
profiler.dump(finished=False, profile_process="server")
profiler.pause(profile_process="server")
train(2)
profiler.resume(profile_process="server")
train(1)
profiler.dump(profile_process="server")
"""
    serve(BEGIN + body, workers=1, servers=1)
    begun = count_begun(events_of(tmp_path / "traces" / "rank0_s.json"))
    assert begun["push w"] == begun["decode w"] == 3 * (begun["merge w"] // 3) > 0
    assert begun["push w"] % 3 == 0


@pytest.mark.parametrize("stops", [True, False])
def test_files_are_there_after_stop_or_the_end_of_the_job(
    serve, tmp_path: Path, stops: bool
) -> None:
    program = """
kv.init("w", nd.zeros((1200, 1100)))
mine = f"worker{kv.rank}.json"
profiler.set_config(filename="s.json", profile_all=True, profile_process="server")
profiler.set_config(filename=mine, profile_all=True, profile_process="worker")
for process in ("server", "worker"):
    profiler.set_state("run", profile_process=process)
kv.barrier()
train(2)
for process in ("server", "worker") if sys.argv[1:] else ():
    profiler.set_state("stop", profile_process=process)
"""
    serve(BEGIN + program, *(["stop"] if stops else []))
    for rank in range(2):
        begun = count_begun(events_of(tmp_path / f"rank{rank}_s.json"))
        assert begun["push w"] == 2 * begun["merge w"] > 0
        events = events_of(tmp_path / f"worker{rank}.json")
        assert any(event["cat"] == "communication" for event in events if event["ph"] == "B")


def test_autostart_gives_servers_files_of_their_own(serve, tmp_path: Path) -> None:
    program = """
kv.init("w", nd.zeros((1200, 1100)))
train(2)
"""
    serve(BEGIN + program, workers=1, env={"MXNET_PROFILER_AUTOSTART": "1"})
    files = {path.name: count_begun(events_of(path)) for path in tmp_path.glob("*.json")}
    assert set(files) == {"profile.json", "server0_profile.json", "server1_profile.json"}
    assert files["profile.json"]["KVStore: push"] == 2
    assert files["server0_profile.json"]["merge w"] > 0
    assert files["server1_profile.json"]["merge w"] > 0


def test_what_fails_on_a_server_reaches_the_worker_that_asked(serve) -> None:
    body = """
kv.init("w", nd.zeros((10, 11)))
if kv.rank == 1:
    profiler.set_config(filename="nowhere/s.json", profile_process="server")
    profiler.set_state("run", profile_process="server")
    for kind in (OSError, mx.MXNetError):
        fails(lambda: profiler.dump(profile_process="server"), "server ", "rank", "s.json",
              kind=kind)
    fails(lambda: kv._profile_servers("state", "go"), "got 'go'", kind=ValueError)
    profiler.set_config(filename="s.json", profile_process="server")
    profiler.dump(profile_process="server")
kv.barrier()
train(2, shape=(10, 11))  # the job continues
"""
    serve(BEGIN + body)


def test_a_server_that_takes_a_lost_ones_place_goes_on_recording() -> None:
    script = (
        PRELUDE
        + BEGIN
        + """
folder = os.environ["JOB_FOLDER"]
kv.init("w", nd.zeros((10, 11)))
profiler.set_config(filename=os.path.join(folder, "s.json"), profile_process="server")
profiler.set_state("run", profile_process="server")
train(3, shape=(10, 11))
print("killable", flush=True)
while not os.path.exists(os.path.join(folder, "killed")):
    time.sleep(0.01)
train(3, shape=(10, 11))
profiler.dump(profile_process="server")
"""
    )
    with ServerJob(
        script,
        workers=1,
        servers=1,
        MXLITE_PS_PROFILE_DIR="{folder}",
        MXLITE_PS_REJOIN=40,
        MXLITE_PS_SNAPSHOT_DIR="{folder}/snapshots",
        MXLITE_PS_SNAPSHOT_UPDATES=1,
    ) as job:
        job.wait_for("killable")
        job.servers[0].kill()
        (job.folder / "killed").touch()
        job.servers[0] = job.start("server")
        codes = job.wait()
        assert not any(codes), job.text()
        begun = count_begun(events_of(job.folder / "rank0_s.json"))
    assert begun["snapshot w"] >= begun["merge w"] >= 1


@pytest.mark.parametrize("name", ["local", "dist_sync"])
def test_stores_without_servers_say_so(name: str) -> None:
    import mxlite as mx

    store = mx.kv.create(name)
    mx.profiler.set_kvstore_handle(store.handle)
    try:
        with pytest.raises(NotImplementedError, match=f"'{name}' has no servers.*launch.py"):
            mx.profiler.set_state("run", profile_process="server")
    finally:
        mx.profiler.set_kvstore_handle(None)
    with pytest.raises(NotImplementedError, match="needs a kvstore with servers"):
        mx.profiler.set_config(filename="s.json", profile_process="server")
