"""Checks titles of commits after BASE: ``area: imperative``, one subject, at most 72 characters.

A shallow clone that does not reach back to BASE is checked as far as it goes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = "5c1f08d207ff49ddae596c8f9d998048399943f3"
LONGEST = 72

# Verbs that look like another form of a verb.
IMPERATIVE = frozenset(
    "alias bias bring embed exceed feed focus need ping precede proceed seed shed speed "
    "string succeed".split()
)


# Words that begin a statement, not a command.
NO_VERBS = frozenset("a all an each every no one some that the this what".split())


def problems(title: str) -> list[str]:
    """Return the problems of a title as a text."""
    found = []
    if len(title) > LONGEST:
        found.append(f"{len(title)} characters, at most {LONGEST} are allowed")
    if ";" in title:
        found.append("a ';': one commit has one subject")
    area, colon, rest = title.partition(": ")
    if not colon or not re.fullmatch(r"[a-z0-9_][\w./+-]*(, [\w./+-]+)*", area):
        found.append("no area: 'io: read ahead' is how a title begins")
        return found
    verb = re.split(r"[^\w-]", rest, maxsplit=1)[0].lower()
    other_form = re.search(r"(?:ing|ed|[^s]s)$", verb) and verb not in IMPERATIVE
    if not verb or other_form or verb in NO_VERBS:
        found.append(f"{verb!r} after the area: an imperative such as 'add' or 'refuse' expected")
    return found


def _git(*arguments: str) -> str | None:
    """Return the output of git, or None if git fails."""
    answer = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout if answer.returncode == 0 else None


def main() -> int:
    """Check all commits after BASE, print the problems and return the exit code."""
    known = _git("merge-base", "--is-ancestor", BASE, "HEAD") is not None
    span = f"{BASE}..HEAD" if known else "HEAD"
    listed = _git("log", "--no-merges", "--format=%h %s", span)
    if listed is None:
        print("no git history here, no titles to check")
        return 0
    commits = [line.partition(" ") for line in listed.splitlines()]
    found = [f"{name} {title!r}: {p}" for name, _, title in commits for p in problems(title)]
    print("\n".join(found) if found else f"{len(commits)} commit titles")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
