"""Compile the extension module _core for the running Python, without CMake.

    python3 tools/gpu/compile_core.py CHECKOUT PACKAGE INCLUDE OBJECTS

PACKAGE is the folder of libmxlite.so, to which _core is written. INCLUDE is pybind11's folder.
OBJECTS keeps the objects of unfinished calls. The flags are those of cmake/Libraries.cmake except
optimization, because the bindings are compiled for a few steps only. A compiler cache is used if
the machine has one.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    """Compile and link, and return the exit status."""
    root, package, include, objects = (Path(name).resolve() for name in sys.argv[1:])
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        print(
            f"{sys.executable} has no {headers}/Python.h; set PYTHON to one with headers",
            file=sys.stderr,
        )
        return 1
    sources = sorted((root / "cpp/python").rglob("*.cc"))
    objects.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CXX", "g++")
    cache = shutil.which("ccache")
    start = [cache, compiler] if cache else [compiler]
    flags = ["-std=c++20", "-O1", "-DNDEBUG", "-fPIC", "-fopenmp-simd", "-Wno-attributes"]
    if platform.machine() == "x86_64":
        flags.append("-march=x86-64-v3")
    flags += [f"-I{root}", f"-isystem{include}"]
    flags += [f"-isystem{headers}"]
    flags += ["-include", str(root / "cpp/python/vectorcall.h")]

    def compile_one(source: Path) -> tuple[Path, str]:
        target = objects / (source.stem + ".o")
        if target.exists():  # an earlier call was cut short
            return target, ""
        unfinished = target.with_suffix(".part")
        done = subprocess.run(
            [*start, *flags, "-c", str(source), "-o", str(unfinished)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return target, done.stderr
        unfinished.replace(target)
        return target, ""

    left = sum(not (objects / f"{source.stem}.o").exists() for source in sources)
    print(f"compiling _core for Python {platform.python_version()}: {left} files", flush=True)
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        compiled = list(pool.map(compile_one, sources))
    for _, error in compiled:
        if error:
            print(error, file=sys.stderr)
            return 1
    # Functions of Python in which threads sleep forever when the interpreter ends. See gil.h.
    parks = re.findall(r"^PARKS\([^,]+, (\w+),", (root / "cpp/python/gil.cc").read_text(), re.M)
    module = package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    link = [compiler, "-shared", "-o", str(module), *(str(target) for target, _ in compiled)]
    link += [f"-L{package}", "-lmxlite", "-Wl,-rpath,$ORIGIN", "-lpthread"]
    link += [f"-Wl,--version-script={root / 'cmake/libmxlite.map'}"]
    link += [f"-Wl,--wrap={name}" for name in parks]
    # When the module is loaded, libdnnl is in the folder of libmxlite.so.
    link += ["-Wl,--allow-shlib-undefined"]
    return subprocess.run(link, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
