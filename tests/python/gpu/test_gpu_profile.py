"""Time that a GPU works, as the profiler reports it."""

from __future__ import annotations

import json
import os
from typing import Any

import mxlite as mx
from mxlite import nd, profiler
from mxlite.gluon import nn


def test_the_profile_has_the_time_of_the_gpu_beside_that_of_the_host(tmp_path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu"), nn.Dense(8))
    net.initialize(ctx=mx.gpu(0))
    x = nd.ones((256, 512), ctx=mx.gpu(0))
    net(x).wait_to_read()
    path = tmp_path / "profile.json"
    profiler.set_config(profile_all=True, filename=str(path), aggregate_stats=True)
    profiler.set_state("run")
    for _ in range(3):
        nd.dot(x, x, transpose_b=True).wait_to_read()
    net(x).wait_to_read()
    profiler.set_state("stop")
    tables = json.loads(profiler.dumps(format="json"))
    profiler.dump()
    times = tables["Time"]
    assert times["gpu/0"]["dot"]["Count"] == 3
    assert 0 < times["gpu/0"]["dot"]["Total"] < 60e3  # ms
    assert times["operator"]["dot"]["Count"] == 3
    assert times["gpu/0"]["FullyConnected"]["Count"] == 2
    trace = json.loads(path.read_text())["traceEvents"]
    if "mxlite_fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", ""):
        check_kernels(times["gpu/0 kernels"], trace)
    names = {e["pid"]: e["args"]["name"] for e in trace if e["ph"] == "M"}
    device = [e for e in trace if e["ph"] in "BE" and names[e["pid"]] == "gpu/0"]
    begins = [e for e in device if e["ph"] == "B"]
    assert len(device) == 2 * len(begins)
    # A stream does one thing after another: within it, every event ends before the next begins.
    for tid in {e["tid"] for e in device}:
        open_events: list[str] = []
        for e in (e for e in device if e["tid"] == tid):
            if e["ph"] == "B":
                open_events.append(e["name"])
            else:
                assert open_events.pop() == e["name"]


def check_kernels(times: dict[str, Any], trace: list[dict[str, Any]]) -> None:
    """Check kernels by name: each runs within the operator that launched it."""
    assert times["dot_kernel"]["Count"] == 3
    assert times["FullyConnected_kernel"]["Count"] == 2
    names = {e["pid"]: e["args"]["name"] for e in trace if e["ph"] == "M"}
    events = [(names[e["pid"]], e["name"], e["ph"], e["ts"]) for e in trace if e["ph"] in "BE"]
    for operator, count in (("dot", 3), ("FullyConnected", 2)):
        outer, inner = (
            [
                [ts for name, kernel, phase, ts in events if (name, kernel, phase) == (*key, p)]
                for p in "BE"
            ]
            for key in (("gpu/0", operator), ("gpu/0 kernels", f"{operator}_kernel"))
        )
        assert [len(x) for x in (*outer, *inner)] == [count] * 4
        for begin, end, kernel_begin, kernel_end in zip(*outer, *inner):
            assert begin <= kernel_begin < kernel_end <= end


def test_nothing_is_marked_while_the_profiler_is_off() -> None:
    nd.ones((4,), ctx=mx.gpu(0)).wait_to_read()
    assert not [e for e in mx._core.profiler_take()["kind"].tolist() if e == 5]
