"""Lists the components in a wheel (CycloneDX, PEP 770) and copies their licence texts."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from interpreters import ROOT

# SPDX expressions of Debian's source packages, whose libraries and headers are in the wheel.
LICENCES = {
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "opencv": "Apache-2.0",
    "libjpeg-turbo": "BSD-3-Clause AND IJG AND Zlib",
    "libpng1.6": "libpng-2.0",
    "onetbb": "Apache-2.0",
    "lapack": "BSD-3-Clause",
    "zlib": "Zlib",
    "nlohmann-json3": "MIT",
    "asio": "BSL-1.0",
}
# Header-only libraries that are compiled in. No shared library shows them.
HEADER_PACKAGES = ("nlohmann-json3-dev", "libasio-dev")
PYTHON_PACKAGES = {"onednn-cpu-gomp": "Apache-2.0", "pybind11": "BSD-3-Clause"}


class Component(NamedTuple):
    """A third-party component in a wheel."""

    name: str
    version: str
    licence: str
    purl: str
    texts: list[Path]


def _query(*arguments: str) -> str:
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()


def debian_component(package: str) -> Component:
    """Describe an installed Debian package. Raise if its licence is not in the table."""
    source, version = _query(
        "dpkg-query", "-W", "-f=${source:Package} ${Version}\n", package
    ).splitlines()[0].split()  # fmt: skip
    if source not in LICENCES:
        raise SystemExit(f"release: no licence is known for the Debian package {source}")
    name = package.partition(":")[0]
    texts = [Path("/usr/share/doc") / name / "copyright"]
    return Component(name, version, LICENCES[source], f"pkg:deb/debian/{name}@{version}", texts)


def python_component(package: str) -> Component:
    """Describe an installed Python package whose files are bundled or compiled in."""
    installed = metadata.distribution(package)
    texts = [
        Path(str(file.locate()))
        for file in installed.files or ()
        if re.search(r"licen[cs]e|copying|third.party", file.name, re.IGNORECASE)
    ]
    purl = f"pkg:pypi/{package}@{installed.version}"
    return Component(package, installed.version, PYTHON_PACKAGES[package], purl, texts)


@functools.cache
def _known_libraries() -> list[tuple[str, Path]]:
    """Return the name and the path of each library that the linker finds."""
    lines = [line.split() for line in _query("/sbin/ldconfig", "-p").splitlines() if " => " in line]
    return [(words[0], Path(words[-1])) for words in lines]


@functools.cache
def _package_of(library: str) -> str:
    """Return the Debian package of a library's file name without auditwheel's hash."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
    stem = name.partition(".so")[0]
    for known, path in _known_libraries():
        if path.resolve().name == name or known.startswith(f"{stem}.so."):
            for candidate in (str(path), str(path.resolve()), f"/usr{path}"):
                found = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True)
                if found.returncode == 0:
                    return found.stdout.partition(": ")[0].partition(":")[0]
    raise SystemExit(f"release: no Debian package has the bundled library {library}")


def components_of(wheel: Path) -> list[Component]:
    """Return the third-party components of an unpacked, repaired wheel, sorted by name."""
    libraries = sorted(path.name for path in wheel.glob("*.libs/*.so*"))
    libraries = [name for name in libraries if not name.startswith("libGLX-")]  # made by bundle.sh
    packages = {_package_of(name) for name in libraries} | set(HEADER_PACKAGES)
    found = [debian_component(package) for package in packages]
    found += [python_component(package) for package in PYTHON_PACKAGES]
    return sorted(found)


def add_contents(wheel: Path, components: list[Component]) -> None:
    """Write the list of components and the licence texts into the .dist-info folder."""
    info = next(wheel.glob("*.dist-info"))
    name, version = info.name.removesuffix(".dist-info").split("-")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/{name}@{version}",
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": one.purl,
                "name": one.name,
                "version": one.version,
                "licenses": [{"expression": one.licence}],
                "purl": one.purl,
            }
            for one in components
        ],
    }
    boms = info / "sboms"
    shutil.rmtree(boms, ignore_errors=True)  # auditwheel's list has no licences and no headers
    boms.mkdir()
    (boms / f"{name}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")
    texts = info / "licenses"
    for one in components:
        if not one.texts:
            raise SystemExit(f"release: {one.name} has no licence text")
        target = texts / "bundled" / one.name
        target.mkdir(parents=True, exist_ok=True)
        for text in one.texts:
            shutil.copyfile(text, target / text.name)
    metadata_file = info / "METADATA"
    head, _, body = metadata_file.read_text().partition("\n\n")
    listed = sorted(str(path.relative_to(texts)) for path in texts.glob("bundled/*/*"))
    head += "".join(f"\nLicense-File: {path}" for path in listed)
    metadata_file.write_text(f"{head}\n\n{body}")


def project_version() -> str:
    """Return the version in pyproject.toml."""
    found = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("release: pyproject.toml has no version")
    return found[1]
