#!/usr/bin/env bash
# One run of DLPerf's MXNet ResNet-50 on mxlite, with the arguments of its runner.sh:
#   DATA_DIR=/imagenet benchmarks/dlperf/resnet50/runner.sh BATCH GPUS NODES DTYPE RUN [options]
# BATCH counts for each device, GPUS is a list such as 0,1,2, NODES take their addresses from NODE1,
# NODE2, ...; DTYPE is fp32, fp16 or bf16. Further options go to train_imagenet.py. DATA_DIR holds
# train.rec and, for validation, val.rec with their indices. DEVICE=cpu counts GPUS as processes.
set -euo pipefail

batch=${1:-128} gpus=${2:-0} nodes=${3:-1} dtype=${4:-fp32} run=${5:-1}
shift $(($# < 5 ? $# : 5))
root=$(cd "$(dirname "$0")/../../.." && pwd)
: "${DATA_DIR:?runner.sh: DATA_DIR is not set, expected the folder of train.rec}"

source "$root/benchmarks/dlperf/arguments.sh"
check_numbers batch nodes run
choose_type
choose_processes

options=(--mode=hybrid --model=resnet50_v1b --use-rec --rec-train "$DATA_DIR/train.rec")
if [ -e "$DATA_DIR/val.rec" ]; then
  options+=(--rec-val "$DATA_DIR/val.rec" --eval-frequency 0)
else
  options+=(--rec-val "")
fi
options+=(--batch-size "$batch" --dtype "$type" --log-interval=1 --save-frequency=10000 --lr=0.001)
options+=(--momentum=0.875 --wd=0.000030518 --num-epochs=1 --warmup-epochs=1)
# DLPerf stopped its runs after 120 batches by an edit of the script.
options+=(--max-batches 120 --save-dir "" --logging-file "")
if [ "${DEVICE:-gpu}" = cpu ]; then options+=(--no-cuda); else export CUDA_VISIBLE_DEVICES=$gpus; fi

log=${LOG_DIR:-logs}/mxlite/resnet50/bz$batch/${nodes}n${per_node}g/rn50_b${batch}_${dtype}_$run.log
mkdir -p "$(dirname "$log")"
echo "log: $log"
${PYTHON:-python} -m mxlite.run "${launch[@]}" ${PYTHON:-python} \
  "$root/examples/gluon/train_imagenet.py" "${options[@]}" "$@" 2>&1 | tee "$log"
