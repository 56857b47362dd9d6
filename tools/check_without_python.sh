#!/usr/bin/env bash
# Builds libmxlite.so with MXLITE_PYTHON=OFF, and the C++ tests that run networks from files. ccache has most objects from the
# wheel's build, which uses the same flags.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/without_python
rm -rf "$build"
mkdir -p "$build"
cmake --no-warn-unused-cli -S . -B "$build" -G Ninja -DMXLITE_PYTHON=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON -DMXLITE_TESTS=ON \
  -DMXLITE_MPI=OFF -DMXLITE_GROUPED=ON -DMXLITE_WERROR="${CI:+ON}" -DMXLITE_ONEDNN_ROOT="$(dirname "$(dirname "$(command -v python)")")" \
  > "$build/configure.log" || { cat "$build/configure.log"; exit 1; }
ninja -C "$build" --quiet symbol_bound_graph_test predict_test
"$build/tests/symbol_bound_graph_test"
"$build/tests/predict_test"
if ldd "$build/lib/libmxlite.so" | grep -i python; then
  echo "libmxlite.so must not need Python" >&2
  exit 1
fi
