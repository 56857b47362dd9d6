#!/usr/bin/env bash
# Runs all checks that run no test. Continues after a failed check.
cd "$(dirname "$0")/.." || exit 1
status=0
step() { tools/step.sh "$@" || status=1; }
step "clang-format" tools/format.sh --dry-run -Werror
step "ruff" ruff check --quiet .
step "ruff format" ruff format --quiet --diff .
step "mypy" mypy
step "launches of kernels" python tools/check_launches.py
step "include directions" python tools/check_includes.py
step "imports" python tools/check_imports.py
step "file lengths" python tools/check_lengths.py
step "language" python tools/check_language.py
step "commit titles" python tools/check_titles.py
step "lines by folder" python tools/line_changes.py
step "generated files" tools/check_generated.sh
exit $status
