"""Checks that kernels with blocks of more than 256 threads have ``__launch_bounds__``.

A multiprocessor has 65,536 registers, and a thread may take 255 of them: blocks of 256 threads
(``kThreads``) always fit, larger ones only if the compiler knows their size. Otherwise the launch
fails on the GPU, and nowhere else. So every kernel that is launched with anything but ``kThreads``
or a number up to 256 needs bounds, also where the number of threads is computed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHERS = "cpp/ops/cuda/run.cuh"  # declares launch and launch_shared
KERNEL = re.compile(
    r"__global__\s+(?:inline\s+)?void\s+(__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+)?(\w+)\("
)
LAUNCH = re.compile(r"\b(?:launch|launch_shared)\((?=ctx,)")
CHEVRONS = re.compile(r"(\w+)(?:<[^<>]*>)?<<<(?=[^;]*>>>)")
BLOCK = re.compile(r"\bblockDim = dim3\(")


def arguments(text: str, begin: int) -> list[str]:
    """Return the arguments of a call whose parenthesis opens before ``begin``."""
    found, depth, first = [], 0, begin
    for at in range(begin, len(text)):
        c = text[at]
        # clang-format writes no space before the < of a template, but one before the operator <.
        if c in "([{" or (c == "<" and re.match(r"\w", text[at - 1])):
            depth += 1
        elif depth and (c in ")]}" or (c == ">" and text[at - 1] not in "- ")):
            depth -= 1
        elif not depth and c in ",)":
            found.append(" ".join(text[first:at].split()))
            first = at + 1
            if c == ")":
                break
    return found


def is_small(threads: str) -> bool:
    """Return whether a block always has at most 256 threads."""
    return threads == "kThreads" or (threads.isdigit() and int(threads) <= 256)


def problems(sources: dict[str, str]) -> list[str]:
    """Return one line per kernel that needs bounds and has none. sources maps paths to texts."""
    texts = {path: re.sub(r"//[^\n]*", "", text) for path, text in sources.items()}
    bounded: dict[tuple[str, str], bool] = {}  # by file and name
    found = []
    for path, text in texts.items():
        kernels = KERNEL.findall(text)
        if len(kernels) != text.count("__global__"):
            found.append(f"{path}: a __global__ function that tools/check_launches.py cannot read")
        for bounds, name in kernels:
            bounded[path, name] = bool(bounds)

    def kernels_named(path: str, argument: str) -> set[tuple[str, str]]:
        names = set(re.findall(r"\w+", argument))
        own = {(path, name) for name in names if (path, name) in bounded}
        return own or {key for key in bounded if key[1] in names}

    for path, text in texts.items():
        if path == LAUNCHERS:
            continue
        small: set[tuple[str, str]] = set()
        large: set[tuple[str, str]] = set()
        through_pointers = any(
            not is_small(arguments(text, m.end())[0]) for m in BLOCK.finditer(text)
        )
        launches = [arguments(text, m.end())[1:4:2] for m in LAUNCH.finditer(text)]
        for match in CHEVRONS.finditer(text):
            grid = arguments(text.replace(">>>", ")  "), match.end())
            launches.append([match.group(1), grid[1].removeprefix("cuda::")])
        for kernel, threads in launches:
            named = kernels_named(path, kernel)
            (small if is_small(threads) else large).update(named)
            through_pointers |= not named and not is_small(threads)
        if through_pointers:  # includes any kernel of the file that is not launched otherwise
            large |= {key for key in bounded if key[0] == path and key not in small}
        found += [
            f"{key[0]}: {key[1]} needs __launch_bounds__, for {path} launches it with another "
            "number of threads than kThreads"
            for key in sorted(large)
            if not bounded[key]
        ]
    return found


def main() -> int:
    """Print the problems of the CUDA sources."""
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for suffix in ("*.cu", "*.cuh")
        for path in sorted((ROOT / "cpp").rglob(suffix))
    }
    found = problems(sources)
    print("\n".join(found) if found else f"{len(sources)} CUDA sources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
