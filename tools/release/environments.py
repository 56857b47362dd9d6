"""Installs a wheel into new environments and runs the smoke test there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from interpreters import OLDEST_NUMPY, ROOT, Interpreter


def try_sdist(archive: Path, wheel: Path) -> None:
    """Build a wheel from the source archive and check that it has the files of a release."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w",
             folder, str(archive)],
            capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(
                f"{done.stdout}{done.stderr}\nrelease: no wheel can be built of {archive.name}"
            )
        built = _package_files(next(Path(folder).glob("*.whl")))
        if different := built ^ _package_files(wheel):
            sys.exit(f"release: wheels of {archive.name} and {wheel.name} differ in {different}")
    print(f"{archive.name}: builds a wheel with the same files")


def _package_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("mxlite/")}


def try_wheel(interpreter: Interpreter, wheel: Path) -> None:
    """Run the smoke test with the oldest and the newest NumPy of an interpreter."""
    smoke, photo = ROOT / "tools" / "wheel_smoke.py", ROOT / "tests" / "data" / "gradient.jpg"
    for numpy in (f"numpy=={OLDEST_NUMPY[interpreter.version]}", "numpy"):
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder) / "bin" / "python"
            clean = {"PATH": "/usr/bin:/bin", "HOME": folder}
            commands = (
                [interpreter.path, "-m", "venv", folder],
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--only-binary=:all:", numpy, wheel],
                [python, "-I", smoke, photo],
            )  # fmt: skip
            for command in commands:
                # Passes all variables to pip, which may need some, such as PIP_INDEX_URL.
                done = subprocess.run(
                    [str(word) for word in command],
                    cwd=folder,
                    env=os.environ if "pip" in command else clean,
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    sys.exit(f"{done.stdout}{done.stderr}\nrelease: {wheel.name} with {numpy}")
            version = re.search(r"NumPy ([\d.]+)", done.stdout)
            print(f"Python {interpreter.version}, NumPy {version[1] if version else '?'}: works")
