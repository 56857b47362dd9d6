"""Overhead of calls: eager ops, hybridized blocks, import, memory.

    python benchmarks/overhead/overhead.py --json out.json

Arrays have six elements, so nearly all of the time is overhead. The breakdown takes differences of
measured calls that differ in one step; the engine that runs tasks in the caller (naive) is measured
in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import subprocess
import sys
import timeit
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import Timing, progress, report, result, table, usable_cores, write_json

MICROSECONDS = 1e6


class Case(NamedTuple):
    """A measured statement.

    Attributes
    ----------
    name : str
        Name of the measurement.
    statement : str
        Python code; runs in a loop without a function call around it.
    limit : float, optional
        Microseconds that it may take at most.
    """

    name: str
    statement: str
    limit: float | None = None


PUSHED = [
    Case("empty statement", "pass"),
    Case("call of a builtin", "absolute(1)"),
    Case("empty array of 2 x 3", "empty(shape)"),
    Case("eager op, pushed", "relu(x)", 2.0),
    Case("eager op with a keyword, pushed", "activation(x, act_type='relu')", 2.0),
    Case("eager op into out, pushed", "relu(x, out=y)", 2.0),
    Case("x + y, pushed", "x + y", 2.0),
    Case("x * 2.0, pushed", "x * 2.0", 2.0),
    Case("x += y, pushed", "iadd(x, y)", 2.0),
    Case("one-op block, pushed", "plain(x)"),
    Case("hybridized one-op block, pushed", "hybrid(x)", 5.0),
]
DONE = [
    Case("eager op, done", "relu(x).wait_to_read()", 3.0),
    Case("x + y, done", "(x + y).wait_to_read()", 3.0),
    Case("wait for a finished array", "x.wait_to_read()"),
    Case("hybridized one-op block, done", "hybrid(x).wait_to_read()", 5.0),
    Case("eager op to NumPy", "relu(x).asnumpy()"),
    Case("array from NumPy", "array(source)"),
]
RECORDED = [Case("eager op on the tape, pushed", "relu(v)")]
# Cases that run with the naive engine; see breakdown().
NAIVE = [
    Case("naive: eager op", "relu(x)"),
    Case("naive: eager op into out", "relu(x, out=y)"),
    Case("naive: empty array of 2 x 3", "empty(shape)"),
]


def measure(case: Case, scope: dict[str, Any], calls: int, blocks: int) -> Timing:
    """Time a statement in blocks, with a wait for all work after each block.

    Parameters
    ----------
    case : Case
        The statement.
    scope : dict
        Its names.
    calls : int
        Executions in a block.
    blocks : int
        Measurements.

    Returns
    -------
    Timing
        Seconds for one execution.
    """
    timer = timeit.Timer(case.statement, globals=scope)
    timer.timeit(calls // 10 + 1)
    seconds = []
    for _ in range(blocks):
        scope["waitall"]()
        seconds.append(timer.timeit(calls) / calls)
    scope["waitall"]()
    return Timing(seconds, calls)


def names() -> dict[str, Any]:
    """Return the names that the statements use."""
    import mxlite as mx
    import numpy as np
    from mxlite import _core
    from mxlite.gluon import nn

    hybrid = nn.Activation("relu")
    hybrid.hybridize(static_alloc=True, static_shape=True)
    x = mx.nd.ones((2, 3))
    hybrid(x).wait_to_read()
    variable = mx.nd.ones((2, 3))
    variable.attach_grad()
    return {
        "absolute": abs,
        "activation": mx.nd.Activation,
        "array": mx.nd.array,
        "empty": _core.empty,
        "hybrid": hybrid,
        "iadd": operator.iadd,
        "plain": nn.Activation("relu"),
        "relu": mx.nd.relu,
        "shape": (2, 3),
        "source": np.ones((2, 3), np.float32),
        "v": variable,
        "waitall": mx.nd.waitall,
        "x": x,
        "y": mx.nd.ones((2, 3)),
    }


def run_cases(cases: list[Case], calls: int, blocks: int) -> dict[str, list[float]]:
    """Measure cases in this process.

    Parameters
    ----------
    cases : list of Case
        Names of the measurements.
    calls, blocks : int
        As in :func:`measure`.

    Returns
    -------
    dict
        Name to seconds of the blocks.
    """
    from mxlite import autograd

    scope = names()
    found = {}
    for case in progress(cases, len(cases), "overhead"):
        if case in RECORDED:
            with autograd.record():
                found[case.name] = measure(case, scope, calls, blocks).seconds
        else:
            found[case.name] = measure(case, scope, calls, blocks).seconds
    return found


def run_naive(calls: int, blocks: int) -> dict[str, list[float]]:
    """Measure the naive engine's cases in a process of its own."""
    output = subprocess.run(
        [sys.executable, __file__, "--only-naive", "--calls", str(calls), "--blocks", str(blocks)],
        env={**os.environ, "MXLITE_ENGINE": "naive"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    found: dict[str, list[float]] = json.loads(output)
    return found


_IMPORT = """
import resource, sys, time
begin = time.perf_counter()
{statement}
print(time.perf_counter() - begin)
fields = open('/proc/self/statm').read().split()
print(int(fields[1]) * resource.getpagesize() / 2**20)
"""


def import_cost(statement: str, count: int) -> tuple[Timing, Timing]:
    """Time an import in fresh processes.

    Parameters
    ----------
    statement : str
        Statement that they run.
    count : int
        Number of processes.

    Returns
    -------
    seconds, mebibytes : Timing
        Duration of the statement, and resident set after it.
    """
    seconds, sizes = [], []
    for _ in range(count):
        lines = subprocess.run(
            [sys.executable, "-c", _IMPORT.format(statement=statement)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.split()
        seconds.append(float(lines[0]))
        sizes.append(float(lines[1]))
    return Timing(seconds), Timing(sizes)


def breakdown(medians: dict[str, float]) -> list[tuple[str, float, str]]:
    """Split an eager call into steps by differences of medians.

    Parameters
    ----------
    medians : dict
        Case to microseconds.

    Returns
    -------
    list of tuple
        Step, microseconds, and how it was found.
    """
    out = medians["naive: eager op into out"]
    alloc = medians["naive: eager op"] - out
    push = medians["eager op, pushed"] - medians["naive: eager op"]
    done = medians["eager op, done"] - medians["eager op, pushed"]
    call = medians["call of a builtin"] - medians["empty statement"]
    tape = medians["eager op on the tape, pushed"] - medians["eager op, pushed"]
    hybrid = medians["hybridized one-op block, pushed"] - medians["eager op, pushed"]
    return [
        ("Python loop", medians["empty statement"], "empty statement"),
        ("Python to a C callable and back", call, "builtin - empty statement"),
        (
            "arguments, shape rule, kernel choice, kernel",
            out - medians["call of a builtin"],
            "naive engine into out - builtin",
        ),
        ("new array: object, storage", alloc, "naive engine - naive engine into out"),
        ("dependencies and hand-over", push, "threaded engine, pushed - naive engine"),
        ("wait until done", done, "done - pushed"),
        ("(recording on the tape)", tape, "recorded - pushed"),
        ("(hybridized block around the op)", hybrid, "hybridized - eager, pushed"),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000, help="calls in a block: %(default)s")
    parser.add_argument("--blocks", type=int, default=25, help="measurements: %(default)s")
    parser.add_argument("--imports", type=int, default=9, help="fresh processes: %(default)s")
    add_options(parser, "json")
    parser.add_argument("--only-naive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--only-calls",
        action="store_true",
        help="one JSON line: median seconds of each call, without the naive engine and imports",
    )
    options = parser.parse_args(arguments)
    if options.only_naive:
        print(json.dumps(run_cases(NAIVE, options.calls, options.blocks)))
        return 0

    cases = [*PUSHED, *DONE, *RECORDED]
    if options.only_calls:
        found = run_cases(cases, options.calls, options.blocks)
        print(json.dumps({name: Timing(seconds).median for name, seconds in found.items()}))
        return 0
    found = run_cases(cases, options.calls, options.blocks)
    found.update(run_naive(options.calls, options.blocks))
    limits = {case.name: case.limit for case in [*cases, *NAIVE]}
    results = [
        result(
            name,
            Timing(seconds, options.calls),
            unit="us",
            amount=MICROSECONDS,
            limit=limits[name],
        )
        for name, seconds in found.items()
    ]
    for statement, limit in (("import mxlite", 0.3), ("import numpy", None)):
        seconds, sizes = import_cost(statement, options.imports)
        results.append(result(statement, seconds, unit="s", limit=limit))
        results.append(result(f"{statement}, resident set", sizes, unit="MiB", limit=None))
    rows = [
        [
            entry["name"],
            f"{entry['median']:.3f}",
            f"{entry['q1']:.3f}-{entry['q3']:.3f}",
            entry["unit"],
            "" if entry["limit"] is None else f"{entry['limit']:g}",
            "" if entry["limit"] is None or entry["median"] <= entry["limit"] else "over",
        ]
        for entry in results
    ]
    print(table(["call", "median", "quartiles", "unit", "limit", ""], rows))
    steps = breakdown({entry["name"]: entry["median"] for entry in results})
    print("\nwhere the time of an eager op goes, us")
    print(table(["step", "us", "found as"], [[s, f"{t:.3f}", how] for s, t, how in steps]))
    if options.json:
        settings = {"calls": options.calls, "blocks": options.blocks, "threads": usable_cores()}
        content = report(
            "overhead",
            settings,
            results,
            breakdown=[{"step": s, "us": t, "found_as": how} for s, t, how in steps],
        )
        write_json(options.json, content)
        print(f"figures: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
