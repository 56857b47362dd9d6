"""List what each step of the first run on a GPU should give, or compare results with it.

    python3 tools/gpu/expected.py                        # all steps: commands and expectations
    python3 tools/gpu/expected.py --results FOLDER       # what FOLDER/<step>.json meets
    python3 tools/gpu/expected.py --results FOLDER 5_kernels

With results the exit status is 1 if an expectation is not met. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
Part = dict[str, Any]
# The result of a check: whether it is met, and the figure that shows this. None means that no
# figure can be compared.
Finding = tuple[bool, str]


@dataclass
class Expectation:
    """One expected result of a part of a step."""

    step: str
    part: str
    text: str
    check: Callable[[Part], Finding | None]


def is_cut(part: Part) -> bool:
    """Return whether a time limit ended the part, which then neither passed nor failed."""
    return part["exit_status"] in (124, 137)


def ends_well(part: Part) -> Finding:
    """Compare the exit status with 0."""
    return part["exit_status"] == 0, f"exit status {part['exit_status']}"


def all_tests_pass(part: Part) -> Finding:
    """Compare the number of failed tests with 0. A run without tests also fails."""
    tests = part.get("tests")
    if tests is None:
        return False, "no junit file"
    found = f"{tests['passed']} passed, {len(tests['failed'])} failed, {tests['skipped']} skipped"
    # A run that is cut short does not count as failed.
    ended = part["exit_status"] == 0 or is_cut(part)
    return ended and tests["passed"] > 0 and not tests["failed"], found


def copies_at_least(copy: str, least: float) -> Callable[[Part], Finding | None]:
    """Return a check of a row of copies.py, for its largest size."""

    def check(part: Part) -> Finding | None:
        rows = [row for row in part.get("figures", []) if row["copy"] == copy]
        if not rows:
            return None
        rate = max(rows, key=lambda row: float(row["mebibytes"]))["gb_per_second"]
        return rate >= least, f"{rate:.1f} GB/s"

    return check


def rates(part: Part) -> dict[str, float]:
    """Return the examples per second of train_step.py by system."""
    figures = part.get("figures") or {}
    return {entry["system"]: entry["median"] for entry in figures.get("results", [])}


def faster_than_torch(factor: float) -> Callable[[Part], Finding | None]:
    """Return a check of train_step.py against torch.compile in the same run."""

    def check(part: Part) -> Finding | None:
        found = rates(part)
        if "mxlite:hybrid" not in found or "torch:compile" not in found:
            return None
        ratio = found["mxlite:hybrid"] / found["torch:compile"]
        return ratio >= factor, f"{ratio:.2f} times ({found['mxlite:hybrid']:.0f} images/s)"

    return check


def kernels_keep_up(part: Part) -> Finding | None:
    """Compare each row of kernels.py with PyTorch's."""
    rows = [row for row in part.get("figures", []) if row.get("torch")]
    if not rows:
        return None
    slow = [row for row in rows if row["mxlite"] < 0.9 * row["torch"]]
    names = ", ".join(f"{row['name']} {row['mxlite'] / row['torch']:.2f}" for row in slow)
    return not slow, names or f"{len(rows)} rows"


def all_rows_run(part: Part) -> Finding | None:
    """Name the rows of kernels.py that failed."""
    failed = [row["name"] for row in part.get("figures", []) if "error" in row]
    if failed:
        return False, "failed: " + ", ".join(failed)
    return ends_well(part)


def all_primitives_are_ok(part: Part) -> Finding | None:
    """Name the lines of smoke.py that are not ok."""
    lines = part.get("figures", [])
    wrong = [line["name"] for line in lines if line["status"] != "ok"]
    return not wrong and bool(lines), ", ".join(wrong) or f"{len(lines)} primitives"


def step_is_replayed(part: Part) -> Finding | None:
    """Look for replays of CUDA graphs in a profile."""
    graphs = (part.get("figures") or {}).get("graphs")
    if not graphs:
        return None
    return graphs["replayed"] > 0, f"{graphs['recorded']} recorded, {graphs['replayed']} replayed"


