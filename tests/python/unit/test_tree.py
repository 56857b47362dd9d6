"""The tables of CONTRIBUTING name every folder that a newcomer has to choose from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def folders(text: str) -> set[str]:
    """Return the folders of files, given one per line, whose purpose the tables must say."""
    found = set()
    for name in text.splitlines():
        parts = name.split("/")[:-1]
        if not parts or parts[0].startswith("."):
            continue
        # Sources are divided into folders of folders, everything else into folders.
        depth = {"cpp": 3, "python": 3, "tests": 2}.get(parts[0], 1)
        if parts[:3] == ["python", "mxlite", "gluon"]:
            depth = 4
        found.add("/".join(parts[:depth]))
    return found - {"cpp", "python", "python/mxlite", "tests"}


def is_named(folder: str, names: set[str]) -> bool:
    """Return whether a table has the folder's path, or its name as that of a group or part."""
    short = folder.removeprefix("python/mxlite/")
    return bool({folder, short, folder.rpartition("/")[2]} & names)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_every_folder_is_in_the_tables() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert listed.stdout
    text = (ROOT / "CONTRIBUTING.md").read_text()
    layout = text[text.index("## Layout") : text.index("## Building")]
    names = set(re.findall(r"`([\w./]+)`", layout))
    missing = sorted(f for f in folders(listed.stdout) if not is_named(f, names))
    assert not missing, "say in CONTRIBUTING.md what is in these folders"


def test_a_new_folder_is_missed() -> None:
    listed = "cpp/ops/nn/a.cc\ncpp/newcomer/a.cc\npython/mxlite/gluon/odd/a.py\nsetup.cfg\n"
    names = {"cpp/ops", "nn", "gluon"}
    missing = {f for f in folders(listed) if not is_named(f, names)}
    assert missing == {"cpp/newcomer", "python/mxlite/gluon/odd"}
