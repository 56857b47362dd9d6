"""Runs the code of pages and tutorials in this process, without Jupyter.

Usage: ``run_pages.py PAGE ...``. The cells of a tutorial (``{code-cell}``) run in order in one
IPython shell; the ``python`` and ``sh`` blocks of other pages run in a process each. A page runs in
an empty folder. A block below a line ``<!-- not run: reason -->`` is left out, with its
reason printed. Ends with exit code 1, and the file and line of the block, if a block raises.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*) -->\n+)?"
    r"```(?P<kind>\{code-cell\} ipython3|python|sh)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
OPTIONS = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)
SECONDS = 300  # limit of a page beside other work


def blocks(page: Path) -> list[tuple[int, list[str], str | None]]:
    """Return line, command, and the reason not to run it or None, of each block of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        code, kind = match["code"], match["kind"]
        shell = ["bash", "-euc"] if kind == "sh" else [sys.executable, "-c"]
        found.append((line, [*shell, OPTIONS.sub("", code)], match["reason"]))
    return found


def is_tutorial(page: Path) -> bool:
    """Return whether the blocks of a page are cells of one notebook."""
    return "```{code-cell}" in page.read_text(encoding="utf-8")


def run_cells(page: Path) -> int:
    """Run the cells of a tutorial; return 1 if one raises."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for line, (*_, code), _ in blocks(page):
        result = shell.run_cell(code)
        if not result.success:
            error = result.error_before_exec or result.error_in_exec
            print(f"{page}:{line}: this cell raised {error!r}", file=sys.stderr)
            return 1
    return 0


def processor_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_page(page: Path) -> int:
    """Run a page in an empty folder; return the number of blocks that failed."""
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        if is_tutorial(page):
            commands = [(1, [sys.executable, __file__, "--cells", str(page)])]
        else:
            commands = []
            for line, command, reason in blocks(page):
                if reason is None:
                    commands.append((line, command))
                else:
                    print(f"{page}:{line}: not run: {reason}")
        for line, command in commands:
            begin, used = time.perf_counter(), processor_seconds()
            done = subprocess.run(
                command, cwd=folder, env=environment, timeout=SECONDS, check=False
            )
            seconds, used = time.perf_counter() - begin, processor_seconds() - used
            if done.returncode != 0:
                failed += 1
            state = "ok" if done.returncode == 0 else "FAILED"
            print(
                f"{page}:{line}: {state}, {seconds:.1f} s, {used:.1f} s of processors", flush=True
            )
    return failed


def main(arguments: list[str]) -> int:
    """Run the command line."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--cells":
        return run_cells(Path(arguments[1]))
    failed = sum(run_page(Path(page).resolve()) for page in arguments)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
