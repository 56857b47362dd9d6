"""Time of single operators, measured as opperf of MXNet 1.x does."""

from __future__ import annotations

import inspect
import json
import statistics
import time
from typing import Any, Callable

import mxlite as mx
import numpy as np
from mxlite import _core

SEED = 41


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, int) for n in value)


def _schemas() -> dict[str, dict[str, Any]]:
    return {name: op for op in _core.list_ops() for name in (op["name"], *op["aliases"])}


def _arrays(schema: dict[str, Any], inputs: dict[str, Any], dtype: str, ctx: Any) -> dict[str, Any]:
    names = set(schema["inputs"])
    made = {}
    for name, value in inputs.items():
        if isinstance(value, mx.nd.NDArray):
            made[name] = value
        elif name in names and (_is_shape(value) or isinstance(value, (list, np.ndarray))):
            numbers = (
                mx.nd.random.normal(shape=value, ctx=ctx)
                if _is_shape(value)
                else mx.nd.array(value, ctx=ctx)
            )
            made[name] = numbers.astype(dtype)
    return made


def _profiled(call: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Milliseconds of one run on the device, and the most memory in bytes."""
    mx.profiler.set_config(profile_all=True, aggregate_stats=True)
    mx.profiler.dumps(reset=True)
    mx.profiler.set_state("run")
    begin = time.perf_counter()
    for _ in range(runs):
        call()
    mx.nd.waitall()
    wall = 1e3 * (time.perf_counter() - begin) / runs
    mx.profiler.set_state("stop")
    content = json.loads(mx.profiler.dumps(reset=True, format="json"))
    memory = content["Memory"].get("Device Storage", {}).get("Memory: cpu/0", {"Max": 0.0})
    operators = content["Time"].get("operator", {})
    # Rows may nest (a graph and its steps), so their sum is limited to the elapsed time.
    total = sum(row["Total"] for row in operators.values()) / runs
    return min(total, wall), 1e3 * memory["Max"]


def _timed(call: Callable[[], Any], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        mx.nd.waitall()
        times.append(1e3 * (time.perf_counter() - begin))
    return sorted(times)


def _schema_of(op: Any) -> dict[str, Any]:
    schemas = _schemas()
    if op.__name__ in schemas:
        return schemas[op.__name__]
    # The function takes arrays or numbers, like mx.nd.add, and has no schema.
    names = list(inspect.signature(op).parameters)
    return {"inputs": names, "variadic": False}


def _one(
    op: Any,
    inputs: dict[str, Any],
    run_backward: bool,
    dtype: str,
    ctx: Any,
    profiler: str,
    warmup: int,
    runs: int,
) -> dict[str, Any]:
    schema = _schema_of(op)
    arrays = _arrays(schema, inputs, dtype, ctx)
    params = {name: value for name, value in inputs.items() if name not in arrays}

    def forward() -> Any:
        if schema["variadic"]:
            return op(*arrays.values(), **params)
        return op(**arrays, **params)

    state: dict[str, Any] = {}
    if run_backward:
        for value in arrays.values():
            value.attach_grad()

    def record() -> None:
        with mx.autograd.record():
            out = forward()
        state["out"] = out[0] if isinstance(out, (list, tuple)) else out

    for _ in range(warmup):
        if run_backward:
            record()
            state["out"].backward()
        else:
            forward()
    mx.nd.waitall()
    name = op.__name__
    if profiler == "python":
        times = _timed(forward, runs)
        row = {
            f"avg_time_{name}": statistics.fmean(times),
            f"p50_time_{name}": float(np.percentile(times, 50)),
            f"p90_time_{name}": float(np.percentile(times, 90)),
            f"p99_time_{name}": float(np.percentile(times, 99)),
        }
    else:
        forward_ms, memory = _profiled(forward, runs)
        row = {
            f"avg_time_forward_{name}": forward_ms,
            f"max_storage_mem_alloc_{ctx.device_type}/{ctx.device_id}": memory / 1e3,
        }
        if run_backward:
            seconds = []
            for _ in range(runs):
                record()
                mx.nd.waitall()
                begin = time.perf_counter()
                state["out"].backward()
                mx.nd.waitall()
                seconds.append(time.perf_counter() - begin)
            row[f"avg_time_backward_{name}"] = 1e3 * statistics.fmean(seconds)
    return {**row, "inputs": inputs}


def run_performance_test(
    ops: Any,
    inputs: Any,
    run_backward: bool = True,
    dtype: str = "float32",
    ctx: Any = None,
    profiler: str = "native",
    warmup: int = 10,
    runs: int = 50,
) -> list[dict[str, Any]]:
    """Measure operators on inputs.

    Parameters
    ----------
    ops : Op or list of Op
        For example ``mx.nd.add``'s operator, ``mx.nd.broadcast_add``.
    inputs : dict or list of dict
        Names to shapes (of inputs: normal numbers, seed 41), arrays, or parameters.
    run_backward : bool
        Also time the gradient.
    dtype : str
        Type of arrays made here.
    ctx : Context, optional
        Device of the arrays; ``cpu()`` by default.
    profiler : {"native", "python"}
        Time on the device by ``mx.profiler``, or the wall clock's distribution.
    warmup, runs : int
        Calls before and while measuring.

    Returns
    -------
    list of dict
        For each operator ``{name: [row for each of inputs]}``; times in ms, memory in kB.

    Raises
    ------
    ValueError
        If the profiler is another one.
    """
    if profiler not in ("native", "python"):
        raise ValueError(f"profiler must be 'native' or 'python', got {profiler!r}")
    ctx = ctx or mx.cpu()
    results = []
    for op in ops if isinstance(ops, (list, tuple)) else [ops]:
        mx.random.seed(SEED)
        rows = [
            _one(op, dict(one), run_backward, dtype, ctx, profiler, warmup, runs)
            for one in (inputs if isinstance(inputs, list) else [inputs])
        ]
        results.append({op.__name__: rows})
    return results
