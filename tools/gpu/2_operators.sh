#!/usr/bin/env bash
# Step 2: runs every row of the operator table, and the tests of single operators, of memory and of profiles, in parallel
# processes. Kernels run one by one without tuning. If a process breaks its GPU, it ends and a new process continues.
# LIMIT=<pytest -k expression> selects fewer tests.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
export MXLITE_CUDA_GRAPHS=0 MXNET_CUDNN_AUTOTUNE_DEFAULT=0
export OMP_NUM_THREADS=1
# Leaves out the tests of step 3 and tests that need several GPUs.
others=()
for file in several_devices device_buckets_on_gpus networks_on_gpu quantized_on_gpu; do
  others+=("--ignore=tests/python/gpu/test_$file.py")
done
part table 400 "${PYTEST[@]}" -q -n "${PROCESSES:-$(nproc)}" --max-worker-restart 200 \
  -k "${LIMIT:-test}" --junitxml "$RESULTS/$STEP.table.xml" "${others[@]}" tests/python/gpu
# red.sh runs these tests under the memory checker while the machine is still available.
"$PYTHON" tools/gpu/failures.py "$RESULTS/$STEP.table.xml" 3 >"$MXLITE_GPU_DIR/failed"
finish
