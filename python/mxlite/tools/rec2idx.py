"""Make the index of a record file: ``python -m mxlite.tools.rec2idx RECORD INDEX``.

The keys are 0, 1, 2, ... as those of MXNet 1.x's ``rec2idx.py``. Damaged records are listed and
left out, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import _core
from .._files.native import native_name
from ..base import MXNetError, RecordError
from .progress import CountLines


def make_index(record: str, index: str) -> list[str]:
    """Write the index of a record file."""
    reader = _core.RecordReader(native_name(record))
    partial = Path(index + ".partial")
    bad, key = [], 0
    try:
        with CountLines(None, os.path.basename(index)) as progress, open(partial, "w") as lines:
            while True:
                offset = reader.tell()
                try:
                    if not reader.skip():
                        break
                except RecordError as error:
                    bad.append(str(error))
                    continue
                lines.write(f"{key}\t{offset}\n")
                key += 1
                progress.add(1)
        partial.replace(index)
    finally:
        partial.unlink(missing_ok=True)
    return bad


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(
        prog="rec2idx", description="Create an index file from a .rec file."
    )
    parser.add_argument("record", help="path to the .rec file")
    parser.add_argument("index", help="path of the index file to write")
    options = parser.parse_args(arguments)
    try:
        bad = make_index(options.record, options.index)
    except (OSError, MXNetError) as error:
        print(f"rec2idx: {error}", file=sys.stderr)
        return 1
    for problem in bad:
        print(f"rec2idx: left out: {problem}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
