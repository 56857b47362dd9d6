# shellcheck shell=bash
# Sourced by the steps beside it: unpacks build/gpu_kit/kit.tar.xz, compiles _core (once, unless the kit has it for this
# machine's Python version), and sets paths. Needs no network, but the Python packages NumPy, ml_dtypes and SciPy, the
# GPU's driver and the CUDA libraries; to compile, also g++ and Python's headers.
#   MXLITE_GPU_DIR   where it unpacks (/tmp/mxlite_gpu)
#   OUT              where results go (benchmarks/results/gpu/<device>)
#   PYTHON           the interpreter (python3)
#   STEP_SECONDS     after so many seconds a step stops its running command and starts no other (530)
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MXLITE_GPU_DIR=${MXLITE_GPU_DIR:-/tmp/mxlite_gpu}
PYTHON=${PYTHON:-python3}
STEP=$(basename "$0" .sh)
STEP_SECONDS=${STEP_SECONDS:-530}
began=$SECONDS
kit=$ROOT/build/gpu_kit/kit.tar.xz

# The folder belongs to one kit and one Python: with another of either it is unpacked and compiled again. A compilation
# that was cut short continues.
[ -e "$kit" ] || { echo "$kit is missing: run tools/gpu/pack.sh where the sources can be built" >&2; exit 2; }
identity="$(cksum <"$kit") $("$PYTHON" -c 'import sys; print(sys.version)')" || exit 2
is_done() { [ "$(cat "$MXLITE_GPU_DIR/$1" 2>/dev/null)" = "$identity" ]; }
if ! is_done unpacked; then
  rm -rf "$MXLITE_GPU_DIR"
  mkdir -p "$MXLITE_GPU_DIR/python"
  tar -C "$MXLITE_GPU_DIR" -xJf "$kit" || exit 2
  cp -r "$ROOT/python/mxlite" "$MXLITE_GPU_DIR/python/"
  # Libraries of another machine or Python version do not come along.
  find "$MXLITE_GPU_DIR/python" -name '*.so*' -delete
  mv "$MXLITE_GPU_DIR"/mxlite/* "$MXLITE_GPU_DIR/python/mxlite/"
  echo "$identity" >"$MXLITE_GPU_DIR/unpacked"
fi
if ! is_done ready; then
  # The kit has _core for the Python version that packed it; for another one it is compiled.
  core=$MXLITE_GPU_DIR/core/_core$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  if [ -e "$core" ]; then
    cp "$core" "$MXLITE_GPU_DIR/python/mxlite/"
  else
    "$PYTHON" "$ROOT/tools/gpu/compile_core.py" "$ROOT" "$MXLITE_GPU_DIR" || exit 2
  fi
  echo "$identity" >"$MXLITE_GPU_DIR/ready"
fi
# The libraries that libmxlite needs lie beside it; its search path is that of the machine that built it.
export LD_LIBRARY_PATH=$MXLITE_GPU_DIR/python/mxlite${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$MXLITE_GPU_DIR/python:$ROOT/tests/python:$ROOT/tests/python/unit${PYTHONPATH:+:$PYTHONPATH}
# The machine's own pytest is preferred; the kit brings one in case there is none.
"$PYTHON" -c 'import pytest, xdist' 2>/dev/null || export PYTHONPATH=$PYTHONPATH:$MXLITE_GPU_DIR/site
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export MXLITE_REQUIRE_GPU=1  # tests fail instead of being skipped where the backend finds no GPU
export MXLITE_CACHE_DIR=${MXLITE_CACHE_DIR:-$MXLITE_GPU_DIR/cache}
if [ -e "$MXLITE_GPU_DIR/libmxlite_fake_gpu.so" ]; then
  export MXLITE_CUDA_LIBRARY=$MXLITE_GPU_DIR/libmxlite_fake_gpu.so
  device=stand_in
else
  device=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 2>/dev/null | tr '[:upper:] ' '[:lower:]_' | tr -cd 'a-z0-9_')
fi
RESULTS=${OUT:-$ROOT/benchmarks/results/gpu/${device:-unknown}}
mkdir -p "$RESULTS"
: >"$RESULTS/$STEP.log"
: >"$RESULTS/.$STEP.parts"
failed=()

# part <name> <seconds> <command>...: writes its output to the step's log, its exit status to the step's JSON file.
part() {
  local name=$1 limit=$2 from=$SECONDS status left=$((STEP_SECONDS - (SECONDS - began)))
  shift 2
  printf '\n=== %s: %s\n' "$name" "$*" | tee -a "$RESULTS/$STEP.log"
  if [ $left -lt 5 ]; then
    echo "not begun: the step has used its $STEP_SECONDS s" | tee -a "$RESULTS/$STEP.log"
    status=124
  else
    # Tests that are cut short write their junit file: see tests/python/gpu/conftest.py.
    timeout --kill-after=10 "$((limit < left ? limit : left))" "$@" 2>&1 | tee -a "$RESULTS/$STEP.log"
    status=${PIPESTATUS[0]}
  fi
  [ "$status" = 0 ] || failed+=("$name")
  printf '%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - from))" >>"$RESULTS/.$STEP.parts"
}

# finish: writes <step>.json and exits with 1 if a part failed.
finish() {
  "$PYTHON" "$ROOT/tools/gpu/finish.py" "$STEP" "$RESULTS" "$((SECONDS - began))"
  rm -f "$RESULTS/.$STEP.parts"
  "$PYTHON" "$ROOT/tools/gpu/expected.py" --results "$RESULTS" "$STEP"
  if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}; logs in $RESULTS"
    exit 1
  fi
  echo "passed; results in $RESULTS"
}

# Names each test (-vv: the project's options have -q), so that the log has the results of a process that is killed before it
# writes its junit file, and prints where a test is that takes more than a minute.
PYTEST=("$PYTHON" -m pytest -vv -p no:cacheprovider -o faulthandler_timeout=60)
has() { command -v "$1" >/dev/null; }
