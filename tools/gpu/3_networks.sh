#!/usr/bin/env bash
# Step 3: networks against the CPU, without and with CUDA graphs; digits; races in 30 kernels that share memory.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
# If the step is short, each of the two runs gets half of its time.
half=$((STEP_SECONDS / 2))
for graphs in 0 1; do
  part "graphs_$graphs" 130 timeout --kill-after=10 $half env MXLITE_CUDA_GRAPHS=$graphs "${PYTEST[@]}" \
    -k "${LIMIT:-test}" --junitxml "$RESULTS/$STEP.graphs_$graphs.xml" \
    tests/python/gpu/test_networks_on_gpu.py tests/python/gpu/test_quantized_on_gpu.py
done
if "$PYTHON" -c 'import sklearn' 2>/dev/null; then
  part digits 60 "$PYTHON" examples/digits/train.py --gpu --file "$MXLITE_GPU_DIR/digits"
fi
kernels='softmax or LayerNorm or BatchNorm or GroupNorm or InstanceNorm or L2Normalization or sum or mean or prod or norm'
kernels+=' or max or argmax or topk or sort or cumsum or Embedding or take or Pooling or box_nms or CTCLoss or logsumexp'
kernels+=' or linalg or ROIPooling or multi_sgd or lamb or scatter_nd or gather_nd or pick or moments or erfinv'
if has compute-sanitizer; then
  for tool in racecheck synccheck; do
    part $tool 100 env MXLITE_CUDA_GRAPHS=0 compute-sanitizer --tool $tool --error-exitcode 9 "${PYTEST[@]}" \
      -x tests/python/gpu/test_ops_on_gpu.py -k "test_values and ($kernels)"
  done
fi
finish
