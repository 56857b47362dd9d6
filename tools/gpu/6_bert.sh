#!/usr/bin/env bash
# Step 6: training steps of BERT's encoder (base, length 128) in bfloat16, kernels by time. BATCH and STEPS choose others.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
[ -z "${MXLITE_CUDA_LIBRARY:-}" ] || export MXLITE_GPU_MEMORY_LIMIT=0  # the stand-in has 1 GiB otherwise
# The log says which chains of pointwise operators NVRTC compiles, and why others are interpreted.
part profile 400 env MXLITE_VERBOSE=rtc "$PYTHON" tools/gpu/profile_step.py --network bert-base --batch "${BATCH:-64}" \
  --steps "${STEPS:-20}" --json "$RESULTS/.$STEP.profile.json"
finish
