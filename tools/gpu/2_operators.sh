#!/usr/bin/env bash
# Step 2: every row of the operator table and the tests of single operators in parallel processes, single kernels, no
# tuning; then races in pooled regions, suppression and relu's bits, and the memory checker on the first that failed. A
# process whose GPU breaks ends, and a new one continues. LIMIT=<pytest -k expression> shortens it.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
export MXLITE_CUDA_GRAPHS=0 MXNET_CUDNN_AUTOTUNE_DEFAULT=0
export OMP_NUM_THREADS=1
# Leaves out the tests that other steps run.
others=()
for file in memory_and_copies several_devices device_buckets_on_gpus gpu_profile networks_on_gpu quantized_on_gpu; do
  others+=("--ignore=tests/python/gpu/test_$file.py")
done
part table 400 "${PYTEST[@]}" -q -n "${PROCESSES:-$(nproc)}" --max-worker-restart 200 \
  -k "${LIMIT:-test}" --junitxml "$RESULTS/$STEP.table.xml" "${others[@]}" tests/python/gpu
"$PYTHON" tools/gpu/failures.py "$RESULTS/$STEP.table.xml" 3 >"$RESULTS/.$STEP.failed"
# 400 s for the table, 60 s for races and what is left of 530 s for the memory checker.
if has compute-sanitizer; then
  part racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 9 "${PYTEST[@]}" \
    "tests/python/gpu/test_regions_on_gpu.py::test_gradients_equal_those_of_the_cpu[float32-ROIPooling]" \
    "tests/python/gpu/test_regions_on_gpu.py::test_gradients_equal_those_of_the_cpu[float32-ROIAlign]" \
    "tests/python/gpu/test_suppression_on_gpu.py::test_box_nms[-1-65]" \
    "tests/python/gpu/test_suppression_on_gpu.py::test_multibox_detection[False-100]" \
    "tests/python/gpu/test_relu_bits_on_gpu.py::test_values_and_gradients_are_bit_equal[float16-shape0-1]" \
    "tests/python/gpu/test_relu_bits_on_gpu.py::test_values_and_gradients_are_bit_equal[float16-shape3--1]"
fi
if has compute-sanitizer && [ -s "$RESULTS/.$STEP.failed" ]; then
  mapfile -t tests <"$RESULTS/.$STEP.failed"
  part memcheck 110 compute-sanitizer --tool memcheck --error-exitcode 9 \
    "${PYTEST[@]}" "${tests[@]}"
fi
rm -f "$RESULTS/.$STEP.failed"
finish
