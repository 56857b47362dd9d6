"""The programs in README.md and on all pages run unchanged, in the order of the page.

A comment above a block says how the block runs, or why it does not run::

    <!-- run: 2 processes, after training.py -->
    <!-- run: 2 elastic processes -->
    <!-- not run: needs a GPU -->

``after training.py`` runs the file ``before/training.py`` first, in the process of the block. All
blocks of a page run in one folder. Pages with ``{code-cell}`` run when the site is built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import run_command, run_python

ROOT = Path(__file__).resolve().parents[3]
BEFORE = Path(__file__).parent / "before"
GENERATED = ("docs/reference/api/", "docs/reference/ops/")
PAGES = [
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not str(path.relative_to(ROOT)).startswith(GENERATED)
]
PROGRAMS = {"python", "sh", "cpp", "bash", "console"}
MARK = re.compile(r"<!-- (run|not run): (.+) -->")
PROCESSES = re.compile(r"(\d+) (elastic )?processes")
AFTER = re.compile(r"after (\w+\.py)")


@dataclass
class Block:
    """A block of code on a page, and the comment above it."""

    line: int
    language: str
    code: str
    mark: tuple[str, str]  # ("run" or "not run", how or why)


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page, without directives such as ``{code-cell}``."""
    lines = text.splitlines()
    found, start = [], None
    for number, line in enumerate(lines):
        if start is None and re.match(r"(`{3,}|~{3,})", line):
            start = number
        elif start is not None and line == re.match(r"[`~]+", lines[start])[0]:
            language = lines[start].lstrip("`~").strip()
            comment = MARK.fullmatch(lines[start - 1]) if start else None
            mark = comment.groups() if comment else ("run", "")
            if not language.startswith("{"):
                code = "\n".join(lines[start + 1 : number]) + "\n"
                found.append(Block(start + 1, language, code, mark))
            start = None
    return found


def run(block: Block, folder: Path) -> str:
    """Run a block in a new process, or as a job of several; return what it prints."""
    if block.language == "sh":
        return run_command("bash", "-euc", block.code, cwd=folder).stdout
    how = block.mark[1]
    before = AFTER.search(how)
    program = folder / "program.py"
    program.write_text(((BEFORE / before[1]).read_text() if before else "") + block.code)
    job = PROCESSES.search(how)
    elastic = ["--elastic"] if job and job[2] else []
    launcher = ["-m", "mxlite.run", "-np", job[1], *elastic, "python"] if job else []
    return run_python(*launcher, program.name, cwd=folder).stdout


@pytest.mark.parametrize("page", PAGES)
def test_programs_run_as_they_stand(page, tmp_path):
    for block in blocks((ROOT / page).read_text()):
        assert block.language, (
            f"{page}:{block.line}: name the language of the block, or text if it has none"
        )
        if block.language not in PROGRAMS or block.mark[0] == "not run":
            continue
        assert block.language in {"python", "sh"}, f"{page}:{block.line}: say why it does not run"
        try:
            run(block, tmp_path)
        except AssertionError as error:
            raise AssertionError(f"{page}:{block.line}: {error}") from error


def test_a_failing_block_is_found(tmp_path):
    (block,) = blocks("text\n\n```python\nraise ValueError('seen')\n```\n")
    assert block.line == 3
    with pytest.raises(AssertionError, match="seen"):
        run(block, tmp_path)
    (marked,) = blocks("<!-- not run: needs a GPU -->\n```sh\nfalse\n```\n")
    assert marked.mark == ("not run", "needs a GPU")


def test_the_example_of_the_readme_learns(tmp_path):
    (block,) = [b for b in blocks((ROOT / "README.md").read_text()) if b.language == "python"]
    last = run(block, tmp_path).splitlines()[-1]
    assert float(re.search(r"([\d.]+)\)$", last).group(1)) > 0.9


def test_installing_comes_before_the_example():
    text = (ROOT / "README.md").read_text()
    assert text.index("pip install") < text.index("```python")
    assert "never run" in text


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    path = ROOT / page
    prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)\)", prose):
        built = (path.parent / target).resolve().relative_to(ROOT).as_posix()
        if "://" not in target and not built.startswith(GENERATED):
            assert (path.parent / target).exists(), target


def test_pages_are_readable_in_an_editor():
    for page in PAGES:
        for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
            assert len(line) < 600 or line.startswith("|"), f"{page}:{number}"
