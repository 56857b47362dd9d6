"""Checks that folders of ``cpp/`` include only lower folders, and that some names are not used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The folders that each folder may include besides itself, in the order of CMakeLists.txt.
MAY_USE = {
    "base": [],
    "core": ["base"],
    "engine": ["base", "core"],
    "ndarray": ["base", "core", "engine"],
    "ops": ["base", "core", "engine", "ndarray"],
    "autograd": ["base", "core", "engine", "ndarray", "ops", "graph"],
    "graph": ["base", "core", "engine", "ndarray", "ops"],
    "symbol": ["base", "core", "engine", "ndarray", "ops", "graph", "autograd"],
    "sparse": ["base", "core", "engine", "ndarray", "ops", "graph", "autograd"],
    "kvstore": ["base", "core", "engine", "ndarray"],
    "jobs": ["base", "core", "engine", "ndarray", "ops", "graph", "kvstore"],
    "horovod": ["base", "core", "engine", "ndarray", "kvstore", "jobs"],
    "io": ["base", "core", "engine", "ndarray"],
    "predict": ["base", "core", "engine", "ndarray", "ops", "graph", "autograd", "symbol", "io"],
}
MAY_USE["cuda"] = list(MAY_USE)  # the entry point of the plug-in
MAY_USE["python"] = list(MAY_USE)

# The neighboring folders that a folder inside one of these may include.
INSIDE = {
    "kvstore": {
        "comm": [],
        "store": ["comm"],
        "server": ["comm", "store"],
    },
}

# Third-party headers and the places (path patterns below cpp/) that may include them.
FOREIGN = [
    (r"pybind11/|Python\.h|numpy/", r"python/"),
    (r"oneapi/dnnl|dnnl", r"ops/cpu/"),
    (r"opencv2/|jpeglib|jerror|png\.h", r"io/"),
    (r"cuda|cudnn|cublas|curand|nvtx|cupti", r".*\bcuda/"),
    (r"nccl", r"kvstore/comm/nccl/"),
    (r"mpi\.h", r"kvstore/comm/mpi/"),
    (r"asio[./]", r"kvstore/comm/link/asio\.h"),
    (r"nlohmann/", r"base/json\.h"),
]

# Bindings only convert objects. Implementations of an interface of a lower folder belong to a lower
# folder unless they call Python.
IMPLEMENTS = re.compile(r":.*\bpublic (engine|collective|jobs)::")
CALLS_PYTHON = {"python/bind_custom.cc"}

# Names that have a replacement in this project, and the file below cpp/ that defines the
# replacement.
REPLACED = [(r"\bgil_scoped_(release|acquire)\b", "GilRelease, GilAcquire", "python/gil.h")]


def problems(path: Path) -> list[str]:
    """Return one line per include of ``path`` that its folder may not have."""
    place = path.relative_to(ROOT / "cpp").as_posix()
    folder = place.split("/")[0]
    if folder not in MAY_USE:
        return [f"cpp/{place}: folder cpp/{folder} is not in the table of tools/check_includes.py"]
    inside = INSIDE.get(folder, {})
    part = place.split("/")[1]
    if inside and part not in inside:
        return [f"cpp/{place}: cpp/{folder} has only the folders {', '.join(inside)}"]
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for pattern, ours, home in REPLACED:
            if re.search(pattern, line) and place != home:
                found.append(f"cpp/{place}:{number}: use {ours} of cpp/{home}")
        if folder == "python" and IMPLEMENTS.search(line) and place not in CALLS_PYTHON:
            found.append(
                f"cpp/{place}:{number}: a class that needs no Python belongs below cpp/python"
            )
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quote, header = match.groups()
        where = f"cpp/{place}:{number}: {header}"
        if header.startswith("cpp/"):
            used = header.split("/")[1]
            if used != folder and used not in MAY_USE[folder]:
                found.append(
                    f"{where}: cpp/{folder} may use {', '.join(MAY_USE[folder]) or 'nothing'}"
                )
            other = header.split("/")[2]
            if inside and used == folder and other != part and other not in inside[part]:
                found.append(
                    f"{where}: cpp/{folder}/{part} may use {', '.join(inside[part]) or 'none'} "
                    f"of cpp/{folder}"
                )
            if not (ROOT / header).is_file():
                found.append(f"{where}: no such file")
            continue
        if quote == '"':
            found.append(f"{where}: own headers are included by their path from cpp/")
        for pattern, allowed in FOREIGN:
            if re.match(pattern, header) and not re.match(allowed, place):
                found.append(f"{where}: allowed only in cpp/{allowed}")
    return found


def main() -> int:
    """Check all sources, print the problems and return the exit code."""
    sources = [
        p for p in sorted((ROOT / "cpp").rglob("*")) if p.suffix in {".h", ".cc", ".cu", ".cuh"}
    ]
    found = [line for path in sources for line in problems(path)]
    print("\n".join(found) if found else f"{len(sources)} files, all includes point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
