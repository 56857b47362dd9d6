"""Print the results of a run of all.sh in at most about 150 lines, and the next call.

python3 tools/gpu/summary.py RESULTS
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import expected
from failures import failures

MOST_GROUPS = 15


def kind(message: str) -> str:
    """Return the start of a message without numbers, which is the key of a group of failures."""
    return re.sub(r"0x[0-9a-f]+|[0-9.]+", "#", message)[:120]


def print_failures(results: Path) -> int:
    """Print the failed tests, grouped by similar messages, and return their number."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted(results.glob("*.xml")):
        for name, message in failures(path).items():
            groups[kind(message)].append((name, message))
    ordered = sorted(groups.values(), key=len, reverse=True)
    for group in ordered[:MOST_GROUPS]:
        print(f"  {len(group)} failed like {group[0][0]}\n      {group[0][1][:300]}")
    if len(ordered) > MOST_GROUPS:
        print(f"  and {len(ordered) - MOST_GROUPS} other kinds of failure")
    return sum(len(group) for group in ordered)


def figures_of(part: dict[str, Any]) -> list[str]:
    """Return the lines of a part's figures: smoke lines, speeds, rows of kernels and copies."""
    figures = part.get("figures")
    if isinstance(figures, dict) and "examples_per_second" in figures:
        rate, step = figures["examples_per_second"], 1e3 * figures["step_seconds"]
        return [f"{figures['network']}: {step:.2f} ms a step, {rate} examples/s"]
    if isinstance(figures, dict):
        return [f"{name}: {rate:.0f} examples/s" for name, rate in expected.rates(part).items()]
    lines = []
    for row in figures or []:
        if "status" in row:
            lines.append(f"{row['status']:<7} {row['name']}: {row['message']}")
            lines += [f"          {note}" for note in row["notes"]]
        elif "gb_per_second" in row:
            lines.append(f"{row['copy']} {row['mebibytes']} MiB: {row['gb_per_second']} GB/s")
        elif "error" in row:
            lines.append(f"{row['name']}: {row['error']}")
        else:
            theirs = f", PyTorch {row['torch']:.1f}" if row.get("torch") else ""
            lines.append(f"{row['name']}: {row['mxlite']:.1f} {row['unit']}{theirs}")
    return lines


def main() -> None:
    """Print the summary."""
    results = Path(sys.argv[1])
    cut, red = [], False
    reports = [json.loads(path.read_text()) for path in sorted(results.glob("[a-z0-9]*.json"))]
    for report in reports:
        print(f"== {report['step']} on {report['device'].get('name')}, {report['seconds']} s")
        for part in report["parts"]:
            status = part["exit_status"]
            text = "passed" if status == 0 else f"failed with exit status {status}"
            text = "cut short" if expected.is_cut(part) else text
            tests = part.get("tests")
            if tests:
                text += f"; {tests['passed']} tests passed, {len(tests['failed'])} failed"
            print(f"  {part['name']}: {text}, {part['seconds']} s")
            for line in figures_of(part):
                print(f"    {line}")
            if expected.is_cut(part):
                cut.append(f"{report['step']}/{part['name']}")
            else:
                red |= status != 0
            red |= bool(tests and tests["failed"])
    print("== failed tests")
    count = print_failures(results)
    print(f"  {count} in all")
    if cut:
        print(f"== cut short, so their results are incomplete: {', '.join(cut)}")
    if not reports:
        print("== no step has run: its output says why")
    elif count:
        print("== next: tools/gpu/all.sh 200 red:1")
    elif red:
        print("== next: read the parts that failed; no test failed, so red.sh has nothing to check")
    else:
        print("== next: tools/gpu/all.sh 270 green:1")


if __name__ == "__main__":
    main()
