"""Print the lines added and removed by folder: ``tools/line_changes.py [base]``.

The base is the last release tag unless one is given. Stubs and result files are not counted. A
folder that has grown by more than a tenth is marked: CONTRIBUTING.md asks for the reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath

COUNTED = {".py", ".cc", ".h", ".cu", ".sh", ".md"}


def git(*arguments: str) -> str:
    """Return the output of git, or an empty text if git fails."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout


def folder_of(path: str) -> str:
    """Return the first two folders of a path, which are the units of the table."""
    return "/".join(PurePosixPath(path).parts[:-1][:2]) or "."


def main() -> None:
    """Print the table."""
    base = sys.argv[1] if len(sys.argv) > 1 else git("describe", "--tags", "--abbrev=0").strip()
    if not base:
        print("lines by folder: no release tag to compare with; name a commit as argument")
        return
    added, removed, before = Counter[str](), Counter[str](), Counter[str]()
    for line in git("diff", "--numstat", "--no-renames", base).splitlines():
        plus, minus, path = line.split("\t")
        if PurePosixPath(path).suffix in COUNTED:
            added[folder_of(path)] += int(plus)
            removed[folder_of(path)] += int(minus)
    empty_tree = git("hash-object", "-t", "tree", "/dev/null").strip()
    for line in git("diff", "--numstat", "--no-renames", empty_tree, base).splitlines():
        plus, _, path = line.split("\t")
        if PurePosixPath(path).suffix in COUNTED:
            before[folder_of(path)] += int(plus)
    print(f"lines by folder since {base}:")
    for folder in sorted(added.keys() | removed.keys()):
        change = added[folder] - removed[folder]
        mark = "  grew by more than a tenth" if change > before[folder] / 10 else ""
        print(f"{folder:32}{added[folder]:+8,}{-removed[folder]:+8,}{change:+8,}{mark}")
    print(f"{'in all':32}{added.total():+8,}{-removed.total():+8,}")


if __name__ == "__main__":
    main()
