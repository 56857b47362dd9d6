"""Runs the Python tests on every mutant of the CPU kernels and counts those that a test catches.

    python tests/mutation/run.py --output tests/mutation/results/kernels.json
    python tests/mutation/run.py --only 17,64
    python tests/mutation/run.py --resume --output tests/mutation/results/kernels.json

Needs the library of ``build.py``. The tests are collected once; everything runs in processes forked
from that state. The first one runs all tests without a mutant and notes which mutants each test
executes. Then each mutant runs those tests that passed and execute it, those that execute the
fewest mutants first, until one fails, and then the C++ tests that execute it. A mutant is caught by
a failure, a crash or a hang. Each result is written at once, so ``--resume`` runs only those
mutants that a stopped run did not reach. With ``--guard`` arrays end at a page without access, and
only the mutants run that survived before, with the Python tests that execute them.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpp_tests
import pytest
from limits import STOPPED, WAIT, limit_for

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = ROOT / "build" / "mutation"
LIBRARY = TARGET / "python" / "mxlite" / "libmxlite.so"
SLOTS = 1024
MEMORY = 12 << 30
THREADS = 2
# Tests that check values. The other tests execute kernels, too, but check something else.
KERNEL_TESTS = (
    "test_ops test_pointwise test_linalg test_layer_ops test_update_ops test_fused_updates"
    " test_detection test_image test_sampling_ops test_indexing test_sparse_array"
    " test_sparse_training test_rnn_gradients test_nan test_contrib test_exact_numbers test_ndarray"
    " test_optimizer test_higher_order test_graph test_graph_training"
    " test_random_values"
).split()


class Library:
    """The switch of the mutants in the loaded library."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(LIBRARY))
        self._set = library.mxlite_set_mutant
        self._set_threads = library._ZN6mxlite15set_cpu_threadsEi
        self._reached = (ctypes.c_ubyte * SLOTS).in_dll(library, "mxlite_reached")

    def choose(self, number: int) -> None:
        """Switch to a mutant; 0 is the library as it is."""
        self._set(number)

    def use_threads(self) -> None:
        """Let kernels run in parallel, although a forked process has one thread by default."""
        self._set_threads(THREADS)

    def clear(self) -> None:
        """Forget which mutants were executed."""
        ctypes.memset(self._reached, 0, SLOTS)

    def reached(self) -> list[int]:
        """Return the mutants that were executed since ``clear``."""
        return [i for i, byte in enumerate(bytes(self._reached)) if byte]


class Child:
    """A forked process that writes a line per test into a pipe; ``seconds``: of processor time."""

    def __init__(self, work: Any, seconds: int = resource.RLIM_INFINITY) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 70
            try:
                os.close(read)
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                status = work(os.fdopen(write, "w", buffering=1))
            finally:
                os._exit(status)
        os.close(write)
        os.set_blocking(read, False)
        self.pipe = read

    def _read(self) -> bytes:
        """Return what is in the pipe."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self.pipe, 1 << 16):
                text += more
        return text

    def wait(self, limit: float) -> tuple[int | None, list[str]]:
        """Return the wait status (None after ``limit`` seconds) and the lines of the pipe."""
        text, end, status = b"", time.monotonic() + limit, None
        while time.monotonic() < end:
            text += self._read()
            done, code = os.waitpid(self.pid, os.WNOHANG)
            if done:
                status = code
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if status is None:
            os.waitpid(self.pid, 0)
        text += self._read()
        os.close(self.pipe)
        return status, text.decode().splitlines()


class Reports:
    """pytest plug-in that remembers whether a test failed."""

    failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failed setup, call or teardown."""
        self.failed = self.failed or report.failed


