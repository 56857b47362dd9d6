"""Files of the package's tools: image lists, journals of im2rec, traces, training logs.

The first byte of an input chooses the tool.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from pathlib import Path

from mutation import mutated_json, mutated_lines
from mxlite.tools import im2rec, parse_log, partial, trace

_KEY = "key"
_STATE = {"done": 1, "record": 0, "index": 0, "bad": ["a.jpg: damaged"]}
_EVENTS = [
    {"name": "a", "cat": "operator", "ph": "B", "ts": 1, "pid": 0, "tid": 0},
    {"name": "a", "cat": "operator", "ph": "E", "ts": 5, "pid": 0, "tid": 0},
    {"name": "b", "cat": "IO", "ph": "X", "ts": 2, "dur": 3, "pid": 0, "tid": 1},
    {"name": "c", "ph": "C", "ts": 3, "pid": 0, "tid": 0, "args": {"c": 7}},
]
SEEDS = [
    b"\0" + b"0\t1.000000\ta.jpg\n1\t2.5\t3\tb/c.png\n",
    b"\1" + f"{json.dumps({'key': _KEY})}\n{json.dumps(_STATE)}\n".encode(),
    b"\2" + json.dumps({"traceEvents": _EVENTS}).encode(),
    b"\3" + b"INFO:root:Epoch[0] Train-accuracy=0.25\nEpoch[0] Time cost=1.5\n"
    b"Epoch[1] Validation-accuracy=nan\n",
]


def read(data: bytes, path: Path) -> None:
    """Give the bytes to a tool; its errors about damage are no findings."""
    kind, content = data[0] % 4 if data else 0, data[1:]
    path.write_bytes(content)
    if kind == 0:
        with contextlib.redirect_stdout(io.StringIO()):
            im2rec.read_list(str(path))
    elif kind == 1:
        stem = str(path.parent / "images")
        Path(stem + ".rec.journal").write_bytes(content)
        for end in (".rec.partial", ".idx.partial"):
            Path(stem + end).write_bytes(b"")
        with partial.PartialRecord(stem, _KEY) as record:
            assert record.done >= 0
    elif kind == 2:
        with contextlib.suppress(trace.TraceError):
            trace.report(trace.read_trace(path), 5)
    else:
        lines = content.decode(errors="replace").splitlines()
        parse_log.table(parse_log.parse(lines, ["accuracy"]), ["accuracy"])


def change(data: bytes, numbers: random.Random) -> bytes:
    """Return a file with changed fields, or with a changed JSON tree."""
    kind, content = data[0] % 4 if data else 0, data[1:]
    if kind == 2:
        return data[:1] + mutated_json(content, numbers)
    if kind == 1:
        lines = content.split(b"\n")
        at = numbers.randrange(len(lines))
        lines[at] = mutated_json(lines[at], numbers)
        return data[:1] + b"\n".join(lines)
    return data[:1] + mutated_lines(content, numbers)
