"""The profiler: traces, tables, user objects, state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd, profiler
from mxlite.gluon import nn
from processes import run_python


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    profiler.set_state("stop")
    profiler.set_config()
    profiler.record.record.clear()  # type: ignore[attr-defined]


def read(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    assert content["displayTimeUnit"] == "ms"
    return content["traceEvents"]  # type: ignore[no-any-return]


def trace(tmp_path: Path, work: Any, **config: Any) -> list[dict[str, Any]]:
    path = tmp_path / "profile.json"
    profiler.record.record.clear()  # type: ignore[attr-defined]  # events of other files' tests
    profiler.set_config(filename=str(path), **config)
    profiler.set_state("run")
    work()
    profiler.dump()
    return read(path)


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [e for e in events if e["name"] == name]


def test_operators_calls_and_memory(tmp_path: Path) -> None:
    def work() -> None:
        a = nd.ones((300, 300))
        nd.dot(a, a).asnumpy()

    events = trace(tmp_path, work, profile_all=True)
    begin, end = named(events, "dot")
    assert (begin["ph"], end["ph"], begin["cat"]) == ("B", "E", "operator")
    assert 0 < end["ts"] - begin["ts"] < 10e6
    assert begin["tid"] == end["tid"] and begin["pid"] == 0
    device = [e for e in events if e["ph"] == "M" and e["pid"] == 0]
    assert device[0]["args"] == {"name": "cpu/0"}
    assert {e["ph"] for e in named(events, "MXNDArraySyncCopyToCPU")} == {"b", "e"}
    memory = named(events, "Memory: cpu/0")
    assert memory and max(e["args"]["Memory: cpu/0"] for e in memory) >= 300 * 300 * 4
    assert named(events, "Tasks in flight")


def test_steps_and_passes_of_hybridized_blocks(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(300, activation="relu"), nn.Dense(200))
    net.initialize()
    net.hybridize()
    events = trace(tmp_path, lambda: net(nd.ones((100, 200))).wait_to_read())
    assert len(named(events, "FullyConnected")) == 4
    assert {e["cat"] for e in named(events, "fold-constants")} == {"graph pass"}
    assert sum(e["ph"] == "B" for e in events) == sum(e["ph"] == "E" for e in events)


def test_unfinished_dump_goes_on_and_a_second_recording_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profiler.set_config(filename=path)
    profiler.set_state("run")
    nd.exp(nd.zeros((3,))).wait_to_read()
    profiler.dump(finished=False)
    assert named(read(path), "exp")
    nd.sin(nd.zeros((3,))).wait_to_read()
    profiler.dump()
    assert named(read(path), "exp") and named(read(path), "sin")
    events = trace(tmp_path, lambda: nd.cos(nd.zeros((3,))).wait_to_read())
    assert named(events, "cos") and not named(events, "exp")
    nd.sin(nd.zeros((3,))).wait_to_read()  # off since the finished dump
    profiler.resume()
    profiler.dump()
    assert not named(read(path), "sin")


@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_operators_that_run_fail_or_are_left_out_end_once(tmp_path: Path, engine: str) -> None:
    code = """
import mxlite as mx
mx.profiler.set_config(filename="p.json")
mx.profiler.set_state("run")
x = mx.nd.ones((3,))
try:
    mx.nd.cos(mx.nd._internal._raise_async(x)).wait_to_read()
except ValueError:
    mx.nd.exp(x).wait_to_read()
