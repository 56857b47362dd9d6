#!/usr/bin/env bash
# Stubs and reference pages come from the op schema: generate them again, nothing may change.
set -euo pipefail
cd "$(dirname "$0")/.."
python -m mxlite._dev.gen_stubs
python -m mxlite._dev.gen_docs
changes=$(git status --porcelain -- python docs)
if [ -n "$changes" ]; then
  git --no-pager diff -- python docs
  echo "$changes"
  echo "not up to date: run the two generators (CONTRIBUTING.md) and commit what they write" >&2
  exit 1
fi
