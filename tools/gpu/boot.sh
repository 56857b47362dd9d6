# shellcheck shell=bash
# The steps in this folder source this file. It unpacks build/gpu_kit/kit.tar.xz (the kit, an archive made by pack.sh), compiles
# _core once if the kit does not have it for this machine's Python version, and sets paths. It needs no network. It needs the
# Python packages NumPy, ml_dtypes and SciPy, the GPU's driver and the CUDA libraries. To compile, it also needs g++ and
# Python's headers.
#   MXLITE_GPU_DIR   folder for the unpacked files (/tmp/mxlite_gpu)
#   RESULTS          folder for the files of the step ($MXLITE_GPU_DIR/results)
#   PYTHON           the interpreter (python3)
#   STEP_SECONDS     seconds, without unpacking and compiling, after which a step stops its running command and starts no
#                    other command (530)
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MXLITE_GPU_DIR=${MXLITE_GPU_DIR:-/tmp/mxlite_gpu}
PYTHON=${PYTHON:-python3}
STEP=$(basename "$0" .sh)
STEP_SECONDS=${STEP_SECONDS:-530}
kit=$ROOT/build/gpu_kit/kit.tar.xz

# The folder belongs to one kit and one Python version. If either differs, the kit is unpacked and compiled again. A compilation
# that was cut short continues.
[ -e "$kit" ] || { echo "$kit is missing: run tools/gpu/pack.sh where the sources can be built" >&2; exit 2; }
identity="$(cksum <"$kit") $("$PYTHON" -c 'import sys; print(sys.version)')" || exit 2
is_done() { [ "$(cat "$MXLITE_GPU_DIR/$1" 2>/dev/null)" = "$identity" ]; }
if ! is_done unpacked; then
  rm -rf "$MXLITE_GPU_DIR"
  mkdir -p "$MXLITE_GPU_DIR/python"
  tar -C "$MXLITE_GPU_DIR" -xJf "$kit" || exit 2
  cp -r "$ROOT/python/mxlite" "$MXLITE_GPU_DIR/python/"
  # Removes libraries of another machine or Python version.
  find "$MXLITE_GPU_DIR/python" -name '*.so*' -delete
  mv "$MXLITE_GPU_DIR"/mxlite/* "$MXLITE_GPU_DIR/python/mxlite/"
  echo "$identity" >"$MXLITE_GPU_DIR/unpacked"
fi
if ! is_done ready; then
  # The kit has _core for some versions of Python. For other versions, _core is compiled.
  core=$MXLITE_GPU_DIR/core/_core$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  if [ -e "$core" ]; then
    cp "$core" "$MXLITE_GPU_DIR/python/mxlite/"
  else
    "$PYTHON" "$ROOT/tools/gpu/compile_core.py" "$ROOT" "$MXLITE_GPU_DIR/python/mxlite" "$MXLITE_GPU_DIR/include" \
      "$MXLITE_GPU_DIR/objects" || exit 2
  fi
  echo "$identity" >"$MXLITE_GPU_DIR/ready"
fi
export PYTHONPATH=$MXLITE_GPU_DIR/python:$ROOT/tests/python:$ROOT/tests/python/unit${PYTHONPATH:+:$PYTHONPATH}
# The machine's own pytest is preferred. The kit contains pytest in case the machine has none.
"$PYTHON" -c 'import pytest, xdist' 2>/dev/null || export PYTHONPATH=$PYTHONPATH:$MXLITE_GPU_DIR/site
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export MXLITE_REQUIRE_GPU=1  # tests fail instead of being skipped if the backend finds no GPU
export MXLITE_CACHE_DIR=${MXLITE_CACHE_DIR:-$MXLITE_GPU_DIR/cache}
# Uses plans that an earlier machine of this kind has measured, from the folder cache of its results.
if [ -d "$ROOT/build/gpu_kit/cache" ] && [ ! -e "$MXLITE_CACHE_DIR" ]; then cp -r "$ROOT/build/gpu_kit/cache" "$MXLITE_CACHE_DIR"; fi
if [ -e "$MXLITE_GPU_DIR/libmxlite_fake_gpu.so" ]; then
  export MXLITE_CUDA_LIBRARY=$MXLITE_GPU_DIR/libmxlite_fake_gpu.so
  export MXLITE_GPU_MEMORY_LIMIT=0  # otherwise the stand-in for a GPU has 1 GiB
fi
RESULTS=${RESULTS:-$MXLITE_GPU_DIR/results}
mkdir -p "$RESULTS"
: >"$RESULTS/$STEP.log"
: >"$RESULTS/.$STEP.parts"
began=$SECONDS
failed=() cut=() running=
# If a step is asked to end, it writes its report first.
stop() {
  trap '' TERM
  [ -z "$running" ] || { kill "$running" && wait "$running"; }
  cut+=(step)
  finish
}
trap stop TERM

# part <name> <seconds> <command>...
# Runs the command. Writes its output to the step's log and its exit status to the step's JSON file.
part() {
  local name=$1 limit=$2 from=$SECONDS status left=$((STEP_SECONDS - (SECONDS - began)))
  shift 2
  printf '\n=== %s: %s\n' "$name" "$*" | tee -a "$RESULTS/$STEP.log"
  if [ $left -lt 5 ]; then
    echo "not begun: the step has used its $STEP_SECONDS s" | tee -a "$RESULTS/$STEP.log"
    status=124
  else
    # Tests that are cut short write their junit file; see tests/python/gpu/conftest.py.
    exec 3> >(tee -a "$RESULTS/$STEP.log")
    local tee=$!
    timeout --kill-after=10 "$((limit < left ? limit : left))" "$@" >&3 2>&1 3>&- &
    running=$!
    wait "$running"
    status=$?
    exec 3>&-
    wait "$tee"
    running=
  fi
  case $status in
    0) ;;
    124 | 137) cut+=("$name") ;;  # ended by timeout
    *) failed+=("$name") ;;
  esac
  printf '%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - from))" >>"$RESULTS/.$STEP.parts"
}

# finish
# Writes <step>.json. Exits with 1 if a part failed, and with 3 if no part failed but a part was cut short.
finish() {
  "$PYTHON" "$ROOT/tools/gpu/finish.py" "$STEP" "$RESULTS" "$((SECONDS - began))"
  rm -f "$RESULTS/.$STEP.parts"
  "$PYTHON" "$ROOT/tools/gpu/expected.py" --results "$RESULTS" "$STEP"
  [ ${#cut[@]} -eq 0 ] || echo "cut short by the time limit: ${cut[*]}"
  [ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; logs in $RESULTS"; exit 1; }
  [ ${#cut[@]} -eq 0 ] || exit 3
  echo "passed; results in $RESULTS"
}

# Names each test (-vv is needed, because the project's options have -q). If a process is killed before it writes its junit
# file, the log thus has its results. Prints the position of a test that takes more than a minute.
PYTEST=("$PYTHON" -m pytest -vv -p no:cacheprovider -o faulthandler_timeout=60)
has() { command -v "$1" >/dev/null; }
# Prints the given systems if this Python has PyTorch.
with_torch() { "$PYTHON" -c 'import torch' 2>/dev/null && echo "$@"; }
# Lets a process measure convolutions for at most a fifth of the step.
limit_tuning() {
  local seconds=$((STEP_SECONDS / 5))
  export MXLITE_TUNING_SECONDS=${MXLITE_TUNING_SECONDS:-$((seconds < 60 ? seconds : 60))}
}
