#!/usr/bin/env bash
# Step 2: every row of the operator table, the tests of single operators, of memory and of profiles in parallel processes,
# single kernels, no tuning. A process whose GPU breaks ends, and a new one continues. LIMIT=<pytest -k expression>
# shortens it.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
export MXLITE_CUDA_GRAPHS=0 MXNET_CUDNN_AUTOTUNE_DEFAULT=0
export OMP_NUM_THREADS=1
# Leaves out the tests of step 3, and those that need several GPUs.
others=()
for file in several_devices device_buckets_on_gpus networks_on_gpu quantized_on_gpu; do
  others+=("--ignore=tests/python/gpu/test_$file.py")
done
part table 400 "${PYTEST[@]}" -q -n "${PROCESSES:-$(nproc)}" --max-worker-restart 200 \
  -k "${LIMIT:-test}" --junitxml "$RESULTS/$STEP.table.xml" "${others[@]}" tests/python/gpu
# red.sh runs these under the memory checker, on a machine that has not been given back.
"$PYTHON" tools/gpu/failures.py "$RESULTS/$STEP.table.xml" 3 >"$MXLITE_GPU_DIR/failed"
finish
