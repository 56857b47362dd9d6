#!/usr/bin/env bash
# Runs the steps one after the other in a given number of seconds, for a machine that is available only for minutes:
#   tools/gpu/all.sh SECONDS [STEP:SHARE]...
# Each step gets its share of the seconds that are left, so later steps get the time that a step does not use. If a step fails
# or is cut short, its results are kept and the next step begins. The last 20 s are reserved for packing the results.
# The script writes two files to $OUT (default: benchmarks/results/gpu), even if SIGTERM ends it. summary.txt is for a first
# look. results.tar.xz has logs, JSON, junit files and the plans that were measured.
# If the machine is available for 15 minutes including its start, and a call may take 10 minutes, run tools/gpu/all.sh 570 and
# then
#   tools/gpu/all.sh 200 red:1       if tests failed
#   tools/gpu/all.sh 270 green:1     if no test failed
set -uo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in
  '' | *[!0-9]*) echo "seconds expected: tools/gpu/all.sh SECONDS [STEP:SHARE]..." >&2; exit 2 ;;
esac
end=$((SECONDS + $1 - 20))
shift
# The smoke step shows failures early. Checks of correctness come before those of speed. green.sh uses the tuning of
# ResNet-50.
[ $# -gt 0 ] || set -- 1_smoke:5 2_operators:17 3_networks:6 4_resnet50:15 5_bert:6 6_kernels:6
for one in "$@"; do
  case ${one##*:} in '' | 0 | *[!0-9]*) echo "all.sh: arguments must be STEP:SHARE, got $one" >&2; exit 2 ;; esac
  [ -e "$folder/${one%%:*}.sh" ] || { echo "no step ${one%%:*} in $folder" >&2; exit 2; }
done

export MXLITE_GPU_DIR=${MXLITE_GPU_DIR:-/tmp/mxlite_gpu} PYTHON=${PYTHON:-python3}
export RESULTS=$MXLITE_GPU_DIR.results  # next to the folder, because boot.sh removes the folder when it unpacks
out=${OUT:-$folder/../../benchmarks/results/gpu}
rm -rf "$RESULTS"
mkdir -p "$RESULTS" "$out"
pack() {
  trap - EXIT
  trap '' TERM INT
  local step
  for step in $(jobs -p); do  # also stops the children of the step, because they would keep the output open
    kill -- "-$step" 2>/dev/null || kill "$step" 2>/dev/null
    wait "$step"
  done
  cache=${MXLITE_CACHE_DIR:-$MXLITE_GPU_DIR/cache}
  [ ! -d "$cache" ] || { mkdir -p "$RESULTS/cache" && cp "$cache"/*.plans "$RESULTS/cache/" 2>/dev/null; }
  "$PYTHON" "$folder/summary.py" "$RESULTS" >"$out/summary.txt"
  tar -C "$RESULTS" -cf - . | xz -T0 >"$out/results.tar.xz"
  echo "== summary in $out/summary.txt, all results in $out/results.tar.xz"
}
trap pack EXIT
trap 'exit 143' TERM INT

failed=() cut=()
while [ $# -gt 0 ]; do
  step=${1%%:*}
  shares=0
  for one in "$@"; do shares=$((shares + ${one##*:})); done
  seconds=$(((end - SECONDS) * ${1##*:} / shares))
  shift
  if [ $seconds -lt 10 ]; then
    echo "== $step: not begun, no time is left"
    cut+=("$step")
    continue
  fi
  echo "== $step: $seconds s"
  STEP_SECONDS=$seconds setsid bash "$folder/$step.sh" &
  wait $!
  status=$?
  case $status in
    0) ;;
    2) echo "$step could not begin, and the other steps cannot begin either"; exit 2 ;;  # the exit code of boot.sh
    3) cut+=("$step") ;;
    *) failed+=("$step") ;;
  esac
done
[ ${#cut[@]} -eq 0 ] || echo "cut short: ${cut[*]}"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
[ ${#cut[@]} -eq 0 ] || exit 3
