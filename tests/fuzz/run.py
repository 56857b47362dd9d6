"""Builds the fuzz targets, runs each for a while, and writes the figures.

    python tests/fuzz/run.py --seconds 20
    python tests/fuzz/run.py --hours 1 --output tests/fuzz/figures.json

The C++ parsers run under libFuzzer with the address and undefined-behavior sanitizers, the loaders
of the Python package (tests/fuzz/loaders.py) in processes with a memory limit. Earlier findings are
in tests/fuzz/regressions/TARGET and are run first. Findings are left in build/fuzz/findings and end
the run with exit code 1. Loaders begin with the same inputs in each run with the same --seed; other
seeds look further, and --seed random draws one and prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from loaders_list import LOADERS
from seeds import write_seeds

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
FINDINGS = BUILD / "findings"
PARSERS = sorted(path.name[: -len("_fuzz.cc")] for path in Path(__file__).parent.glob("*_fuzz.cc"))


def build() -> None:
    """Configure and compile the C++ targets."""
    environment = {**os.environ, "CXX": os.environ.get("FUZZ_CXX", "clang++")}
    command = ["cmake", "-S", Path(__file__).parent, "-B", BUILD, "-G", "Ninja"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", BUILD, "--quiet"], check=True)
    write_seeds(BUILD / "seeds")


def run_parser(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Run a libFuzzer target."""
    corpus = BUILD / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    folders = [corpus, BUILD / "seeds" / name]
    regressions = Path(__file__).parent / "regressions" / name
    folders += [regressions] if regressions.is_dir() else []
    command = [
        BUILD / f"{name}_fuzz",
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={seed}",
        "-timeout=30",  # wall-clock time: other work may hold the process up
        "-rss_limit_mb=2048",
        "-malloc_limit_mb=256",
        "-max_len=65536",
        "-print_final_stats=1",
        f"-artifact_prefix={FINDINGS}/{name}_",
        *folders,
    ]
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    inputs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    covered = re.findall(r"cov: (\d+)", done.stdout)
    result: dict[str, Any] = {
        "target": name,
        "inputs": int(inputs.group(1)) if inputs else 0,
        "coverage": int(covered[-1]) if covered else 0,
        "findings": {},
    }
    if done.returncode != 0:
        result["findings"] = {f"exit code {done.returncode}": done.stdout[-3000:]}
    return result


def run_loader(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Run a Python loader's target."""
    script = str(Path(__file__).parent / "loaders.py")
    command = [sys.executable, script, name, "--seconds", str(seconds), "--seed", str(seed)]
    command += ["--input", str(FINDINGS / f"python_{name}")]
    # The limit of CPU time counts all threads, so that more of them would end valid inputs.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + 120, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"target": name, "inputs": 0, "coverage": 0, "findings": {"hang": ""}}
    lines = done.stdout.strip().splitlines()
    if lines and lines[-1].startswith("{"):
        result: dict[str, Any] = json.loads(lines[-1])
        return result
    ended = {f"exit code {done.returncode}": done.stderr[-3000:]}
    return {"target": name, "inputs": 0, "coverage": 0, "findings": ended}


def seed_number(text: str) -> int:
    """Return the seed that an option names; ``random`` draws one."""
    if text == "random":
        return 1 + secrets.randbelow(2**31 - 1)
    number = int(text)
    if not 0 < number < 2**31:  # libFuzzer draws its own seed for 0
        raise ValueError(text)
    return number


def check_regressions(folder: Path) -> None:
    """Exit if a folder of regressions belongs to no target, because nothing would run it."""
    known = {*PARSERS, *(f"python_{name}" for name in LOADERS)}
    unknown = sorted(path.name for path in folder.iterdir() if path.name not in known)
    if unknown:
        sys.exit(f"{folder} has {', '.join(unknown)}; expected names of targets: "
                 f"{', '.join(sorted(known))}")  # fmt: skip


def main() -> int:
    """Run all targets; 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for each target")
    parser.add_argument("--hours", type=float, help="in all, instead of --seconds")
    parser.add_argument(
        "--seed", type=seed_number, default=1, help="1 to 2**31 - 1, or random; others look further"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, help="JSON file of figures")
    parser.add_argument("targets", nargs="*", help="default: all")
    options = parser.parse_args()
    targets = options.targets or [*PARSERS, *(f"python_{name}" for name in LOADERS)]
    seconds = options.seconds
    if options.hours:
        seconds = options.hours * 3600 * options.jobs / len(targets)
    check_regressions(Path(__file__).parent / "regressions")
    print(f"seed {options.seed} (repeat with --seed {options.seed})", flush=True)
    shutil.rmtree(FINDINGS, ignore_errors=True)
    FINDINGS.mkdir(parents=True)
    if any(name in PARSERS for name in targets):
        build()

    def run(name: str) -> dict[str, Any]:
        if name in PARSERS:
            return run_parser(name, seconds, options.seed)
        return {**run_loader(name[len("python_") :], seconds, options.seed), "target": name}

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(run, targets))
    for result in results:
        found = len(result["findings"])
        print(f"{result['target']:22} {result['inputs']:>10} inputs, coverage "
              f"{result['coverage']:>5}, {found} findings")  # fmt: skip
        for what, details in result["findings"].items():
            print(f"    {what}\n{details[-2000:]}")
    if options.output:
        figures = {
            "seconds_per_target": round(seconds, 1),
            "seed": options.seed,
            "targets": [{**result, "findings": len(result["findings"])} for result in results],
        }
        options.output.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if any(result["findings"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
