"""Print the test ids of the first failures of a junit file.

python3 tools/gpu/failures.py FILE COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main() -> None:
    """Print the ids."""
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    if not path.exists():
        return
    failed = []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            file = (case.get("classname") or "").replace(".", "/") + ".py"
            failed.append(f"{file}::{case.get('name')}")
    print("\n".join(dict.fromkeys(failed[:count])))


if __name__ == "__main__":
    main()
