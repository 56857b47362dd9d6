"""Checks a finished wheel: size, tag, symbols, paths of libraries, contents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIMIT_MB = 30
# Names that libraries of mxlite may export, as in cmake/libmxlite.map.
_EXPORTED = re.compile(
    r"PyInit__core|MX[A-Z]\w*|mxlite_(plugin_load|predict_\w+|server_plugin|mpi_plugin)"
    r"|_Z(T.|GV|GVZ|Z)?N?K?.*6mxlite.*"
)

_SYSTEM = re.compile(r"(lib(c|m|dl|pthread|rt|mvec|gcc_s|stdc\+\+|z)|ld-linux-x86-64)\.so\.\d+$")


def _readelf(option: str, library: Path) -> str:
    return subprocess.run(
        ["readelf", "-W", option, library], capture_output=True, text=True, check=True
    ).stdout


def foreign_symbols(library: Path) -> list[str]:
    """Return exported symbols that belong to other libraries."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()]
    return [name for name in names if not _EXPORTED.fullmatch(name)]


def newest_glibc(library: Path) -> tuple[int, ...]:
    """Return the newest version of glibc whose symbols a library needs."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", _readelf("-V", library))
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))


def missing_libraries(library: Path, bundled: set[str]) -> list[str]:
    """Return the needed libraries that neither the wheel nor every system with Python has."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("-d", library))
    own = {"libmpi.so.40"} if library.name == "libmxlite_mpi.so" else set()  # the job's MPI
    return [name for name in needed if name not in bundled | own and not _SYSTEM.match(name)]


def wrong_paths(library: Path) -> list[str]:
    """Return the folders of a library's search path that are not relative to it."""
    found = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", _readelf("-d", library))
    return [path for path in (found[1].split(":") if found else []) if path[:7] != "$ORIGIN"]


def check_wheel(wheel: Path) -> None:
    """Print a summary of a wheel. If a check fails, end with a message."""
    problems, platform = [], wheel.stem.rpartition("-")[2]
    megabytes = wheel.stat().st_size / 1e6
    if megabytes >= LIMIT_MB:
        problems.append(f"{megabytes:.1f} MB, expected less than {LIMIT_MB}")
    limit = tuple(int(part) for part in re.findall(r"\d+", platform)[:2])
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        own = sorted(Path(folder).glob("mxlite/*.so"))
        everything = [*own, *Path(folder).glob("mxlite/*.so.*"), *Path(folder).glob("*.libs/*")]
        bundled = {path.name for path in everything}
        for library in everything:
            if newest_glibc(library) > limit:
                problems.append(f"{library.name} needs a newer glibc than {platform} promises")
            if absent := missing_libraries(library, bundled):
                problems.append(f"{library.name} needs {', '.join(absent)}, which servers may lack")
            if paths := wrong_paths(library):
                problems.append(f"{library.name} searches libraries in {', '.join(paths)}")
        for library in own:
            if foreign := foreign_symbols(library):
                problems.append(f"{library.name} exports {len(foreign)} symbols of others, such as "
                                f"{', '.join(foreign[:3])}")  # fmt: skip
        info = next(Path(folder).glob("*.dist-info"))
        bom = json.loads(next((info / "sboms").glob("*.cdx.json")).read_text())
        texts = {path.parent.name for path in (info / "licenses").glob("bundled/*/*")}
        for one in bom["components"]:
            if one["name"] not in texts:
                problems.append(f"the licence text of {one['name']} is missing")
    if problems:
        sys.exit(f"release: {wheel.name}: " + "; ".join(problems))
    print(
        f"{wheel.name}: {megabytes:.1f} MB, {len(own)} libraries export only names of mxlite, "
        f"{len(bom['components'])} bundled components with licences"
    )
