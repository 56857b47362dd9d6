#!/usr/bin/env bash
# usage: tools/sanitize.sh tsan|asan [CTEST OPTIONS]   runs C++ tests of the lower folders under a sanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset "$1" >/dev/null
cmake --build --preset "$1" -- --quiet
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1"
export UBSAN_OPTIONS="print_stacktrace=1"
ctest --preset "$1" -j2 --no-tests=error "${@:2}"
