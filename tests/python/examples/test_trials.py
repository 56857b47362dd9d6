"""Trials of the site: commands are recorded with their output, and each stays below 10 minutes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

TRIALS = Path(__file__).resolve().parents[3] / "docs" / "trials"
sys.path.insert(0, str(TRIALS))
from record import Page, record  # noqa: E402

PAGE = (
    "<p>out</p><article><p>two words</p>\n<pre>print(<b>1</b>)\n</pre>\n<pre>second</pre></article>"
)


@pytest.fixture
def site(tmp_path):
    """Return a site of one page."""
    (tmp_path / "page.html").write_text(PAGE)
    return tmp_path


def test_blocks_are_those_of_the_copy_button(site):
    page = Page(site / "page.html")
    assert page.blocks == ["print(1)\n", "second"]
    assert page.words == 4


def test_commands_share_a_shell_and_their_output_is_replaced(site):
    text = "[x](../page.md)\n```console\n$ a=3\nold\n$ paste page.html 1 > p.py\n"
    text += "$ python p.py  # 9.0 s\n$ echo $a; false\n```\n\nTime:\n"
    found = record(text, site / "mxlite.whl", site)
    assert re.sub(r"\d+\.\d s", "T", found).splitlines()[1:-2] == [
        "```console", "$ a=3  # T", "$ paste page.html 1 > p.py  # T", "$ python p.py  # T", "1",
        "$ echo $a; false  # T", "3", "(exit code 1)", "```",
    ]  # fmt: skip
    assert re.search(r"^Time: 0.4 minutes to read 4 words", found, re.MULTILINE)


@pytest.mark.parametrize("path", sorted(TRIALS.glob("*.md")), ids=lambda path: path.stem)
def test_every_trial_succeeds_below_ten_minutes(path):
    text = path.read_text()
    if path.stem == "README":
        return
    assert "(exit code" not in text
    assert "Traceback" not in text
    (minutes,) = re.findall(r"^Time: ([\d.]+) minutes to read", text, re.MULTILINE)
    assert float(minutes) < 10
