#!/usr/bin/env bash
# All cases of DLPerf's MXNet ResNet-50 on mxlite, with the arguments of its run_test.sh:
#   DATA_DIR=/imagenet benchmarks/dlperf/resnet50/run_test.sh [BATCH] [DTYPE]
#   python benchmarks/dlperf/extract.py logs/mxlite/resnet50/bz128
# CASES, RUNS and PAUSE (seconds between runs) choose less than DLPerf's grid of five runs each.
set -euo pipefail

batch=${1:-128} dtype=${2:-fp32}
here=$(cd "$(dirname "$0")" && pwd)
grid=${CASES:-1n1g 1n2g 1n4g 1n8g 2n8g 4n8g}
for case in $grid; do
  if ! [[ $case =~ ^[1-9][0-9]*n[1-9][0-9]*g$ ]]; then
    echo "run_test.sh: case '$case' in CASES, NnGg such as 1n8g expected" >&2
    exit 2
  fi
done
if ! [[ ${RUNS:-5} =~ ^[1-9][0-9]*$ ]]; then
  echo "run_test.sh: RUNS is '$RUNS', a number from 1 expected" >&2
  exit 2
fi
for run in $(seq "${RUNS:-5}"); do
  for case in $grid; do
    nodes=${case%n*}
    devices=${case#*n}
    gpus=$(seq -s, 0 $((${devices%g} - 1)))
    bash "$here/runner.sh" "$batch" "$gpus" "$nodes" "$dtype" "$run"
    sleep "${PAUSE:-20}"
  done
done