EXPECTED = [
    Expectation("1_smoke", "versions", "a GPU, libraries that fit, a product of 64", ends_well),
    Expectation("1_smoke", "smoke", "all primitives agree with NumPy", all_primitives_are_ok),
    Expectation("2_operators", "table", "every row of the operator table passes", all_tests_pass),
    Expectation("3_networks", "graphs_0", "networks agree with the CPU, no graphs", all_tests_pass),
    Expectation("3_networks", "graphs_1", "the same with CUDA graphs", all_tests_pass),
    Expectation("4_resnet50", "profile", "a training step, its loss finite", ends_well),
    Expectation("4_resnet50", "profile", "steps are replayed CUDA graphs", step_is_replayed),
    Expectation("4_resnet50", "training", "all systems train to the same losses", ends_well),
    Expectation("5_bert", "profile", "a training step of BERT, its loss finite", ends_well),
    Expectation("5_bert", "profile", "steps are replayed CUDA graphs", step_is_replayed),
    Expectation("6_kernels", "table", "all rows run", all_rows_run),
    Expectation(
        "6_kernels",
        "table",
        "each at least 0.9 times PyTorch's rate (only with PyTorch)",
        kernels_keep_up,
    ),
    Expectation("6_kernels", "copies", "all copies are right", ends_well),
    Expectation(
        "6_kernels",
        "copies",
        "256 MiB within the GPU at 500 GB/s or more",
        copies_at_least("within the GPU", 500),
    ),
    Expectation(
        "6_kernels",
        "copies",
        "256 MiB to numpy at 1 GB/s or more",
        copies_at_least("GPU to numpy", 1),
    ),
    *(
        Expectation("red", f"memcheck_{number}", "the memory checker finds nothing", ends_well)
        for number in (1, 2, 3)
    ),
    Expectation(
        "green",
        "training",
        "at least 1.1 times torch.compile (only with PyTorch)",
        faster_than_torch(1.1),
    ),
    Expectation("green", "counters", "counters of five kernels (only with ncu)", ends_well),
]


def steps() -> list[Path]:
    """Return the scripts of the steps in their order."""
    return [*sorted(HERE.glob("[0-9]_*.sh")), HERE / "red.sh", HERE / "green.sh"]


def parts_of(script: Path) -> Iterator[tuple[str, str]]:
    """Yield name and seconds of the parts in a script."""
    yield from re.findall(r"^ *part \"?([\w$]+)\"? \$?(\w+)", script.read_text(), re.M)


def purpose(script: Path) -> str:
    """Return the comment at the top of a script."""
    lines = script.read_text().splitlines()[1:]
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line[1:].strip())
    return " ".join(comment)


def list_steps() -> None:
    """Print every step with its command and its expected results."""
    print(
        "First, where the sources can be built: tools/gpu/pack.sh. Then, on a machine with a GPU,\n"
        "all steps in so many seconds (tools/gpu/all.sh SECONDS), or one by one:"
    )
    for script in steps():
        print(f"\ntools/gpu/{script.name}    {purpose(script)}")
        limits = ", ".join(f"{name} {seconds} s" for name, seconds in parts_of(script))
        print(f"  parts with their limits: {limits}")
        for e in EXPECTED:
            if e.step == script.stem:
                print(f"  {e.part}: {e.text}")


def compare(results: Path, wanted: list[str]) -> bool:
    """Print met expectations and return whether all comparable expectations are met."""
    good = True
    for step in wanted:
        path = results / f"{step}.json"
        if not path.exists():
            print(f"{step}: not run")
            good = False
            continue
        report = json.loads(path.read_text())
        parts = {part["name"]: part for part in report["parts"]}
        print(f"{step} on {report['device'].get('name')}, {report['seconds']} s")
        for e in EXPECTED:
            if e.step != step:
                continue
            finding = e.check(parts[e.part]) if e.part in parts else None
            if finding is None:
                print(f"  --      {e.part}: {e.text}: nothing to compare")
                continue
            met, found = finding
            cut = is_cut(parts[e.part])
            if cut:
                found += "; cut short, so incomplete"
            verdict = "met" if met else "NOT MET"
            if cut and (met or e.check is ends_well):
                verdict = "CUT"
            good &= verdict != "NOT MET"
            print(f"  {verdict:<7} {e.part}: {e.text}: {found}")
    return good


def main() -> int:
    """List or compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder with the JSON files of the steps")
    names = [script.stem for script in steps()]
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(names))
    options = parser.parse_args()
    unknown = sorted(set(options.steps) - set(names))
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(names)}")
    if options.results is None:
        list_steps()
        return 0
    return 0 if compare(options.results, options.steps or names) else 1


if __name__ == "__main__":
    sys.exit(main())
