#!/usr/bin/env python3
"""Finds comments that no sentence can begin like, pictures, and names that mean two things.

A comment is a sentence about the code below it, or a noun phrase beside a declaration, so it does
not begin with "of" and continue a name, nor with "what" or "how" and leave out the verb.
Usage: ``check_language.py``; prints the places and ends with exit code 1 if there are any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP = {".cc", ".h", ".cu", ".cuh"}
SOURCES = CPP | {".py"}
DOCUMENTS = {".md", ".sh", ".cmake"}
FRAGMENTS = (
    re.compile(r'^\s*(?://+!?<?|#|""")\s*(Of|Whose|Nor|Neither|What|How|Which|Who|Why)\b'),
    re.compile(r"(?<=\S)\s+(?://+!?<?|#) (of|whose|nor) "),  # beside code
    re.compile(r"^ {4,}(Of) [^=]*$"),  # the description of a parameter
)
QUESTION = re.compile(
    r'(?:^\s*(?://+|#)|") ?((?:Is|Are|Was|Has|Have|Do|Does|Did|Can|May|Would|Should) [a-z][^"?]*\?)'
)
# The words on the left must not be used. The text on the right says what to write instead.
PICTURES = {
    r"\bnever without\b": "say what is kept, without a second negation",
    r"\bwho is further on\b": "ranks that are already inside the collective",
    r"\bdoors?\b": "the mxnet import alias; the accelerator plug-in interface",
    r"\bcellars?\b": "the lower layers",
    r"\brooms\b": "the layers or folders",
    r"\bcitizens?\b": "say which checks apply",
    r"\bhouseholds?\b": "the host, the process",
    r"\b(lend|lends|lent)\b": "share, pass a handle of",
    r"\bsomebody\b": "the thread, rank, process or library that is meant",
    r"\beverybody\b": "all threads, ranks or processes",
    r"\b(goes|go|going) on\b": "continue",
    r"\banew\b": "again",
    r"\bin vain\b": "say what has no effect",
    r"\blast words\b": "the output before the end",
    r"\bwhat is there\b": "the existing value, file or array",
    r"\bhand(s|ed)? over to\b": "pass to",
    r"\btold\b": "inferred, given, reported: say who gets which fact",
    r"\b(at|from) the begin\b": "start, beginning",
}
ANY_PICTURE = re.compile("|".join(PICTURES), re.IGNORECASE)
# Each of these names is one class or struct of the C++ sources.
ONE_CLASS = {"Channel", "Executor", "Lane", "Plan", "Replay", "Scheduler", "Segment", "Slot"}
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: :.*| \{.*)$")
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: :[^;{]*)?(?: ?\{|$)")
NAMESPACE = re.compile(r"^(?:namespace ([\w:]+) \{|\}  // namespace)")


def problems(name: str, text: str) -> list[str]:
    """Return the problems of a file, each with a proposal."""
    suffix = Path(name).suffix
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{name}:{number}"
        if suffix in SOURCES:
            for fragment in FRAGMENTS[: 3 if suffix == ".py" else 2]:
                if match := fragment.search(line):
                    found.append(f"{place}: a comment begins with {match[1]!r}; name its subject")
            if match := QUESTION.search(line):
                found.append(f"{place}: {match[1]!r} asks; write 'Returns whether ...'")
        if ANY_PICTURE.search(line):
            found += [
                f"{place}: {line.strip()!r}: {better}"
                for picture, better in PICTURES.items()
                if re.search(picture, line, re.IGNORECASE)
            ]
    return found


def shared_names(texts: dict[str, str]) -> list[str]:
    """Return the names of `ONE_CLASS` that several C++ files define."""
    places = defaultdict(list)
    for name, text in texts.items():
        if name.startswith("cpp/") and Path(name).suffix in CPP:
            for number, line in enumerate(text.splitlines(), 1):
                if (match := CLASS.match(line)) and match[1] in ONE_CLASS:
                    places[match[1]].append(f"{name}:{number}")
    return [
        f"{', '.join(where)}: {name} names {len(where)} classes; rename all but one"
        for name, where in places.items()
        if len(where) > 1
    ]


def doubled_types(texts: dict[str, str]) -> list[str]:
    """Return types that two headers define under one name, so that no file can include both."""
    places = defaultdict(list)
    for name, text in texts.items():
        if Path(name).suffix not in {".h", ".cuh"} or not name.startswith("cpp/"):
            continue
        spaces: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            if space := NAMESPACE.match(line):
                spaces = [*spaces, space[1]] if space[1] else spaces[:-1]
            elif match := TYPE.match(line):
                places["::".join([*spaces, match[1]])].append(f"{name}:{number}")
    return [
        f"{', '.join(where)}: {full} is defined {len(where)} times; include one header in the other"
        for full, where in places.items()
        if len(where) > 1
    ]


def main() -> int:
    """Check all files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    own = {"tools/check_language.py", "tests/python/unit/test_lint_scripts.py"}
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in listed.stdout.split("\0")
        if Path(name).suffix in SOURCES | DOCUMENTS and name not in own and (ROOT / name).exists()
    }
    found = [problem for name, text in texts.items() for problem in problems(name, text)]
    found += shared_names(texts) + doubled_types(texts)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
