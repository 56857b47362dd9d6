"""Runs mutmut on modules of the package that hold logic of their own, and writes the shares.

    python tests/mutation/python_modules.py --output tests/mutation/results/python.json

Needs the built package in ``python/mxlite`` and mutmut (``pip install --target build/mutmut_env
mutmut==3.8.1``). mutmut works on a copy of package and tests in ``build/mutmut``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
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
    "unit/test_metric.py unit/test_metric_options.py unit/test_lr_scheduler.py gluon/test_data.py"
).split()
CAUGHT = {"killed", "timeout", "segfault", "suspicious", "caught by type check"}


def prepare(tests: Path) -> None:
    """Copy package and tests and write mutmut's settings."""
    shutil.rmtree(TARGET, ignore_errors=True)
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


def results(environment: dict[str, str]) -> dict[str, object]:
    """Return the share of caught mutants by module, and the names of the others."""
    text = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        cwd=TARGET,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for name, status in re.findall(r"^\s*(\S+): (.+?)\s*$", text, re.MULTILINE):
        module = name.split(".x")[0]
        counts[module]["caught" if status in CAUGHT else status] += 1
        if status not in CAUGHT:
            survivors.append(f"{name.replace(chr(0x1C1), '.')}: {status}")
    total = sum(sum(c.values()) for c in counts.values())
    caught = sum(c["caught"] for c in counts.values())
    return {
        "mutants": total,
        "caught": caught,
        "share": round(caught / max(total, 1), 4),
        "modules": {m: dict(c) for m, c in sorted(counts.items())},
        "survivors": sorted(survivors),
    }


def main() -> None:
    """Run mutmut in its own folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    parser.add_argument("--mutmut", type=Path, default=ROOT / "build" / "mutmut_env")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    prepare(args.tests)
    environment = {**os.environ, "PYTHONPATH": str(args.mutmut)}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1"]
    with (TARGET / "mutmut.log").open("w") as log:
        code = subprocess.run(command, cwd=TARGET, env=environment, stdout=log).returncode
    if code != 0:
        raise SystemExit(f"mutmut ended with {code}; see {TARGET / 'mutmut.log'}")
    found = results(environment)
    print(f"{found['caught']} of {found['mutants']} mutants caught")
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
