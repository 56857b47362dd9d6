#!/usr/bin/env bash
# One run of DLPerf's MXNet BERT on mxlite, with the arguments of its pretrain.sh:
#   DATA_DIR=/data benchmarks/dlperf/bert/runner.sh MODEL BATCH STEPS GPUS NODES DTYPE RUN [options]
# BATCH counts for each device, GPUS is a list such as 0,1,2, NODES take their addresses from NODE1,
# NODE2, ...; MODEL is base, large or bert_L_U_H, DTYPE fp32, fp16 or bf16. Further options go to
# pretrain.py. DATA_DIR holds train.npz and vocab.txt as examples/bert/prepare.py writes them.
# DEVICE=cpu counts GPUS as processes.
set -euo pipefail

model=${1:-base} batch=${2:-32} steps=${3:-200} gpus=${4:-0} nodes=${5:-1} dtype=${6:-fp32} run=${7:-1}
shift $(($# < 7 ? $# : 7))
root=$(cd "$(dirname "$0")/../../.." && pwd)
: "${DATA_DIR:?runner.sh: DATA_DIR is not set, expected the folder of train.npz and vocab.txt}"

source "$root/benchmarks/dlperf/arguments.sh"
check_numbers batch steps nodes run
choose_type
choose_processes
ranks=$((nodes * per_node))
case $model in
  base) network=bert_12_768_12 ;;
  large) network=bert_24_1024_16 ;;
  bert_*) network=$model ;;
  *) wrong_argument "model '$model' given, base, large or bert_L_U_H" ;;
esac

options=(--data "$DATA_DIR/train.npz" --vocab "$DATA_DIR/vocab.txt" --model "$network")
options+=(--total_batch_size $((batch * ranks)) --num_steps "$steps" --dtype "$type" --log_interval 1)
options+=(--max_seq_length 128 --max_predictions_per_seq 20 --lr 1e-4 --warmup_ratio 1)
options+=(--optimizer bertadam --comm_backend horovod --no_compute_acc --ckpt_dir "")
options+=(--latency_unit batch)
if [ "${DEVICE:-gpu}" != cpu ]; then
  options+=(--gpus local)
  export CUDA_VISIBLE_DEVICES=$gpus
fi

log=${LOG_DIR:-logs}/mxlite/bert/bz$batch/${nodes}n${per_node}g/bert_b${batch}_${dtype}_$run.log
mkdir -p "$(dirname "$log")"
echo "log: $log"
${PYTHON:-python} -m mxlite.run "${launch[@]}" ${PYTHON:-python} \
  "$root/examples/bert/pretrain.py" "${options[@]}" "$@" 2>&1 | tee "$log"
