"""Paths for C and C++ programs that use ``libmxlite.so``.

Prints them for shells and build systems::

    cmake -B build -Dmxlite_DIR=$(python -m mxlite.config --cmake)
    cc main.c $(python -m mxlite.config --includes --libs) -o main
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["cmake_dir", "include_dir", "library_dir"]

_PACKAGE = Path(__file__).resolve().parent


def _installed(folder: str) -> str:
    """Return a folder of the installed package, or that of the source tree."""
    own = _PACKAGE / folder
    return str(own if own.is_dir() else _PACKAGE.parents[1] / folder)


def include_dir() -> str:
    """Return the folder of ``mxlite/predict.h``, ``mxlite/predict.hpp`` and ``mxnet``."""
    return _installed("include")


def cmake_dir() -> str:
    """Return the folder of ``mxliteConfig.cmake``, for ``mxlite_DIR``."""
    return _installed("cmake")


def library_dir() -> str:
    """Return the folder of ``libmxlite.so``."""
    return str(_PACKAGE)


def main() -> None:
    """Print the values of the given options on one line."""
    import argparse  # imported on use, because `import mxlite` imports this module

    values = {
        "cmake": cmake_dir(),
        "includes": f"-I{include_dir()}",
        "libs": f"-L{library_dir()} -lmxlite -Wl,-rpath,{library_dir()}",
    }
    parser = argparse.ArgumentParser(
        prog="python -m mxlite.config", description="Print paths for C and C++ programs."
    )
    for name, help_text in (
        ("cmake", "folder of mxliteConfig.cmake, for -Dmxlite_DIR="),
        ("includes", "option of the compiler for the headers"),
        ("libs", "options of the compiler that link libmxlite.so"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    options = parser.parse_args()
    chosen = [value for name, value in values.items() if getattr(options, name)]
    if not chosen:
        parser.error("at least one option must be given, got none")
    print(" ".join(chosen))


if __name__ == "__main__":
    main()
