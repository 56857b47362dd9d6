#!/usr/bin/env python3
"""Finds comments that no sentence can begin like, and pictures where a field term exists.

A comment is a sentence about the code below it, so it does not begin with "Of" and go on from a
name. Usage: ``check_language.py``; prints the places and ends with exit code 1 if there are any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {".cc", ".h", ".cu", ".cuh", ".py"}
DOCUMENTS = {".md"}
FRAGMENT = re.compile(r'^\s*(?://+!?<?|#|""")\s*(Of|Whose|Nor|Neither)\b')
# Words on the left are not used; the right side says what to write.
PICTURES = {
    r"\bnever without\b": "say what is kept, without a second negation",
    r"\bwho is further on\b": "ranks that are already inside the collective",
}


def problems(path: Path) -> list[str]:
    """Return the places of a file."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path.relative_to(ROOT)}:{number}"
        if path.suffix in SOURCES and (match := FRAGMENT.match(line)):
            found.append(f"{place}: a comment begins with {match[1]!r}; write a sentence")
        for picture, better in PICTURES.items():
            if re.search(picture, line) and path != Path(__file__).resolve():
                found.append(f"{place}: {line.strip()!r}: {better}")
    return found


def main() -> int:
    """Check all files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    suffixes = SOURCES | DOCUMENTS
    found = [
        p for path in paths if path.suffix in suffixes and path.exists() for p in problems(path)
    ]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
