"""Runs cases in one system's environment.

Requests come as JSON lines on standard input, answers are JSON lines on standard output:

    {"do": "prepare", "case": i, "dtype": d}       -> {"seconds": [forward, both or null]}
    {"do": "time", "which": 0 or 1, "count": n}    -> {"seconds": [...]}
    {"do": "version"}                              -> {"version": v}
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

from cases import ALL


def _measure(call: Any, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _answer(system: Any, request: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "version":
        return {"version": system.version()}
    if request["do"] == "prepare":
        calls = system.prepare(ALL[request["case"]], request["dtype"])
        state["calls"] = calls
        for call in calls:
            if call:
                _measure(call, 2)
        return {"seconds": [min(_measure(call, 3)) if call else None for call in calls]}
    return {"seconds": _measure(state["calls"][request["which"]], request["count"])}


def main() -> None:
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("system", choices=("mxlite", "torch"))
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    system = importlib.import_module(f"on_{options.system}")
    system.set_threads(int(os.environ["OMP_NUM_THREADS"]))
    state: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            answer = _answer(system, json.loads(line), state)
        except Exception as error:  # the other side decides what to do without this case
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
