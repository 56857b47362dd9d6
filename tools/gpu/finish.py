"""Write the report of a step of the first run on a GPU: device, versions, parts, tests.

python3 tools/gpu/finish.py STEP RESULTS SECONDS
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from failures import failures


def output(*command: str) -> str:
    """Return the output of a command, or an empty text if the command does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def device() -> dict[str, Any]:
    """Return the properties of the first GPU according to nvidia-smi."""
    query = "name,driver_version,memory.total,compute_cap"
    text = output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader", "--id=0")
    if not text:
        return {"name": "none: a stand-in on the CPU"}
    return dict(zip(query.split(","), text.split(", ")))


def tests(path: Path) -> dict[str, Any]:
    """Return the counts of a junit file."""
    failed, cases = list(failures(path)), list(ElementTree.parse(path).iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {
        "passed": len(cases) - len(failed) - skipped,
        "failed": failed,
        "skipped": skipped,
    }


def main() -> None:
    """Write the report of a step."""
    step, results, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    parts = []
    for line in (results / f".{step}.parts").read_text().splitlines():
        name, status, took = line.split("\t")
        parts.append({"name": name, "exit_status": int(status), "seconds": int(took)})
    report = {"step": step, "device": device(), "seconds": seconds, "parts": parts}
    # Figures that a part wrote as <step>.<part>.json become one file with this report.
    for part in parts:
        figures = results / f".{step}.{part['name']}.json"
        if figures.exists():
            try:
                part["figures"] = json.loads(figures.read_text())
                figures.unlink()
            except ValueError as error:  # the part ended while it wrote; its file is kept
                part["figures_error"] = str(error)
        junit = results / f"{step}.{part['name']}.xml"
        if junit.exists():
            part["tests"] = tests(junit)
    (results / f"{step}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
