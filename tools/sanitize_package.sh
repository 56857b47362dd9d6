#!/usr/bin/env bash
# usage: tools/sanitize_package.sh [PYTEST ARGUMENTS]   Python's tests with libmxlite.so and _core under the address and
# undefined-behavior sanitizers. Default: the small cases of all operators, errors, graphs, autograd, symbols, files.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/asan-package
cmake --preset asan-package >/dev/null
ninja -C $build -j"${SANITIZE_JOBS:-2}" --quiet
# The package's Python files beside the instrumented libraries.
find python/mxlite -name '*.so' -prune -o -type f \( -name '*.py' -o -name '*.json' \) -print |
  while read -r file; do
    mkdir -p "$build/$(dirname "${file#python/}")"
    cp "$file" "$build/${file#python/}"
  done
[ $# -gt 0 ] || set -- tests/python/unit/test_ops.py tests/python/unit/test_op_errors.py \
  tests/python/unit/test_bad_input.py tests/python/unit/test_graph.py tests/python/unit/test_autograd.py \
  tests/python/unit/test_symbol.py tests/python/unit/test_symbol_files.py tests/python/unit/test_serialization.py \
  tests/python/unit/test_sparse_array.py tests/python/io
# Python itself is not instrumented: the sanitizers' runtime must be there first. CPython and NumPy keep memory on purpose.
preload="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so) $(g++ -print-file-name=libstdc++.so.6)"
export ASAN_OPTIONS="detect_leaks=0 detect_stack_use_after_return=1 allocator_may_return_null=1 handle_segv=1"
export UBSAN_OPTIONS="print_stacktrace=1"
PYTHONPATH=$build LD_PRELOAD=$preload python -m pytest -x -p no:cacheprovider "$@"
