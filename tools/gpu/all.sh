#!/usr/bin/env bash
# Runs the steps one after the other in a given number of seconds, for a machine that is available for minutes only:
#   tools/gpu/all.sh SECONDS [STEP:SHARE]...
# Each step gets its share of the seconds that are left, so what one step does not use goes to the later ones, and a step
# that fails or is cut short leaves its results and the next one begins. 10 s are kept for the end. For 15 minutes in calls
# of at most 10, the start of the machine included: tools/gpu/all.sh 570, then what its results ask for, such as
#   tools/gpu/all.sh 200 2_operators:1                          the failures under the memory checker, with LIMIT
#   tools/gpu/all.sh 200 4_resnet50:3 5_kernels:1    longer measurements
set -uo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in
  '' | *[!0-9]*) echo "seconds expected: tools/gpu/all.sh SECONDS [STEP:SHARE]..." >&2; exit 2 ;;
esac
end=$((SECONDS + $1 - 10))
shift
# Checks of correctness come before those of speed; the tuning serves ResNet-50.
[ $# -gt 0 ] || set -- 1_boot:10 2_operators:17 3_networks:9 4_resnet50:9 6_bert:4 5_kernels:4
for one in "$@"; do
  case ${one##*:} in '' | 0 | *[!0-9]*) echo "$one: STEP:SHARE expected" >&2; exit 2 ;; esac
  [ -e "$folder/${one%%:*}.sh" ] || { echo "no step ${one%%:*} in $folder" >&2; exit 2; }
done

failed=()
while [ $# -gt 0 ]; do
  step=${1%%:*}
  shares=0
  for one in "$@"; do shares=$((shares + ${one##*:})); done
  seconds=$(((end - SECONDS) * ${1##*:} / shares))
  shift
  if [ $seconds -lt 10 ]; then
    echo "== $step: not begun, no time is left"
    failed+=("$step")
    continue
  fi
  echo "== $step: $seconds s"
  STEP_SECONDS=$seconds bash "$folder/$step.sh"
  case $? in
    0) ;;
    2) echo "$step could not begin, nor can the others"; exit 2 ;;  # boot.sh ends so
    *) failed+=("$step") ;;
  esac
done
[ ${#failed[@]} -eq 0 ] || { echo "not passed: ${failed[*]}"; exit 1; }
