"""Builds one libmxlite.so that holds all mutants of ``mutants.json``.

    python tests/mutation/build.py            # needs a finished build in build/dev

Every changed part becomes ``mxlite_mutated(N) ? mutant : original`` in a copy of its file below
``build/mutation``; the sources stay as they are. Only files with mutants, and those that include
them, are compiled again; the rest of the library is linked from ``build/dev``. The package with
the new library is ``build/mutation/python/mxlite``. A mutant that does not compile ends the build
with its number, unless ``--drop`` removes it from the list.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import rules
import statements
from pick import MUTANTS, ROOT, includers

BUILD = ROOT / "build" / "dev"
TARGET = ROOT / "build" / "mutation"
SLOTS = 1024
SWITCH_HEADER = f"""
#pragma once
extern "C" {{
extern int mxlite_mutant;
extern unsigned char mxlite_reached[{SLOTS}];
}}
inline bool mxlite_mutated(int number) {{
  mxlite_reached[number] = 1;
  return mxlite_mutant == number;
}}
"""
SWITCH_SOURCE = f"""
#include <cstdio>
#include <cstdlib>
extern "C" {{
int mxlite_mutant = 0;
unsigned char mxlite_reached[{SLOTS}] = {{}};
void mxlite_set_mutant(int number) {{ mxlite_mutant = number; }}
}}
namespace {{
struct Environment {{
  Environment() {{
    if (const char* number = std::getenv("MXLITE_MUTANT")) mxlite_mutant = std::atoi(number);
  }}
  ~Environment() {{
    const char* const path = std::getenv("MXLITE_REACHED");
    FILE* const file = path ? std::fopen(path, "wb") : nullptr;
    if (!file) return;
    std::fwrite(mxlite_reached, 1, sizeof(mxlite_reached), file);
    std::fclose(file);
  }}
}} environment;
}}
"""


def find_part(source: str, mutant: dict[str, Any]) -> statements.Part:
    """Return the part that a mutant changes: the same text, nearest to the noted line."""
    found = [
        p
        for p in statements.parts(statements.tokenize(source))
        if p.kind == mutant["kind"] and source[p.start : p.end] == mutant["part"]
    ]
    if not found:
        raise SystemExit(
            f"mutant {mutant['id']}: {mutant['file']}:{mutant['line']} no longer holds "
            f"{mutant['part']!r}; run pick.py and take the new mutants"
        )
    return min(
        found,
        key=lambda p: abs(source.count("\n", 0, p.start + mutant["at"]) + 1 - mutant["line"]),
    )


def mutated_source(source: str, mutants: list[dict[str, Any]]) -> str:
    """Return the text of a file with all its mutants; every line keeps its number."""
    edits = []
    for m in mutants:
        part = find_part(source, m)
        at = part.start + m["at"]
        change = rules.Change(m["rule"], at, at + len(m["old"]), m["new"])
        text = rules.schema(source, part, change, m["id"])
        text = re.sub(r"//[^\n]*", "", text).replace("\n", " ")
        edits.append((part.start, part.end, text + "\n" * m["part"].count("\n")))
    edits.sort(reverse=True)
    end = len(source)
    for start, stop, text in edits:
        if stop > end:
            raise SystemExit(f"two mutants overlap in {mutants[0]['file']}")
        source = source[:start] + text + source[stop:]
        end = start
    return source


def commands() -> tuple[dict[str, str], str]:
    """Return the compile commands of libmxlite.so by source file, and its link command."""
    lines = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "commands", ROOT / "python" / "mxlite" / "libmxlite.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    compile_lines = {}
    for line in lines:
        if match := re.search(r" -c (\S+\.cc)$", line):
            compile_lines[str(Path(match[1]).relative_to(ROOT))] = line
    return compile_lines, next(line for line in lines if "-soname,libmxlite.so" in line)


def compile_command(line: str, name: str, optimize: str) -> list[str]:
    """Return the command that compiles a file's copy into the mutation folder."""
    words = shlex.split(line)
    copy = TARGET / "source" / name
    words[words.index("-c") + 1] = str(copy if copy.exists() else ROOT / name)
    words[words.index("-o") + 1] = str(object_file(name))
    for option in ("-MT", "-MF"):
        at = words.index(option)
        del words[at : at + 2]
    words = [w for w in words if w not in ("-MD", "-Werror", "-O3")]
    first = next(i for i, w in enumerate(words) if w.startswith("-I"))
    extra = [f"-I{TARGET / 'source'}", optimize, "-w", "-include", str(TARGET / "switch.h")]
    return words[:first] + extra + words[first:]


