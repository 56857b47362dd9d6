"""Picks 200 lines of the CPU kernels and one change for each, with a fixed seed.

    python tests/mutation/pick.py

Writes ``mutants.json``. Lines are spread over the operator families: the share of a family grows
with the square root of the number of lines that could be changed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import rules
import statements

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = Path(__file__).with_name("mutants.json")
# Lines that split work, get memory, register kernels or check arguments compute no value.
SCHEDULING = re.compile(
    r"thread|grain|work\b|cost|scratch|prefetch|reserve|parallel|bytes|primitive|kPart\b"
    r"|MX_CHECK|ops\.|dispatch_|kOp\b|error"
)
# Files that choose between kernels or describe a call of oneDNN, and code for one instruction set.
EXCLUDED = re.compile(
    r"register|/cuda/|avx|cpu/onednn/(plan|engine|post_ops|layout|eager|primitive|conv|fully|pool)"
    r"|raise_async|params\.h|op_schema|cpu/gemm"
)
MOST_INCLUDERS = 4
FILES = 60


def _sources() -> list[str]:
    paths = [p for s in ("*.cc", "*.h") for p in (ROOT / "cpp" / "ops" / "cpu").rglob(s)]
    paths += [p for p in (ROOT / "cpp" / "ops").glob("*/*.h") if p.parent.name != "cpu"]
    names = sorted(str(p.relative_to(ROOT)) for p in paths)
    return [n for n in names if not EXCLUDED.search(n)]


def includers() -> dict[str, set[str]]:
    """Return the .cc files that include each file of ``cpp``, directly or not."""
    direct: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "cpp").rglob("*"):
        if path.suffix in (".cc", ".h", ".cu", ".cuh"):
            for name in re.findall(r'#include "([^"]+)"', path.read_text()):
                direct[name].add(str(path.relative_to(ROOT)))
    found: dict[str, set[str]] = {}
    for name in direct:
        open_names, seen = [name], {name}
        while open_names:
            for user in direct.get(open_names.pop(), ()):
                if user not in seen:
                    seen.add(user)
                    open_names.append(user)
        found[name] = {n for n in seen if n.endswith(".cc")}
    return found


def _family(name: str) -> str:
    folder = name.replace("cpp/ops/cpu/", "cpp/ops/").split("/")[2:-1]
    return folder[0] if folder else "shared"


def candidates(name: str) -> dict[int, list[tuple[statements.Part, rules.Change]]]:
    """Return the possible changes of a file by line number."""
    source = (ROOT / name).read_text()
    lines = source.splitlines()
    found: dict[int, list[tuple[statements.Part, rules.Change]]] = defaultdict(list)
    for part in statements.parts(statements.tokenize(source)):
        if SCHEDULING.search(source[part.start : part.end]):
            continue
        for change in rules.changes(part):
            number = source.count("\n", 0, change.start)
            if not SCHEDULING.search(lines[number]):
                found[number].append((part, change))
    return found


def _described(
    name: str, source: str, part: statements.Part, change: rules.Change
) -> dict[str, Any]:
    return {
        "file": name,
        "line": source.count("\n", 0, change.start) + 1,
        "rule": change.rule,
        "part": source[part.start : part.end],
        "kind": part.kind,
        "at": change.start - part.start,
        "old": source[change.start : change.end],
        "new": change.text,
    }


def pick(seed: int, count: int) -> list[dict[str, Any]]:
    """Return ``count`` mutants: file, line, rule, the part's text and the change."""
    generator = random.Random(seed)
    users = includers()
    families: dict[str, dict[str, Any]] = defaultdict(dict)
    for name in _sources():
        if name.endswith(".cc") or len(users.get(name, ())) <= MOST_INCLUDERS:
            possible = candidates(name)
            if len(possible) >= 4:
                families[_family(name)][name] = possible
    sizes = {f: math.sqrt(sum(len(p) for p in files.values())) for f, files in families.items()}
    total = sum(sizes.values())
    mutants: list[dict[str, Any]] = []
    for family, files in sorted(families.items()):
        share = sizes[family] / total
        number = max(2, round(FILES * share))
        names = generator.sample(sorted(files), min(number, len(files)))
        lines = [(n, line) for n in sorted(names) for line in files[n]]
        taken: list[tuple[str, int, int]] = []
        generator.shuffle(lines)
        wanted = round(count * share)
        for name, line in lines:
            part, change = generator.choice(files[name][line])
            overlaps = any(n == name and a < part.end and part.start < b for n, a, b in taken)
            if wanted == 0 or overlaps:
                continue
            taken.append((name, part.start, part.end))
            source = (ROOT / name).read_text()
            mutants.append(_described(name, source, part, change))
            wanted -= 1
    mutants.sort(key=lambda m: (m["file"], m["line"]))
    return [{"id": i + 1, **m} for i, m in enumerate(mutants)]


def line_now(mutant: dict[str, Any]) -> int | None:
    """Return the line of a mutant's change, or None if its file no longer has the part."""
    path = ROOT / mutant["file"]
    source = path.read_text() if path.exists() else ""
    lines = [
        source.count("\n", 0, p.start + mutant["at"]) + 1
        for p in statements.parts(statements.tokenize(source))
        if p.kind == mutant["kind"] and source[p.start : p.end] == mutant["part"]
    ]
    return min(lines, key=lambda line: abs(line - mutant["line"]), default=None)


def replace(mutants: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Return the list with another change in the file for each mutant whose part is gone."""
    generator = random.Random(seed)
    lines = [line_now(mutant) for mutant in mutants]
    result = [{**m, "line": line} for m, line in zip(mutants, lines) if line]
    for old in (m for m, line in zip(mutants, lines) if not line):
        name = old["file"]
        source = (ROOT / name).read_text()
        taken = [m["part"] for m in result if m["file"] == name]
        possible = [
            (part, change)
            for _, found in sorted(candidates(name).items())
            for part, change in found
            if not any(t in source[part.start : part.end] for t in taken)
            and not any(source[part.start : part.end] in t for t in taken)
        ]
        result.append({"id": old["id"], **_described(name, source, *generator.choice(possible))})
    return sorted(result, key=lambda m: int(m["id"]))


def main() -> None:
    """Write the list of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--output", type=Path, default=MUTANTS)
    parser.add_argument(
        "--replace", action="store_true", help="only mutants whose part is no longer in its file"
    )
    args = parser.parse_args()
    if args.replace:
        mutants = replace(json.loads(args.output.read_text()), args.seed)
    else:
        mutants = pick(args.seed, args.count)
    lines = ",\n".join(" " + json.dumps(mutant) for mutant in mutants)
    args.output.write_text(f"[\n{lines}\n]\n")
    print(f"{len(mutants)} mutants in {len({m['file'] for m in mutants})} files")


if __name__ == "__main__":
    main()
