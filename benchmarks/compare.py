"""Compare two result files: ratio and noise of each figure.

    python benchmarks/compare.py before.json after.json

A ratio above 1 means that the second file is better. Noise is the larger of the two relative
interquartile ranges; a difference smaller than it is marked ``=``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import table


def load(path: str) -> dict[str, Any]:
    """Read a result file.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    dict
        Its content.

    Raises
    ------
    SystemExit
        If the file is missing, not JSON, or not a result file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SystemExit(f"compare: cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise SystemExit(f"compare: {path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise SystemExit(f"compare: {path} is no result file: it has no list of results")
    return content


def compare(first: dict[str, Any], second: dict[str, Any]) -> tuple[list[list[str]], list[float]]:
    """Pair the results of two files by name.

    Parameters
    ----------
    first, second : dict
        Contents of two result files.

    Returns
    -------
    rows : list of list of str
        Cells of the table.
    ratios : list of float
        Above 1 if the second file is better.
    """
    old = {entry["name"]: entry for entry in first["results"]}
    rows, ratios = [], []
    for entry in second["results"]:
        base = old.get(entry["name"])
        if base is None or not base["median"] or not entry["median"]:
            continue
        ratio = entry["median"] / base["median"]
        if entry["better"] == "lower":
            ratio = 1 / ratio
        noise = max(abs(one["q3"] - one["q1"]) / one["median"] for one in (base, entry))
        ratios.append(ratio)
        rows.append(
            [
                entry["name"],
                f"{base['median']:.4g}",
                f"{entry['median']:.4g}",
                entry["unit"],
                f"{ratio:.3f}",
                f"{noise:.1%}",
                "=" if abs(ratio - 1) <= noise else ("better" if ratio > 1 else "worse"),
            ]
        )
    return rows, ratios


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        If a file cannot be read, or the files have no figure in common.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", help="result file: the base")
    parser.add_argument("second", help="result file: what is compared with it")
    options = parser.parse_args(arguments)
    first, second = load(options.first), load(options.second)
    rows, ratios = compare(first, second)
    if not rows:
        raise SystemExit(f"compare: {options.first} and {options.second} share no figure")
    for key in ("commit", "machine"):
        if first.get(key) != second.get(key):
            print(f"{key}: {first.get(key)} / {second.get(key)}")
    print(table(["figure", "first", "second", "unit", "ratio", "noise", ""], rows))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of {len(ratios)} ratios: {mean:.3f}")
    left_out = len(first["results"]) + len(second["results"]) - 2 * len(rows)
    if left_out:
        print(f"{left_out} results are in one file only")
    return 0


if __name__ == "__main__":
    sys.exit(main())
