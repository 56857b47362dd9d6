"""``python -m mxlite.tools.trace``, and the tracks of input, communication and the engine."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite.tools import trace


def event(name: str, category: str, begin: float, end: float, thread: int = 0) -> list[Any]:
    common = {"name": name, "cat": category, "pid": 0, "tid": thread}
    return [{**common, "ph": "B", "ts": begin}, {**common, "ph": "E", "ts": end}]


EVENTS = [
    *event("conv", "operator", 0, 40),
    *event("conv", "operator", 30, 60, thread=1),
    *event("relu", "operator", 70, 80),
    *event("KVStore: push", "communication", 50, 65, thread=2),
    *event("DataLoader: wait", "IO", 75, 95, thread=3),
    *event("ImageRecordIter: sample", "IO", 90, 100, thread=4),
    {"name": "Memory: cpu/0", "cat": "Device Storage", "ph": "C", "ts": 5, "pid": 1, "tid": 0,
     "args": {"Memory: cpu/0": 3 << 20}},
]  # fmt: skip


def written(path: Path, events: Any = EVENTS) -> str:
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    return str(path)


def test_time_is_divided_once(tmp_path: Path) -> None:
    found = trace.read_trace(written(tmp_path / "p.json"))
    # conv and relu 0-60 and 70-80, then 60-65 communication, 80-95 waiting; the rest idle.
    assert dict(zip(trace.SHARES, trace.divide(found.intervals))) == {
        "compute": 70, "communication": 5, "IO wait": 15, "idle": 10,
    }  # fmt: skip
    assert trace.top_operators(found.intervals) == [("conv", 2, 70), ("relu", 1, 10)]


def test_time_counts_for_the_innermost_operator(tmp_path: Path) -> None:
    events = [
        *event("block", "operator", 0, 100),
        *event("dense", "operator", 5, 45),
        *event("dense", "operator", 45, 95),
        *event("dense", "operator", 20, 40, thread=1),
        *event("block", "operator", 100, 130),
        *event("relu", "operator", 100, 130),
    ]
    found = trace.read_trace(written(tmp_path / "p.json", events))
    assert trace.top_operators(found.intervals) == [
        ("dense", 3, 110), ("relu", 1, 30), ("block", 2, 10),
    ]  # fmt: skip


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "p.json")
    assert trace.main([path, "--no-picture", "--top", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0.100 ms from the first event to the last"
    assert lines[1].split() == ["compute", "0.070", "ms", "70.0", "%"]
    assert any(line.split()[:2] == ["conv", "2"] for line in lines)
    assert any(line.startswith("(1 more)") for line in lines)
    assert "largest Memory: cpu/0: 3.0 MiB" in lines


def test_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert trace.main([written(tmp_path / "p.json")]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    assert trace.main([written(tmp_path / "p.json")]) == 0
    assert "no drawing: matplotlib is not installed" in capsys.readouterr().out


def test_files_without_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    contents = {
        "{": "is not JSON text",
        "{}": "no list 'traceEvents'",
        '{"traceEvents": []}': "no e",
    }
    for content, message in contents.items():
        path.write_text(content)
        assert trace.main([str(path)]) == 1
        assert message in capsys.readouterr().err
    assert trace.main([str(tmp_path / "absent.json")]) == 1


def test_events_that_are_cut_off_are_left_out() -> None:
    events = [*event("a", "operator", 0, 5), event("b", "operator", 1, 9)[0],
              event("c", "operator", 1, 3)[1]]  # fmt: skip
    assert [entry.name for entry in trace._paired(events).intervals] == ["a"]


def test_all_tracks_of_a_training(tmp_path: Path) -> None:
    """Operators, passes, calls, memory, the queue, input and communication in one trace."""
    path = tmp_path / "run.json"
    mx.profiler.set_config(filename=str(path), profile_all=True)
    net = gluon.nn.Dense(2, in_units=3)
    contexts = [mx.cpu(0), mx.cpu(1)]
    net.initialize(ctx=contexts)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="device")
    data = gluon.data.ArrayDataset(np.ones((32, 3), "float32"), np.ones(32, "float32"))
    mx.profiler.set_state("run")
    try:
        for x, _ in gluon.data.DataLoader(data, 8, num_workers=1):
            parts = gluon.utils.split_and_load(x, contexts)
            with mx.autograd.record():
                losses = [net(part).sum() for part in parts]
            mx.autograd.backward(losses)
            trainer.step(8)
        nd.waitall()
    finally:
        mx.profiler.dump()
    found = trace.read_trace(path)
    categories = {entry.category for entry in found.intervals}
    assert {"operator", "MXNET_C_API", "graph pass", "IO", "communication"} <= categories
    names = {entry.name for entry in found.intervals}
    assert {"KVStore: pushpull", "DataLoader: wait"} <= names
    assert {"Memory: cpu/0", "Tasks in flight"} <= set(found.counters)
    shares = trace.divide(found.intervals)
    assert shares[0] > 0
    assert shares[2] > 0


def test_scopes_cost_nothing_when_off() -> None:
    from mxlite.profiler.scope import IO_SCOPE, scope

    with scope("never recorded", IO_SCOPE):
        pass
    assert "never recorded" not in mx._core.profiler_take()["names"]


@pytest.mark.parametrize(
    "text",
    [
        "[1]", '{"traceEvents": ["ts"]}', '[{"ts": "x"}]', '[{"ts": 1, "ph": "C", "args": [1]}]',
        '[{"ts": 1, "ph": "C", "args": {"a": null}}]', '[{"ts": 1, "ph": "B", "pid": [1]}]',
        '[{"ts": NaN, "ph": "X"}]', '[{"ts": 1, "ph": "X", "dur": Infinity}]',
        '[{"ts": 1' + 400 * "0" + "}]", "[" * 100_000,
    ],
)  # fmt: skip
def test_damaged_events_are_an_error(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(trace.TraceError, match=r"p\.json.*(damaged|not JSON)"):
        trace.read_trace(path)
    assert trace.main([str(path), "--no-picture"]) == 1
    assert "p.json" in capsys.readouterr().err
