"""Run the commands of trials again, and write what they print into the pages of the trials.

    python docs/trials/record.py WHEEL SITE docs/trials/*.md

A trial begins in an empty folder. Its commands are the lines of its ``console`` blocks that begin
with ``$``. They share one shell, in which ``wheel`` is the path of the wheel and
``paste PAGE NUMBER`` prints a block of code of the built site as its copy button gives it, counted
from 1. The new output replaces the old one, and the seconds of each command are written behind it.
The line that begins with ``Time:`` gets the sums.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
LINK = re.compile(r"\]\(\.\./([^)#]+)\.md")
DONE = "\x1e"  # marks the end of a command's output
WORDS_READ = 238  # in a minute: mean of silent readers of English (Brysbaert, 2019)
CHARACTERS_TYPED = 150  # in a minute


class Page(HTMLParser):
    """The blocks of code, and the number of words, of the article of a built page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._text = ""
        self._open: list[str] = []
        self.feed(path.read_text())
        self.words = len(self._text.split())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Begin a block, or an element that is inside the article."""
        if tag == "article" or (self._open and tag in {"pre", "article"}):
            self._open.append(tag)
        if tag == "pre":
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave a block or the article."""
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, text: str) -> None:
        """Collect the text of a block and count the words of the article."""
        if self._open:
            self._text += text
            if self._open[-1] == "pre":
                self.blocks[-1] += text


def run(shell: subprocess.Popen[str], command: str) -> tuple[str, float]:
    """Return what a command prints, and how many seconds it takes."""
    assert shell.stdin and shell.stdout
    begin = time.monotonic()
    # A command must not read the lines of the next ones, as mpirun does.
    shell.stdin.write(f'{{ {command}\n}} < /dev/null\necho "{DONE}$?"\n')
    shell.stdin.flush()
    lines = []
    while DONE not in (line := shell.stdout.readline()):
        if not line:
            raise SystemExit(f"the shell ended at: {command}")
        lines.append(line)
    before, code = line.split(DONE)
    if code.strip() != "0":
        lines.append(f"(exit code {code.strip()})\n")
    return "".join(lines) + before, time.monotonic() - begin


def record(text: str, wheel: Path, site: Path) -> str:
    """Return the text of a trial with the output of its commands, which run now."""
    typed, waited = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}
        }
        environment |= {"HOME": folder, "wheel": str(wheel), "PAGER": "cat"}
        shell = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, text=True, stdin=-1, stdout=-1, stderr=-2
        )
        paste = f"{sys.executable} {Path(__file__).resolve()} --paste {site}"
        run(shell, f'paste() {{ {paste} "$@"; }}')

        def renew(match: re.Match[str]) -> str:
            nonlocal typed, waited
            lines = []
            for command in (line[2:] for line in match[0].splitlines() if line[:2] == "$ "):
                command = command.rpartition("  # ")[0] if "  # " in command else command
                output, seconds = run(shell, command)
                typed, waited = typed + len(command), waited + seconds
                output += "\n" if output and output[-1] != "\n" else ""
                output = output.replace(folder, "~").replace(str(wheel.parent), "~/wheels")
                lines.append(f"$ {command}  # {seconds:.1f} s\n{output}")
            return "".join(lines)

        text = BLOCK.sub(renew, text)
        shell.communicate("exit\n")
    pages = list(dict.fromkeys(LINK.findall(text)))
    words = sum(Page(site / f"{page}.html").words for page in pages)
    minutes = words / WORDS_READ + typed / CHARACTERS_TYPED
    times = (
        f"Time: {minutes:.1f} minutes to read {words} words and to type {typed} characters. "
        f"The commands took {waited / 60:.1f} minutes on {os.cpu_count()} cores "
        f"with a load average of {os.getloadavg()[2]:.0f}."
    )
    return re.sub("^Time:.*$", times, text, flags=re.MULTILINE)


def main() -> None:
    """Record the trials that are named."""
    if sys.argv[1:2] == ["--paste"]:
        site, page, number = sys.argv[2:5]
        print(Page(Path(site) / page).blocks[int(number) - 1], end="")
        return
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("wheel", type=Path)
    line.add_argument("site", type=Path)
    line.add_argument("trials", type=Path, nargs="+")
    options = line.parse_args()
    for path in options.trials:
        path.write_text(record(path.read_text(), options.wheel.resolve(), options.site.resolve()))


if __name__ == "__main__":
    main()
