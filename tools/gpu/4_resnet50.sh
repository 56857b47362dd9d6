#!/usr/bin/env bash
# Step 4: ResNet-50 v1 with batch 256 in bfloat16. Lists kernels by time, graphs and memory, and then compares training steps
# with PyTorch eager. NETWORK, BATCH and STEPS select other values. green.sh adds torch.compile.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
# Each of the two processes measures convolutions for at most a fifth of the step. The second process reuses the results of the
# first.
limit_tuning
# The log says which chains of pointwise operators NVRTC compiles and why other chains are interpreted.
part profile 150 env MXLITE_VERBOSE=rtc "$PYTHON" tools/gpu/profile_step.py --network "${NETWORK:-resnetv1-50}" \
  --batch "${BATCH:-256}" --steps "${STEPS:-20}" --json "$RESULTS/.$STEP.profile.json"
part training 370 "$PYTHON" benchmarks/training/train_step.py --device gpu --networks "${NETWORK:-resnetv1-50}" \
  --batches "${BATCH:-256}" --dtypes bfloat16 --systems mxlite:hybrid $(with_torch torch:eager) --peers-python "$PYTHON" \
  --json "$RESULTS/.$STEP.training.json"
finish
