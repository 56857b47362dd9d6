#!/usr/bin/env bash
# Generates stubs and pages from the op schemas and the list of 1.9.1's names in a copy with the installed libraries, and
# compares them with the files of the tree. Tables of speed come from the committed result files.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=build/generated
rm -rf "$copy"
mkdir -p "$copy"
cp -r python docs README.md "$copy"
rm -f "$copy"/python/mxlite/*.so*
installed=$(cd / && python -c "import importlib.util as u; print(u.find_spec('mxlite').submodule_search_locations[0])")
cp "$installed"/*.so* "$copy/python/mxlite"
export PYTHONPATH=$PWD/$copy/python
python -m mxlite._dev.gen_stubs
python -m mxlite._dev.gen_compat
for folder in python docs README.md; do
  if ! diff -ru --exclude='*.so*' --exclude=__pycache__ "$folder" "$copy/$folder"; then
    echo "$folder: must be up to date; run the generators (CONTRIBUTING.md) and commit their output" >&2
    exit 1
  fi
done
python benchmarks/speed_tables.py --check
