"""The interpreters of a release, and the oldest NumPy that each has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

# The first NumPy >= 1.22 with a wheel for each Python.
OLDEST_NUMPY = {"3.9": "1.22.0", "3.10": "1.22.0", "3.11": "1.23.2", "3.12": "1.26.0",
                "3.13": "2.1.0"}  # fmt: skip


class Interpreter(NamedTuple):
    """One Python that a wheel is built for."""

    version: str  # "3.12"
    path: str

    @property
    def tag(self) -> str:
        """The tag of wheels and extension modules, such as cp312."""
        return "cp" + self.version.replace(".", "")


def declared_versions() -> list[str]:
    """Return the versions of Python that the classifiers in pyproject.toml name."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def _runs(path: str, version: str) -> bool:
    """Return whether an interpreter has this version, headers and venv."""
    code = (
        "import ensurepip, os, sys, sysconfig; print('%d.%d' % sys.version_info[:2], "
        "os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    )
    done = subprocess.run([path, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == f"{version} True"


def find_interpreters() -> tuple[list[Interpreter], list[str]]:
    """Return the interpreters of this machine, own first, and the versions that are absent."""
    own = "{}.{}".format(*sys.version_info)
    found, absent = [Interpreter(own, sys.executable)], []
    for version in declared_versions():
        if version == own:
            continue
        places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
        paths = [*map(str, places), shutil.which(f"python{version}") or ""]
        usable = next((path for path in paths if path and _runs(path, version)), None)
        if usable:
            found.append(Interpreter(version, usable))
        else:
            absent.append(version)
    return found, absent


def select_interpreters(wanted: list[str] | None) -> list[Interpreter]:
    """Return the wanted interpreters or all of this machine, and name absent ones.

    End the program if a wanted version is absent: a release must not lack a wheel unnoticed.
    """
    found, absent = find_interpreters()
    if wanted is None:
        if absent:
            print(f"skipped, because this machine lacks them: Python {', '.join(absent)}")
        return found
    lacking = [version for version in wanted if version not in [one.version for one in found]]
    if lacking:
        sys.exit(
            f"release: --python must name versions of {', '.join(declared_versions())} that are in "
            f"~/.pyenv/versions/3.N.* or in PATH as python3.N, got {', '.join(lacking)}"
        )
    return [one for one in found if one.version in wanted]