mx.profiler.dump()
"""
    run_python("-c", code, cwd=tmp_path, MXLITE_ENGINE=engine)
    events = read(tmp_path / "p.json")
    for name in ("exp", "_raise_async"):
        assert [event["ph"] for event in named(events, name)] == ["B", "E"], name
    assert not [event for event in named(events, "cos") if event["cat"] == "operator"]


def test_pause_and_kinds(tmp_path: Path) -> None:
    def work() -> None:
        profiler.pause()
        nd.sin(nd.zeros((3,))).wait_to_read()
        profiler.resume()
        nd.cos(nd.zeros((3,))).wait_to_read()

    kinds = {"profile_all": False, "profile_api": False, "profile_memory": False}
    events = trace(tmp_path, work, **kinds)
    assert named(events, "cos") and not named(events, "sin")
    assert not [e for e in events if e.get("cat") in ("MXNET_C_API", "Device Storage")]


def test_resume_starts_only_what_was_paused() -> None:
    """1.9.1 records nothing in these states, and `set_state` ends a pause there, too."""

    def recorded() -> bool:
        nd.sin(nd.zeros((3,))).wait_to_read()
        return "sin" in json.loads(profiler.dumps(True, "json"))["Time"].get("operator", {})

    profiler.set_config(aggregate_stats=True)
    profiler.resume()
    assert not recorded()
    profiler.pause()
    profiler.set_state("run")
    assert recorded()
    profiler.resume()
    assert recorded()
    profiler.pause()
    profiler.pause()
    assert not recorded()
    profiler.resume()
    assert recorded()
    profiler.pause()
    profiler.set_state("stop")
    profiler.resume()
    assert not recorded()


def test_lost_events_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = profiler.record._core  # type: ignore[attr-defined]
    real = core.profiler_take
    monkeypatch.setattr(core, "profiler_take", lambda: {**real(), "dropped": 7})
    profiler.set_config(filename=str(tmp_path / "p.json"), continuous_dump=False)
    profiler.set_state("run")
    with pytest.warns(UserWarning, match="profiler: 7 events were lost"):
        profiler.dump()


def test_tables() -> None:
    profiler.set_config(aggregate_stats=True, profile_all=True)
    profiler.set_state("run")
    for _ in range(5):
        nd.dot(nd.ones((200, 200)), nd.ones((200, 200))).wait_to_read()
    profiler.set_state("stop")
    text = profiler.dumps()
    assert text.startswith("\nProfile Statistics:\n\tNote the difference in units")
    assert "operator\n=================\nName                          Total Count" in text
    (row,) = [line for line in text.splitlines() if line.startswith("dot ")]
    count, total, low, high, mean = row.split()[1:]
    assert count == "5" and float(low) <= float(mean) <= float(high) <= float(total)
    content = json.loads(profiler.dumps(format="json", reset=True))
    assert content["Time"]["operator"]["dot"]["Count"] == 5
    assert content["Unit"] == {"Time": "ms", "Memory": "kB"}
    assert content["Memory"]["Device Storage"]["Memory: cpu/0"]["Max"] >= 160
    assert "dot" not in profiler.dumps()


def test_memory_belongs_to_the_block_that_allocates_it() -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(32, prefix="first_"), nn.Dense(8, prefix="second_"))
    net.initialize()
    x = nd.ones((64, 16))
    net(x).wait_to_read()
    profiler.set_config(profile_memory=True)
    profiler.set_state("run")
    y = net(x)
    nd.waitall()
    kept = profiler.memory_by_block()["cpu(0)"]
    assert kept["net_first"]["peak"] >= 64 * 32 * 4
    assert kept["net_first"]["bytes"] == 0  # second has read it
    assert 64 * 8 * 4 <= kept["net_second"]["bytes"] < 64 * 32 * 4
    assert kept["net_second"]["allocations"] >= 1
    outside = nd.zeros((1000,))
    outside.wait_to_read()
    assert profiler.memory_by_block()["cpu(0)"][""]["bytes"] >= 4000
    net.hybridize()
    hybrid = [net(x) for _ in range(3)]  # the later calls run the graph directly elsewhere
    nd.waitall()
    assert profiler.memory_by_block()["cpu(0)"]["net"]["bytes"] >= 3 * 64 * 8 * 4
    profiler.set_state("stop")
    rows = profiler.memory_by_block()
    net(x).wait_to_read()
    assert profiler.memory_by_block() == rows  # nothing is attributed any more
    del y, hybrid, outside
    nd.waitall()
    left = profiler.memory_by_block()["cpu(0)"]
    assert left["net_second"]["bytes"] == 0
    assert left[""]["bytes"] == 0
    profiler.set_state("run")
    assert profiler.memory_by_block() == {}  # a new recording
    profiler.set_state("stop")


def test_order_of_rows() -> None:
    profiler.set_config(aggregate_stats=True)
    profiler.set_state("run")
    for _ in range(3):
        nd.sin(nd.ones((2,))).wait_to_read()
    nd.cos(nd.ones((2,))).wait_to_read()
    profiler.set_state("stop")
    for ascending in (False, True):
        lines = profiler.dumps(sort_by="count", ascending=ascending).splitlines()
        order = [line.split()[0] for line in lines if line.split()[:1] in (["sin"], ["cos"])]
        assert order == (["cos", "sin"] if ascending else ["sin", "cos"])


def test_user_objects(tmp_path: Path) -> None:
    domain = profiler.Domain("reading")

    def work() -> None:
        task, frame, event = domain.new_task("t"), domain.new_frame("f"), profiler.Event("e")
        for span in (task, frame, event):
            span.start()
            span.stop()
        counter = domain.new_counter("c", 5)
        counter += 3
        counter.decrement(2)
        domain.new_marker("m").mark()

    events = trace(tmp_path, work)
    assert [e["ph"] for e in named(events, "t")] == ["b", "e"]
    assert [e["ph"] for e in named(events, "f")] == ["(", ")"]
    assert [e["ph"] for e in named(events, "e")] == ["B", "E"]
    assert [e["args"]["c"] for e in named(events, "c")] == [5, 8, 6]
    assert named(events, "m")[0]["cat"] == "reading,instant_marker"
    assert named(events, "m")[0]["s"] == "p"


def test_user_objects_of_several_threads(tmp_path: Path) -> None:
    domain = profiler.Domain("loader")
    counter = domain.new_counter("batches", 0)

    def run(work: Any, count: int = 1) -> None:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def count() -> None:
        for _ in range(500):
            counter.increment()

    def work() -> None:
        for span in (domain.new_task("read"), domain.new_frame("step"), profiler.Event("wait")):
            span.start()
            run(span.stop)
        run(count, 4)
        counter.set_value(np.int64(7))
        counter.increment(np.float32(2))
        for scope in ("global", "thread", "task"):
            domain.new_marker(scope).mark(scope)

    events = trace(tmp_path, work, aggregate_stats=True)
    for name in ("read", "step", "wait"):
        begin, end = named(events, name)
        assert begin["tid"] == end["tid"] and begin.get("id") == end.get("id")
    values = [e["args"]["batches"] for e in named(events, "batches")]
    assert values == [*range(1, 2001), 7, 9]
    scopes = {e["name"]: e["s"] for e in events if e.get("ph") == "n"}
    assert scopes == {"global": "g", "thread": "t", "task": "p"}


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: profiler.set_config(file_name="x"), TypeError, "'file_name'.*filename"),
        (lambda: profiler.set_state("go"), ValueError, "state must be 'run' or 'stop', got 'go'"),
        (
            lambda: profiler.dumps(format="xml"),
            ValueError,
            "format must be 'table' or 'json', got 'xml'",
        ),
        (lambda: profiler.dumps(sort_by="name"), ValueError, "sort_by must be .*got 'name'"),
        (lambda: profiler.set_state("run", profile_process="server"), NotImplementedError, "serv"),
        (
            lambda: profiler.Marker(profiler.Domain("d"), "m").mark("all"),
            ValueError,
            "scope must be .*got 'all'",
        ),
    ],
)
def test_bad_arguments(act: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        act()


def test_a_trace_that_cannot_be_written_warns_before_dump_raises(tmp_path: Path) -> None:
    profiler.set_config(filename=str(tmp_path / "none" / "p.json"))
    with pytest.warns(UserWarning, match=r"trace cannot be written.*p\.json"):
        profiler.set_state("run")
    with pytest.raises(OSError, match=r"p\.json"):
        profiler.dump()


def test_a_named_file_is_there_when_recording_starts_and_stops(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    profiler.set_config(filename=tmp_path / "q.json", aggregate_stats=True, profile_all=True)
    profiler.set_config(filename=path)  # resets what it does not name
    profiler.set_state("run")
    assert not named(read(path), "cos")
    path.unlink()
    profiler.pause()
    profiler.resume()
    assert not path.exists()  # a loop that pauses in each step would write a growing file
    nd.cos(nd.zeros((3,))).wait_to_read()
    profiler.set_state("stop")
    assert named(read(path), "cos")
    assert profiler.dumps() == "" and not (tmp_path / "q.json").exists()
    profiler.dump()
    assert named(read(path), "cos")
    path.unlink()
    profiler.set_config(filename=path, continuous_dump=False)
    profiler.set_state("run")
    profiler.set_state("stop")
    assert not path.exists()


def test_a_program_that_ends_while_it_records_leaves_a_trace(tmp_path: Path) -> None:
    code = """