def object_file(name: str) -> Path:
    """Return the path of the object file of a source file."""
    return TARGET / "objects" / (name.replace("/", "_") + ".o")


def write_copies(mutants: list[dict[str, Any]]) -> list[str]:
    """Write the mutated copies and return the files to compile."""
    shutil.rmtree(TARGET / "source", ignore_errors=True)
    by_file = defaultdict(list)
    for m in mutants:
        by_file[m["file"]].append(m)
    users = includers()
    wanted: set[str] = set()
    for name, group in by_file.items():
        copy = TARGET / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(mutated_source((ROOT / name).read_text(), group))
        wanted |= {name} if name.endswith(".cc") else users[name]
    return sorted(wanted)


def failing(mutants: list[dict[str, Any]], messages: str) -> list[int]:
    """Return the mutants on the lines that the compiler complains about."""
    text = re.sub(re.escape(str(TARGET / "source")) + "/", "", messages)
    at = {
        (m[1], int(m[2])) for m in re.finditer(r"(\S+?):(\d+):\d+: +(?:error|required from)", text)
    }
    hit = []
    for m in mutants:
        lines = (ROOT / m["file"]).read_text()
        part = find_part(lines, m)
        first = lines.count("\n", 0, part.start) + 1
        last = lines.count("\n", 0, part.end) + 1
        if any((m["file"], line) in at for line in range(first, last + 1)):
            hit.append(m["id"])
    return hit


def build(mutants: list[dict[str, Any]], drop: bool, optimize: str, jobs: int) -> list[int]:
    """Compile and link; return the numbers of the mutants that do not compile."""
    compile_lines, link = commands()
    (TARGET / "objects").mkdir(parents=True, exist_ok=True)
    (TARGET / "switch.h").write_text(SWITCH_HEADER)
    (TARGET / "switch.cc").write_text(SWITCH_SOURCE)
    dropped: list[int] = []
    names = write_copies(mutants)

    def complaint(name: str) -> str:
        """Compile a file and return the compiler's errors, empty where there are none."""
        command = compile_command(compile_lines[name], name, optimize)
        result = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
        return result.stderr or "no message" if result.returncode else ""

    queue = [n for n in names if n in compile_lines]
    while queue:
        with ThreadPoolExecutor(jobs) as pool:
            complaints = {n: text for n, text in zip(queue, pool.map(complaint, queue)) if text}
        for name, text in complaints.items():
            bad = failing(mutants, text)
            if not drop or not bad:
                sys.stderr.write(text[:4000])
                raise SystemExit(f"{name} does not compile; mutants on these lines: {bad}")
            dropped += [i for i in bad if i not in dropped]
        mutants = [m for m in mutants if m["id"] not in dropped]
        if complaints:
            write_copies(mutants)
        queue = list(complaints)
    subprocess.run(
        ["g++", "-O1", "-fPIC", "-c", TARGET / "switch.cc", "-o", object_file("switch")], check=True
    )
    replaced = {compile_lines[n].split(" -o ")[1].split()[0]: str(object_file(n)) for n in names}
    map_file = ROOT / "cmake" / "libmxlite.map"
    text = map_file.read_text().replace("global:", "global:\n    mxlite_*;")
    (TARGET / "libmxlite.map").write_text(text)
    package = TARGET / "python" / "mxlite"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "python" / "mxlite", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    library = str(ROOT / "python" / "mxlite" / "libmxlite.so")
    words = [replaced.get(w, w) for w in shlex.split(link) if w not in (":", "&&")]
    words = [str(package / "libmxlite.so") if w == library else w for w in words]
    words = [w.replace(str(map_file), str(TARGET / "libmxlite.map")) for w in words]
    subprocess.run([*words, str(object_file("switch"))], cwd=BUILD, check=True)
    return dropped


def main() -> None:
    """Build, and with ``--drop`` shorten the list to mutants that compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=Path, default=MUTANTS)
    parser.add_argument("--drop", action="store_true", help="remove mutants that do not compile")
    parser.add_argument("--keep", type=int, help="keep this many of those that compile")
    parser.add_argument("--optimize", default="-O1")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    args = parser.parse_args()
    mutants = json.loads(args.mutants.read_text())
    dropped = build(mutants, args.drop, args.optimize, args.jobs)
    left = [m for m in mutants if m["id"] not in dropped]
    if args.keep is not None:
        kept = random.Random(len(left)).sample(left, args.keep)
        left = sorted(kept, key=lambda m: int(m["id"]))
    if len(left) < len(mutants):
        args.mutants.write_text(json.dumps(left, indent=1) + "\n")
        print(f"{len(dropped)} mutants do not compile; {len(left)} are on the list")


if __name__ == "__main__":
    main()
