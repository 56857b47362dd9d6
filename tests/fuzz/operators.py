"""Fuzzes all operators: random calls in subprocesses with guard pages and a memory limit.

    python tests/fuzz/operators.py --calls 100000 --seed 1 --json results.json
    python tests/fuzz/operators.py --seed 1 --only 4711          # one call, in this process
    python tests/fuzz/operators.py --graphs --calls 20000        # random graphs (graphs.py) instead

A call that ends its process by a signal, or takes more than ``--limit`` seconds, is reported with
its number; the next process continues after it. Wrong values, errors of undocumented classes and
errors that do not name the operator are reported as well. The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
UNIT = HERE.parent / "python" / "unit"
FAULTS = ("signal", "hang", "wrong value", "wrong error", "unnamed error")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--graphs", action="store_true", help="run random graphs")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of CPU time per call")
    parser.add_argument(
        "--memory", type=int, help="MiB above what the import needs; 1024, and 8192 for graphs"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--only", type=int, help="run one call here, without limits, and print it")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory is None:  # oneDNN caches 1,024 kernels, with much address space for each
        args.memory = 8192 if args.graphs else 1024
    return args


def _limit_memory(mebibytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (mebibytes << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _functions(graphs: bool) -> tuple[Callable[..., Any], Callable[..., tuple[str, str]]]:
    """Return what makes a call and what runs it."""
    sys.path[:0] = [str(HERE), str(UNIT)]
    if graphs:
        import graphs as source

        return source.make_call, source.run_call
    from operator_calls import make_call
    from operator_run import run_call

    return make_call, run_call


def _work(args: argparse.Namespace) -> None:
    """Run the calls [first, first + calls) and write the number of each before it begins."""
    import warnings

    make_call, run_call = _functions(args.graphs)
    warnings.simplefilter("ignore")
    _limit_memory(args.memory)
    with open(args.worker, "r+b") as file, open(f"{args.worker}.log", "a") as log:
        place = mmap.mmap(file.fileno(), 16)
        for number in range(args.first, args.first + args.calls):
            place[:8] = struct.pack("q", number)
            call = make_call(args.seed, number)
            kind, text = run_call(call)
            entry = {"n": number, "kind": kind, "op": call.op, "mode": call.mode}
            if kind in FAULTS:
                entry.update(call=str(call)[:500], text=text[: 4000 if args.graphs else 500])
            log.write(json.dumps(entry) + "\n")
            log.flush()
        place[8:16] = struct.pack("q", 1)


class _Worker:
    """A process that runs a range of calls, and its successors after crashes."""

    def __init__(self, args: argparse.Namespace, folder: Path, first: int, past: int) -> None:
        self.args, self.past = args, past
        self.file = folder / str(first)
        self.file.write_bytes(bytes(16))
        self.findings: list[dict[str, Any]] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._start(first)

    def _start(self, first: int) -> None:
        self.process = None
        if first >= self.past:
            return
        self.file.write_bytes(struct.pack("qq", first, 0))
        command = [sys.executable, __file__, "--worker", str(self.file)]
        for name, value in (
            ("seed", self.args.seed), ("first", first), ("calls", self.past - first),
            ("memory", self.args.memory),
        ):  # fmt: skip
            command += [f"--{name}", str(value)]
        env = {**os.environ, "MXLITE_CPU_THREADS": "1"}
        if self.args.graphs:
            command.append("--graphs")
        else:
            env["MXLITE_CPU_GUARD_PAGES"] = "1"  # takes most of the time of a graph
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        self.number, self.since = -1, self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def poll(self) -> bool:
        """Look after the process; say whether there is more to do."""
        if self.process is None:
            return False
        number, done = struct.unpack("qq", self.file.read_bytes())
        code = self.process.poll()
        if code is not None:
            self.process = None
            if not done:
                name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                self._found(number, "signal", name)
                self._start(number + 1)
        elif number != self.number:
            self.number, self.since = number, self._cpu_seconds()
        elif self._cpu_seconds() - self.since > self.args.limit:
            self.process.kill()
            self.process.wait()
            self._found(number, "hang", f"more than {self.args.limit} s")
            self._start(number + 1)
        return self.process is not None

    def _found(self, number: int, kind: str, text: str) -> None:
        self.findings.append({"n": number, "kind": kind, "text": text})
        print(f"call {number}: {kind}: {text}", flush=True)

    def entries(self) -> list[dict[str, Any]]:
        """Return what all processes have written, and the crashes."""
        log = Path(f"{self.file}.log")
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line) for line in lines] + self.findings


def _summary(args: argparse.Namespace, entries: list[dict[str, Any]], seconds: float) -> Any:
    import mxlite as mx

    make_call, _ = _functions(args.graphs)
    for entry in entries:
        if "op" not in entry:  # the process ended before it could report its call
            call = make_call(args.seed, entry["n"])
            entry.update(op=call.op, mode=call.mode, call=str(call)[:500])
    kinds = Counter(e["kind"] for e in entries)
    graphs = " --graphs" if args.graphs else ""
    summary: dict[str, Any] = {
        "command": f"tests/fuzz/operators.py{graphs} --calls {args.calls} --seed {args.seed}",
        "calls": len(entries),
        "seconds": round(seconds),
        "faults": {fault: kinds.pop(fault, 0) for fault in FAULTS},
        "results": dict(kinds.most_common()),
        "findings": [e for e in entries if e["kind"] in FAULTS],
    }
    if args.graphs:
        return summary
    names = {op["name"]: op["aliases"] for op in mx._core.list_ops()}
    called = {e["op"] for e in entries}
    return {
        **summary,
        "operators": sum(not called.isdisjoint((n, *aliases)) for n, aliases in names.items()),
        "operators in the registry": len(names),
        "modes": dict(Counter(e["mode"] for e in entries).most_common()),
        "operators compared with NumPy or a row of the op table": len(
            {e["op"] for e in entries if e["kind"] == "values"}
        ),
    }


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    args = _parse()
    if args.worker is not None:
        _work(args)
        return 0
    if args.only is not None:
        make_call, run_call = _functions(args.graphs)
        call = make_call(args.seed, args.only)
        print(call, flush=True)
        if not args.graphs:
            print([a.values for a in call.arrays if a.values.size < 100], flush=True)
        print(*run_call(call))
        return 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # Interleaved blocks, so that processes end at about the same time.
        share = -(-args.calls // args.processes)
        past = args.first + args.calls
        workers = [
            _Worker(args, Path(folder), first, min(first + share, past))
            for first in range(args.first, past, share)
        ]
        while any([worker.poll() for worker in workers]):
            time.sleep(0.05)
        entries = [entry for worker in workers for entry in worker.entries()]
    summary = _summary(args, entries, time.monotonic() - begin)
    print(json.dumps({k: v for k, v in summary.items() if k != "findings"}, indent=1))
    limit = 5000 if args.graphs else 600
    for finding in summary["findings"]:
        print(f"{finding['n']}: {finding['kind']}: {finding['call']}: {finding['text']}"[:limit])
    if args.json:
        args.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if summary["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