import mxlite as mx
mx.profiler.set_config(filename="p.json")
mx.profiler.set_state("run")
mx.nd.cos(mx.nd.zeros((3,))).wait_to_read()
"""
    run_python("-c", code, cwd=tmp_path)
    assert named(read(tmp_path / "p.json"), "cos")


def test_servers_are_profiled_through_a_store() -> None:
    class Store:
        type = "dist_sync"
        calls: list[tuple[str, str]] = []

        def _profile_servers(self, name: str, text: str) -> None:
            self.calls.append((name, text))

    profiler.set_kvstore_handle(Store())
    try:
        profiler.set_config(filename=Path("s.json"), profile_all=True, profile_process="server")
        profiler.set_state("run", "server")
        profiler.pause("server")
        profiler.resume("server")
        profiler.set_state("stop", "server")
        profiler.dump(False, "server")
        profiler.dump(profile_process="server")
        with pytest.raises(ValueError, match="profile_process must be .*got 'servers'"):
            profiler.pause("servers")
        with pytest.raises(TypeError, match="'filenam'.*filename"):
            profiler.set_config(filenam="a", profile_process="server")
    finally:
        profiler.set_kvstore_handle(None)
    assert json.loads(Store.calls[0][1]) == {"filename": "s.json", "profile_all": True}
    assert [name for name, _ in Store.calls] == ["config", *["state"] * 4, "dump", "dump"]
    assert [text for _, text in Store.calls[1:]] == ["run", "pause", "resume", "stop", "0", "1"]
    assert not profiler.control._config["profile_all"]  # type: ignore[attr-defined]


def test_old_names_warn(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for act in (
        lambda: profiler.profiler_set_config(mode="all", filename=str(path)),
        lambda: profiler.profiler_set_state("run"),
        lambda: profiler.dump_profile(),
    ):
        with pytest.warns(UserWarning, match="deprecated"):
            act()
    assert path.exists()


def test_autostart_and_a_forked_child(tmp_path: Path) -> None:
    script = (
        "import os, mxlite as mx\n"
        "mx.nd.exp(mx.nd.zeros((3,))).wait_to_read()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    mx.nd.sin(mx.nd.zeros((3,))).wait_to_read()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
    )
    run_python("-c", script, cwd=tmp_path, MXNET_PROFILER_AUTOSTART=1)
    events = read(tmp_path / "profile.json")
    assert named(events, "exp") and not named(events, "sin")


def test_custom_operators_and_what_they_call_are_a_table_of_their_own(tmp_path: Path) -> None:
    class Doubling(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("profiled_doubling")
    class DoublingProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Doubling:
            return Doubling()

    x = nd.ones((3,))
    x.attach_grad()
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(tmp_path / "p.json"))
    profiler.set_state("run")
    with mx.autograd.record():
        y = nd.Custom(x, op_type="profiled_doubling")
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2, 2]
    nd.waitall()
    rows = json.loads(profiler.dumps(reset=True, format="json"))["Time"]["Custom Operator"]
    profiler.set_state("stop")
    for name in ("profiled_doubling", "_backward_profiled_doubling"):
        assert rows[f"{name}::pure_python"]["Count"] == rows[f"{name}::_mul_scalar"]["Count"] == 1
        assert rows[f"{name}::_mul_scalar"]["Total"] > 0
