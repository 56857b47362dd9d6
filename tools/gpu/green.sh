#!/usr/bin/env bash
# The second call if all tests passed. Compares ResNet-50 with torch.compile, using the plans that were measured in the first
# call. Then reads counters of five kernels with Nsight Compute. NETWORK, BATCH and SCALE select other sizes.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
limit_tuning
part training 150 "$PYTHON" benchmarks/training/train_step.py --device gpu --networks "${NETWORK:-resnetv1-50}" \
  --batches "${BATCH:-256}" --dtypes bfloat16 --systems mxlite:hybrid $(with_torch torch:compile) \
  --peers-python "$PYTHON" --json "$RESULTS/.$STEP.training.json"
kernels='regex:sum_columns|gather_maxima|normalize_warps|join_splits|extend_rows'
if has ncu; then
  part counters 100 ncu --set basic --kernel-name "$kernels" --launch-count 12 "$PYTHON" tools/gpu/kernels.py --once \
    --scale "${SCALE:-1}" --json "$RESULTS/.$STEP.counters.json"
else
  echo "no ncu on this machine: no counters" | tee -a "$RESULTS/$STEP.log"
fi
finish
