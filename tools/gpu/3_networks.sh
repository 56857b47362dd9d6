#!/usr/bin/env bash
# Step 3: compares networks with the CPU, without and with CUDA graphs.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
# If the step is short, each of the two runs gets half of its time.
half=$((STEP_SECONDS / 2))
for graphs in 0 1; do
  part "graphs_$graphs" 130 timeout --kill-after=10 $half env MXLITE_CUDA_GRAPHS=$graphs "${PYTEST[@]}" \
    -k "${LIMIT:-test}" --junitxml "$RESULTS/$STEP.graphs_$graphs.xml" \
    tests/python/gpu/test_networks_on_gpu.py tests/python/gpu/test_quantized_on_gpu.py
done
finish
