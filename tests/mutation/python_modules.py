"""Runs mutmut on modules of the package that hold logic of their own, and writes the shares.

    python tests/mutation/python_modules.py --output tests/mutation/results/python.json
    python tests/mutation/python_modules.py --minutes 20         # stops after 20 minutes; continue
    with --resume python tests/mutation/python_modules.py --survivors          # with changed tests

Needs the built package in ``python/mxlite`` and mutmut (``pip install --target build/mutmut_env
mutmut==3.8.1``). mutmut works on a copy of package and tests in ``build/mutmut`` and writes the
result of each mutant there, which ``--resume`` and ``--survivors`` keep.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "build" / "mutmut"
MODULES = (
    "metric/base.py metric/classification.py metric/regression.py metric/agreement.py"
    " lr_scheduler.py gluon/data/sampler.py"
).split()
TESTS = (
    "unit/test_metric.py unit/test_metric_options.py unit/test_metric_checks.py"
    " unit/test_lr_scheduler.py gluon/test_data.py"
).split()
CAUGHT = {"killed", "timeout", "segfault", "suspicious", "caught by type check"}
OPEN = {"not checked", "check was interrupted by user"}


def prepare(tests: Path, keep: bool) -> None:
    """Copy package and tests and write mutmut's settings; ``keep`` the results that are there."""
    copies = ("mxlite", "tests", "mutants/tests") if keep else (".",)
    for name in copies:
        shutil.rmtree(TARGET / name, ignore_errors=True)
    shutil.copytree(
        ROOT / "python" / "mxlite", TARGET / "mxlite", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(tests, TARGET / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    settings = {
        "source_paths": ["mxlite"],
        "only_mutate": [f"mxlite/{m}" for m in MODULES],
        "pytest_add_cli_args_test_selection": [
            f"tests/python/{t}" for t in TESTS if (tests / "python" / t).exists()
        ],
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (TARGET / "pyproject.toml").write_text("[tool.mutmut]\n" + "\n".join(lines) + "\n")


def statuses(environment: dict[str, str]) -> dict[str, str]:
    """Return what became of each mutant, by its name."""
    text = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        cwd=TARGET,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return dict(re.findall(r"^\s*(\S+): (.+?)\s*$", text, re.MULTILINE))


def summary(found: dict[str, str]) -> dict[str, object]:
    """Return the share of caught mutants by module, and the names of the others."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for name, status in found.items():
        counts[name.split(".x")[0]]["caught" if status in CAUGHT else status] += 1
        if status not in CAUGHT:
            survivors.append(f"{name.replace(chr(0x1C1), '.')}: {status}")
    caught = sum(c["caught"] for c in counts.values())
    return {
        "mutants": len(found),
        "caught": caught,
        "share": round(caught / max(len(found), 1), 4),
        "modules": {m: dict(sorted(c.items())) for m, c in sorted(counts.items())},
        "survivors": sorted(survivors),
    }


def run_mutmut(names: list[str], environment: dict[str, str], jobs: int, minutes: float) -> None:
    """Run mutmut on mutants, all where none is named; after ``minutes`` the rest stays open."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs), *names]
    with (TARGET / "mutmut.log").open("w") as log:
        process = subprocess.Popen(command, cwd=TARGET, env=environment, stdout=log)
        try:
            code = process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            code = process.wait()
    if code != 0:
        raise SystemExit(f"mutmut ended with {code}; see {TARGET / 'mutmut.log'}")


def main() -> None:
    """Run mutmut in its own folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    parser.add_argument("--mutmut", type=Path, default=ROOT / "build" / "mutmut_env")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="stop after these")
    parser.add_argument("--resume", action="store_true", help="only mutants without a result")
    parser.add_argument("--survivors", action="store_true", help="only mutants that survived")
    args = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(args.mutmut)}
    prepare(args.tests, keep=args.resume or args.survivors)
    names = []
    if args.survivors:
        names = [n for n, status in statuses(environment).items() if status not in CAUGHT | OPEN]
    run_mutmut(names, environment, args.jobs, args.minutes)
    after = statuses(environment)
    found = summary(after)
    left = sum(status in OPEN for status in after.values())
    print(f"{found['caught']} of {found['mutants']} mutants caught, {left} not run")
    if left:
        raise SystemExit("the figures are not complete; run again with --resume")
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
