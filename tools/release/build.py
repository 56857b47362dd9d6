"""Builds and checks the files of a release in ``dist`` (``make release``).

``make build`` has compiled the core and the bindings of one Python. This program compiles only the
bindings of the others, puts them beside the same libmxlite.so, bundles the libraries once, and adds
the list of contents and the licences. It uploads nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from checks import check_wheel
from contents import add_contents, components_of, project_version
from environments import try_sdist, try_wheel
from interpreters import ROOT, Interpreter, select_interpreters
from wheel.wheelfile import WheelFile

BUILD = ROOT / "build" / "wheel"
DIST = ROOT / "dist"
CUDA_LIBRARY = ROOT / "build" / "cuda" / "mxlite" / "libmxlite_cuda.so"


def run(*command: object, **options: object) -> None:
    """Run a command in the root of the sources. If it fails, end with its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nrelease: {command[0]} failed with status {done.returncode}")


def cpu_seconds() -> float:
    """Return the CPU time of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_bindings(others: Sequence[Interpreter]) -> None:
    """Compile ``_core`` for the other interpreters with the libmxlite.so of ``make build``."""
    begin = cpu_seconds()
    paths = ";".join(one.path for one in others)
    run("cmake", "-S", ROOT, "-B", BUILD, f"-DMXLITE_RELEASE_PYTHONS={paths}")
    run("ninja", "-C", BUILD, "bindings")
    print(f"bindings of {len(others)} other Pythons: {cpu_seconds() - begin:.0f} s of CPU time")


def set_modes(folder: Path) -> None:
    """Give files modes that do not depend on the umask, so that packing gives the same bytes."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or ".so" in path.name else 0o644)


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    set_modes(folder)


def pack(folder: Path, tag: str, target: Path) -> Path:
    """Pack a folder as a wheel of this tag, with a new RECORD."""
    info = next(folder.glob("*.dist-info"))
    python, abi, platforms = tag.split("-")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: mxlite-release\nRoot-Is-Purelib: false\n"
        + "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    )
    wheel = target / f"{info.name.removesuffix('.dist-info')}-{tag}.whl"
    with WheelFile(wheel, "w") as archive:
        archive.write_files(str(folder))
    return wheel


def bundle(raw: Path, folder: Path) -> str:
    """Put the needed libraries into a wheel, unpack it, and return the platform of its tag."""
    with tempfile.TemporaryDirectory() as repaired:
        run("tools/release/bundle.sh", raw, repaired)
        wheel = next(Path(repaired).glob("*.whl"))
        unpack(wheel, folder)
        return wheel.stem.rpartition("-")[2]


def make_wheels(interpreters: Sequence[Interpreter], target: Path) -> list[Path]:
    """Write one wheel per interpreter. The wheels differ in ``_core`` and the tag."""
    raw = sorted((BUILD / "dist").glob("mxlite-*.whl"))
    if len(raw) != 1:
        sys.exit(f"release: {BUILD / 'dist'} must have one wheel, of make build; got {len(raw)}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "wheel"
        platform = bundle(raw[0], folder)
        add_contents(folder, components_of(folder))
        package = folder / "mxlite"
        wheels = []
        for one in interpreters:
            if one.path != sys.executable:
                for old in package.glob("_core.*.so"):
                    old.unlink()
                built = next((BUILD / "bindings").glob(f"_core.*-{one.tag[2:]}-*.so"))
                new = package / built.name
                run("strip", "-s", built, "-o", new)
                new.chmod(0o755)
            wheels.append(pack(folder, f"{one.tag}-{one.tag}-{platform}", target))
        return wheels


def make_cuda_wheel(target: Path, platform: str) -> Path | None:
    """Write the wheel mxlite-cuda13 if ``make test-cuda`` has built the plug-in."""
    if not CUDA_LIBRARY.exists():
        return None
    version = project_version()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        package, info = folder / "mxlite_cuda13", folder / f"mxlite_cuda13-{version}.dist-info"
        run("cmake", "--install", ROOT / "build" / "cuda", "--component", "cuda", "--strip",
            "--prefix", package)  # fmt: skip
        (package / "__init__.py").write_text('"""The CUDA library of mxlite, which loads it."""\n')
        (info / "licenses").mkdir(parents=True)
        shutil.copyfile(ROOT / "LICENSE", info / "licenses" / "LICENSE")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: mxlite-cuda13\nVersion: {version}\n"
            "Summary: CUDA 13 library of mxlite\nLicense-Expression: Apache-2.0\n"
            "License-File: LICENSE\nRequires-Python: >=3.9\n"
            f"Requires-Dist: mxlite[cuda-libraries]=={version}\n"
        )
        set_modes(folder)
        return pack(folder, f"py3-none-{platform}", target)


def make_others(target: Path) -> None:
    """Write the source archive and the packages mxnet and horovod."""
    code = f"import scikit_build_core.build as b; b.build_sdist({str(target)!r})"
    run(sys.executable, "-c", code)
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", target,
        "shim/mxnet", "shim/horovod")  # fmt: skip


def make_all(interpreters: Sequence[Interpreter], target: Path) -> list[Path]:
    """Write all files of the release to an empty folder and return the wheels of mxlite."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    wheels = make_wheels(interpreters, target)
    platform = wheels[0].stem.rpartition("-")[2]
    if make_cuda_wheel(target, platform) is None:
        print("mxlite-cuda13: skipped, because build/cuda has no library (make test-cuda)")
    make_others(target)
    return wheels


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def main() -> None:
    """Build, check and try the files of the release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", nargs="+", metavar="3.N", help="only these versions")
    parser.add_argument("--no-environments", action="store_true", help="do not install the wheels")
    options = parser.parse_args()
    interpreters = select_interpreters(options.python)
    print(f"Pythons: {', '.join(one.version for one in interpreters)}")
    if "SOURCE_DATE_EPOCH" not in os.environ:
        date = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True)
        os.environ["SOURCE_DATE_EPOCH"] = date.strip()
    compile_bindings([one for one in interpreters if one.path != sys.executable])
    wheels = make_all(interpreters, DIST)
    with tempfile.TemporaryDirectory() as again:
        make_all(interpreters, Path(again))
        first, second = hashes(DIST), hashes(Path(again))
    different = [name for name in first if first[name] != second.get(name)]
    if different:
        sys.exit(f"release: packing twice gives different files: {', '.join(different)}")
    for wheel in wheels:
        check_wheel(wheel)
    if not options.no_environments:
        for one, wheel in zip(interpreters, wheels):
            try_wheel(one, wheel)
        try_sdist(next(DIST.glob("*.tar.gz")), wheels[0])
    lines = "".join(f"{digest}  {name}\n" for name, digest in first.items())
    (DIST / "SHA256SUMS").write_text(lines)
    print(f"{len(first)} files and SHA256SUMS in {DIST}; packing twice gives the same bytes")


if __name__ == "__main__":
    main()
