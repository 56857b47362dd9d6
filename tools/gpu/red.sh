#!/usr/bin/env bash
# The second call if tests failed. Runs the memory checker on at most three of the failed tests, each in its own process.
# TESTS="<id> <id>" selects other tests. The default are the failures that step 2 found on this machine.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
export MXLITE_CUDA_GRAPHS=0 MXNET_CUDNN_AUTOTUNE_DEFAULT=0
mapfile -t tests < <(if [ -n "${TESTS:-}" ]; then tr ' ' '\n' <<<"$TESTS"; else cat "$MXLITE_GPU_DIR/failed"; fi | head -3)
[ ${#tests[@]} -gt 0 ] || { echo "red.sh: TESTS must be set, because no failed test is known" >&2; exit 2; }
# A process with the CUDA libraries takes 20 to 40 s to start under the checker.
share=$(((STEP_SECONDS - 5) / ${#tests[@]}))
number=0
for test in "${tests[@]}"; do
  number=$((number + 1))
  part "memcheck_$number" $share ${CHECKER-compute-sanitizer --tool memcheck --error-exitcode 9} "${PYTEST[@]}" -x "$test"
done
finish
