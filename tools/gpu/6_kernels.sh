#!/usr/bin/env bash
# Step 6: compares single kernels with PyTorch in GB/s or TFLOP/s (normalizations, pooling, softmax, embedding gradients, LAMB,
# vocabulary products), and then measures copies between host and GPU.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
part table 400 "$PYTHON" tools/gpu/kernels.py --scale "${SCALE:-1}" --json "$RESULTS/.$STEP.table.json"
part copies 60 "$PYTHON" tools/gpu/copies.py --json "$RESULTS/.$STEP.copies.json"
finish