class Mutation:
    """pytest plug-in: replaces the loop over the tests by the loop over the mutants."""

    def __init__(
        self,
        args: argparse.Namespace,
        mutants: list[dict[str, Any]],
        names: set[str] | None,
        keep: Callable[[dict[str, Any]], None],
    ) -> None:
        self.args = args
        self.mutants = mutants
        self.names = names  # None: all tests
        self.keep = keep  # called with each result
        self.library = Library()
        self.reports = Reports()
        self.results: list[dict[str, Any]] = []
        self.baseline: dict[str, Any] = {}
        self.cpp_baseline: dict[str, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the baseline and all mutants."""
        items = [i for i in session.items if Path(i.path).stem in KERNEL_TESTS]
        items = [i for i in items if self.names is None or i.nodeid in self.names]
        by_name = {i.nodeid: i for i in items}
        store: Path = self.args.baseline
        if not (store.exists() and (self.args.keep_baseline or self._is_resumed(store))):
            found = {"python": self._run_baseline(items), "cpp": {}}
            if not self.args.guard:
                found["cpp"] = cpp_tests.baseline()
            store.write_text(json.dumps(found, indent=0))
        both = json.loads(store.read_text())
        self.baseline, self.cpp_baseline = both["python"], both["cpp"]
        red = sorted(n for n, t in self.baseline.items() if not t["passed"])
        print(f"{len(items)} tests, {len(red)} fail without a mutant", *red[:20], sep="\n  ")
        for mutant in self.mutants:
            row = self._run_mutant(mutant, by_name)
            if not row["caught"]:
                row.update(cpp_tests.run_mutant(row["id"], self.cpp_baseline))
            self.results.append(row)
            self.keep(row)
            print(json.dumps(row), flush=True)
        return True

    def _is_resumed(self, baseline: Path) -> bool:
        """Whether the tests were noted by a stopped run with the same library."""
        return bool(self.args.resume) and baseline.stat().st_mtime > LIBRARY.stat().st_mtime

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test and return whether it passed."""
        self.reports.failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self.reports.failed

    def _run_baseline(self, items: list[pytest.Item]) -> dict[str, Any]:
        """Run all tests without a mutant; a crash is an error of the library or of a test."""

        def work(lines: Any) -> int:
            _silence()
            self.library.use_threads()
            for item, following in zip(items, [*items[1:], None]):
                self.library.clear()
                begin = time.process_time()
                passed = self._run(item, following)
                seconds = time.process_time() - begin
                row = {"passed": passed, "seconds": round(seconds, 3)}
                lines.write(json.dumps([item.nodeid, {**row, "mutants": self.library.reached()}]))
                lines.write("\n")
            return 0

        status, lines = Child(work).wait(self.args.baseline_limit)
        tests = dict(json.loads(line) for line in lines)
        if status != 0:
            print(f"the run without a mutant ended with {status} behind {list(tests)[-1:]}")
            raise pytest.UsageError("no baseline")
        return tests

    def _run_mutant(
        self, mutant: dict[str, Any], by_name: dict[str, pytest.Item]
    ) -> dict[str, Any]:
        number = mutant["id"]
        row = {k: mutant[k] for k in ("id", "file", "line", "rule", "old", "new", "part")}
        tests = [
            (len(t["mutants"]), t["seconds"], name)
            for name, t in self.baseline.items()
            if t["passed"] and number in t["mutants"] and name in by_name
        ]
        if not tests:
            return {**row, "caught": False, "how": "not executed", "tests": 0}
        tests.sort()
        chosen, total = [], 0.0
        for _, seconds, name in tests:
            if total + seconds > self.args.budget and chosen:
                continue
            chosen.append(by_name[name])
            total += seconds

        def work(lines: Any) -> int:
            _silence()
            self.library.choose(number)
            self.library.use_threads()
            for item, following in zip(chosen, [*chosen[1:], None]):
                lines.write(item.nodeid + "\n")
                if not self._run(item, following):
                    return 1
            return 0

        begin = time.monotonic()
        limit = limit_for(total)
        status, lines = Child(work, limit).wait(WAIT * limit)
        if status is None or os.WIFSIGNALED(status) and os.WTERMSIG(status) in STOPPED:
            how = "hang"
        elif os.WIFSIGNALED(status):
            how = "crash at a guard page" if self.args.guard else "crash"
        else:
            how = "failure"
        row["tests"] = len(lines)
        row["seconds"] = round(time.monotonic() - begin, 1)
        if status == 0:
            return {**row, "caught": False, "how": "survived", "possible": len(tests)}
        return {**row, "caught": True, "how": how, "by": lines[-1] if lines else ""}


def summary(rows: list[dict[str, Any]], mutants: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the shares and the survivors; equivalent mutants have a reason in the list."""
    reasons = {m["id"]: m["equivalent"] for m in mutants if "equivalent" in m}
    caught = [r for r in rows if r["caught"]]
    missed = [r for r in rows if not r["caught"]]
    counted = len(rows) - sum(r["id"] in reasons for r in missed)
    families: dict[str, list[int]] = {}
    for r in rows:
        names = r["file"].replace("cpp/ops/cpu/", "cpp/ops/").split("/")[2:-1]
        family = families.setdefault(names[0] if names else "shared", [0, 0])
        family[0] += r["caught"]
        family[1] += 1
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "commit": commit,
        "mutants": len(rows),
        "caught": len(caught),
        "share": round(len(caught) / len(rows), 4),
        "equivalent": len(rows) - counted,
        "share_without_equivalent": round(len(caught) / counted, 4),
        "how": dict(Counter(r["how"] for r in rows)),
        "caught_by_family": {f: f"{c} of {n}" for f, (c, n) in sorted(families.items())},
        "survivors": [
            {
                "id": r["id"],
                "where": f"{r['file']}:{r['line']}",
                "part": r["part"],
                "change": f"{r['old']} -> {r['new']}",
                "how": r["how"],
                **({"equivalent": reasons[r["id"]]} if r["id"] in reasons else {}),
            }
            for r in missed
        ],
    }


def _silence() -> None:
    """Discard the output of a child."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def main() -> int:
    """Run pytest with the plug-in and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", default=str(ROOT / "tests" / "python" / "unit"))
    parser.add_argument("--mutants", type=Path, default=HERE / "mutants.json")
    parser.add_argument("--only", default="", help="numbers of mutants, with commas")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests per mutant")
    parser.add_argument("--baseline", type=Path, default=TARGET / "baseline.json")
    parser.add_argument("--keep-baseline", action="store_true", help="tests did not change")
    parser.add_argument("--baseline-limit", type=float, default=3600.0)
    parser.add_argument("--guard", action="store_true", help="guard pages, survivors only")
    parser.add_argument("--survivors", action="store_true", help="survivors of the last run only")
    parser.add_argument("--resume", action="store_true", help="mutants without a result only")
    parser.add_argument("--output", type=Path, help="summary; the rows stay in build/mutation")
    args = parser.parse_args()
    sys.path.insert(0, str(TARGET / "python"))
    mutants = json.loads(args.mutants.read_text())
    rows_file = args.baseline.with_suffix(".rows.json")
    again = args.guard or args.survivors
    stored = json.loads(rows_file.read_text()) if again or args.resume else []
    listed = {(m["id"], m["file"], m["part"], m["new"]) for m in mutants}
    rows = {r["id"]: r for r in stored if (r["id"], r["file"], r["part"], r["new"]) in listed}
    if again:
        mutants = [m for m in mutants if m["id"] in rows and not rows[m["id"]]["caught"]]
    elif args.resume:
        mutants = [m for m in mutants if m["id"] not in rows]

    def keep(row: dict[str, Any]) -> None:
        """Write all rows; a survivor replaces no existing row."""
        if args.only:
            return
        if row["caught"] or row["id"] not in rows:
            rows[row["id"]] = row
        ordered = sorted(rows.values(), key=lambda r: int(r["id"]))
        rows_file.write_text(json.dumps(ordered, indent=1))

    names = None
    if args.guard:
        alive = {m["id"] for m in mutants}
        tests = json.loads(args.baseline.read_text())["python"]
        names = {n for n, t in tests.items() if alive & set(t["mutants"])}
        os.environ["MXLITE_CPU_GUARD_PAGES"] = "1"
        args.baseline = args.baseline.with_suffix(".guard.json")
    if args.only:
        wanted = {int(n) for n in args.only.split(",")}
        mutants = [m for m in mutants if m["id"] in wanted]
    import mxlite

    if TARGET not in Path(mxlite.__file__).resolve().parents:
        raise SystemExit(f"mxlite was imported from {mxlite.__file__}, not from {TARGET}")
    plugin = Mutation(args, mutants, names, keep)
    code = pytest.main(
        [
            args.tests,
            "-o",
            "addopts=",
            *(
                w
                for n in ("cacheprovider", "terminal", "capture", "faulthandler")
                for w in ("-p", f"no:{n}")
            ),
        ],
        plugins=[plugin, plugin.reports],
    )
    caught = sum(r["caught"] for r in plugin.results)
    print(f"{caught} of {len(plugin.results)} mutants caught, pytest code {int(code)}")
    if args.output and not args.only:
        text = summary(list(rows.values()), json.loads(args.mutants.read_text()))
        args.output.write_text(json.dumps(text, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
