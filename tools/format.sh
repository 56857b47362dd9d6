#!/usr/bin/env bash
# usage: tools/format.sh CLANG-FORMAT-OPTIONS   over all C++ sources
set -euo pipefail
cd "$(dirname "$0")/.."
find cpp tests/cpp \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 | xargs -0 clang-format --style=file "$@"
