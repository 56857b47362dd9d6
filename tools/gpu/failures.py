"""Print the test ids of the first failures of a junit file.

python3 tools/gpu/failures.py FILE COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def failures(path: Path) -> dict[str, str]:
    """Return a map of failed tests to messages, which is empty without a file."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            file = (case.get("classname") or "").replace(".", "/") + ".py"
            message = " ".join((problem.get("message") or "").split())
            found[f"{file}::{case.get('name')}"] = message
    return found


if __name__ == "__main__":
    print("\n".join(list(failures(Path(sys.argv[1])))[: int(sys.argv[2])]))
