#!/usr/bin/env bash
# All cases of DLPerf's MXNet ResNet-50 on mxlite, with the arguments of its run_test.sh:
#   DATA_DIR=/imagenet benchmarks/dlperf/resnet50/run_test.sh [BATCH] [DTYPE]
#   python benchmarks/dlperf/extract.py logs/mxlite/resnet50/bz128
# CASES, RUNS and PAUSE (seconds between runs) choose less than DLPerf's grid of five runs each.
set -euo pipefail

batch=${1:-128} dtype=${2:-fp32}
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../arguments.sh"
run_case() { bash "$here/runner.sh" "$batch" "$1" "$2" "$dtype" "$3"; }
run_grid run_case
