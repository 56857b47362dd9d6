"""The programs in README.md and in the users' pages run as they stand, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).resolve().parents[3]


PAGES = ["README.md"]
PAGES += [f"docs/{n}.md" for n in ("deployment", "conversion", "gpus", "numpy", "transformer")]


def programs(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(code: str, folder: Path) -> str:
    """Run a program in a fresh process and return what it printed."""
    return run_python("-c", code, cwd=folder).stdout


@pytest.mark.parametrize("page", PAGES)
def test_programs_run_as_they_stand(page, tmp_path):
    found = programs(page)
    assert found
    for code in found:
        assert run(code, tmp_path).strip()


def test_the_example_of_the_readme_learns(tmp_path):
    (code,) = programs("README.md")
    last = run(code, tmp_path).splitlines()[-1]
    assert float(re.search(r"([\d.]+)\)$", last).group(1)) > 0.9


def test_installing_comes_before_the_example():
    text = (ROOT / "README.md").read_text()
    assert text.index("pip install") < text.index("```python")
    assert "never run" in text


@pytest.mark.parametrize("page", [*PAGES, "docs/index.md", "docs/migrate/migration.md"])
def test_links_lead_to_files(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_pages_are_readable_in_an_editor():
    for page in sorted((ROOT / "docs").glob("*.md")):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            assert len(line) < 500 or line.startswith("|"), f"{page.name}:{number}"


def test_every_operator_has_shapes():
    text = (ROOT / "docs" / "ops.md").read_text()
    assert text.count("\n- shapes: ") == text.count("\n## ")
