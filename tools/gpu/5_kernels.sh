#!/usr/bin/env bash
# Step 5: single kernels beside PyTorch in GB/s or TFLOP/s: normalizations, pooling, softmax, embedding gradients, LAMB.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
[ -z "${MXLITE_CUDA_LIBRARY:-}" ] || export MXLITE_GPU_MEMORY_LIMIT=0  # the stand-in has 1 GiB otherwise
part table 400 "$PYTHON" tools/gpu/kernels.py --scale "${SCALE:-1}" --json "$RESULTS/.$STEP.table.json"
finish
