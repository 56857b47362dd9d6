#!/usr/bin/env bash
# usage: tools/format.sh CLANG-FORMAT-OPTIONS   over all C++ sources
set -euo pipefail
cd "$(dirname "$0")/.."
find cpp include examples tests/cpp \( -name '*.cc' -o -name '*.c' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 | xargs -0 clang-format --style=file "$@"
