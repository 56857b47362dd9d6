#!/usr/bin/env bash
# Step 4: ResNet-50 v1, batch 256, bfloat16: training steps beside PyTorch eager and compiled in one run, then kernels by
# time, graphs and memory. NETWORK, BATCH and STEPS choose others.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
[ -z "${MXLITE_CUDA_LIBRARY:-}" ] || export MXLITE_GPU_MEMORY_LIMIT=0  # the stand-in has 1 GiB otherwise
# Each of the two processes measures convolutions for at most a fifth of the step; the second reuses the first one's
# results.
tuning=$((STEP_SECONDS / 5))
export MXLITE_TUNING_SECONDS=${MXLITE_TUNING_SECONDS:-$((tuning < 60 ? tuning : 60))}
network=${NETWORK:-resnetv1-50}
batch=${BATCH:-256}
systems=(mxlite:hybrid)
if "$PYTHON" -c 'import torch' 2>/dev/null; then
  systems+=(torch:eager)
  [ "$STEP_SECONDS" -lt 200 ] || systems+=(torch:compile)  # compiles for a minute or more
fi
# The log says which chains of pointwise operators NVRTC compiles, and why others are interpreted.
part profile 150 env MXLITE_VERBOSE=rtc "$PYTHON" tools/gpu/profile_step.py --network "$network" --batch "$batch" \
  --steps "${STEPS:-20}" --json "$RESULTS/.$STEP.profile.json"
part training 370 "$PYTHON" benchmarks/training/train_step.py --device gpu --networks "$network" --batches "$batch" \
  --dtypes bfloat16 --systems "${systems[@]}" --peers-python "$PYTHON" --json "$RESULTS/.$STEP.training.json"
finish
