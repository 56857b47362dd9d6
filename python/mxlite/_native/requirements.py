"""Checks of the processor and the interpreter, made before any native code is loaded."""

from __future__ import annotations

import importlib
import platform
import re
import sys
from pathlib import Path

# libmxlite.so is compiled for x86-64-v3. Linux names LZCNT "abm".
_FLAGS = ("avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe")


def check_processor(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Raise ImportError unless the processor has the instructions of x86-64-v3."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return  # a build from source, which the compiler made for this processor
    try:
        found = re.search(r"^flags\s*:(.*)$", Path(cpuinfo).read_text(), re.MULTILINE)
    except OSError:
        return  # no /proc: _core checks AVX2, FMA and F16C itself
    missing = [flag for flag in _FLAGS if found and flag not in found[1].split()]
    if missing:
        raise ImportError(
            "mxlite: the processor must support x86-64-v3 (Intel Haswell, AMD Excavator, or "
            f"later), got one without {', '.join(missing)}"
        )


def check_interpreter() -> None:
    """Raise ImportError in a subinterpreter, where loading the library would hang."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = importlib.import_module(name)
    except ImportError:  # this version of Python has no subinterpreters
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "mxlite cannot be imported in a subinterpreter; import it in the main interpreter, or "
            "use another process (multiprocessing)"
        )


def explain_failed_import(error: ImportError, package: Path) -> None:
    """Raise an ImportError that says why ``_core`` cannot be loaded, if the reason is known."""
    glibc = re.search(r"version `GLIBC_([\d.]+)' not found", str(error))
    if glibc:
        found = platform.libc_ver()[1] or "another C library"
        raise ImportError(
            f"mxlite: the C library must be glibc {glibc[1]} or later, got {found}"
        ) from error
    builds = sorted(path.name for path in package.glob("_core.*.so"))
    if isinstance(error, ModuleNotFoundError) and error.name == "mxlite._core" and builds:
        raise ImportError(
            f"mxlite: the Python must be one for which {', '.join(builds)} was built, got "
            f"{sys.implementation.cache_tag}; install mxlite again with this Python"
        ) from error
