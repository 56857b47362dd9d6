"""Cost of the profiler's scopes while it is off, as a share of small operators.

    python benchmarks/overhead/profiler_off.py --json out.json

The scopes of one call are counted by recording it, the time of an empty scope is measured, and the
product is divided by the time of the call.
"""

from __future__ import annotations

import argparse
import sys
import timeit
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import table, write_json

LIMIT = 0.01


def scope_seconds(core: Any) -> float:
    """Return the time of one scope while the profiler is off."""
    count = 2_000_000
    return float(min(core.profiler_time_scopes(count) for _ in range(5))) / count / 1e9


def scopes_of(mx: Any, call: Any) -> int:
    """Return how many scopes a call opens."""
    mx.nd.waitall()
    mx._core.profiler_take()
    mx._core.profiler_start(0xFFFFFFFF, False)
    call()
    mx.nd.waitall()
    mx._core.profiler_stop()
    phases = mx._core.profiler_take()["phase"].tolist()
    return phases.count(ord("B")) + phases.count(ord("C"))


def main() -> int:
    """Measure and print; 1 if a share is above 1 %."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add_options(parser, "json")
    args = parser.parse_args()
    import mxlite as mx

    x = mx.nd.ones((2, 3))
    block = mx.gluon.nn.Dense(4, in_units=3)
    block.initialize()
    block.hybridize()
    block(x)
    calls = {
        "relu of 6 elements": lambda: mx.nd.relu(x).wait_to_read(),
        "hybridized Dense of 6 elements": lambda: block(x).wait_to_read(),
        "asnumpy of 6 elements": x.asnumpy,
    }
    scope = scope_seconds(mx._core)
    rows = []
    for name, call in calls.items():
        number = 20_000
        seconds = min(timeit.repeat(call, number=number, repeat=7)) / number
        count = scopes_of(mx, call)
        rows.append((name, seconds * 1e6, count, scope * 1e9, count * scope / seconds))
    print(
        table(
            ["call", "us", "scopes", "ns per scope", "share"],
            [[n, f"{us:.2f}", str(c), f"{ns:.2f}", f"{100 * s:.2f} %"] for n, us, c, ns, s in rows],
        )
    )
    if args.json:
        keys = ("call", "microseconds", "scopes", "nanoseconds_per_scope", "share")
        write_json(args.json, {"profiler_off": [dict(zip(keys, row)) for row in rows]})
    return 1 if any(row[-1] > LIMIT for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
