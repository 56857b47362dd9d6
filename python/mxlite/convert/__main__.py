"""The command ``python -m mxlite.convert``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..base import MXNetError
from ..ndarray.dtypes import dtype_name
from .name_maps import MAPS, Row, mapped, unchanged
from .weight_files import check_suffix, read_weights, write_weights


def _table(rows: Sequence[Row]) -> str:
    lines = [("name in IN", "name in OUT", "shape", "type")]
    for name, sources, array in rows:
        shape = " x ".join(map(str, array.shape)) or "scalar"
        lines.append((" + ".join(sources), name, shape, dtype_name(array.dtype)))
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mxlite.convert",
        description="Convert a file of weights: .params, .safetensors (also the index of a sharded "
        "model), .npz, and state dicts of torch.save, which are read without PyTorch and without "
        "running anything in them.",
        epilog="maps: " + "; ".join(f"{name}: {one.what}" for name, one in MAPS.items()),
    )
    parser.add_argument("source", metavar="IN", help="file to read; its content shows the format")
    parser.add_argument("target", metavar="OUT", help="file to write: .params, .safetensors, .npz")
    parser.add_argument("--map", choices=MAPS, help="change names and check them; see below")
    parser.add_argument(
        "--back", action="store_true", help="apply the map backwards: IN has mxlite's names"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the names, write nothing")
    options = parser.parse_args(arguments)
    if options.back and not options.map:
        parser.error("--back must have a --map, got none")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if names are left over or shapes are wrong, or for bad files."""
    options = _arguments(arguments)
    try:
        check_suffix(options.target)
        arrays = read_weights(options.source)
        found = (
            mapped(options.map, arrays, options.back)
            if options.map
            else unchanged(arrays, options.target.endswith(".params"))
        )
        if options.dry_run:
            print(_table(found.rows))
        problems = [f"no name for {name}" for name in found.left] + found.problems
        for problem in problems:
            print(f"convert: {problem}", file=sys.stderr)
        if problems:
            return 1
        if not options.dry_run:
            write_weights(options.target, {name: array for name, _, array in found.rows})
    except MXNetError as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    print(f"{len(found.rows)} arrays {'would be ' * options.dry_run}written to {options.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
