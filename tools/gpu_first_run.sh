#!/usr/bin/env bash
# What nobody has run before: builds the CUDA backend on a machine with a GPU, tests it, looks for races
# and wrong memory accesses, and measures it beside PyTorch. Goes on after a failure; results and logs
# lie in benchmarks/results/<device>/, the last line says what fell.
#   tools/gpu_first_run.sh [tests] [sanitizers] [score] [training]     all of them by default
# ARCHITECTURE=80-real for other GPUs than those of compute capability 9.0; MINUTES limits each step.
set -uo pipefail
cd "$(dirname "$0")/.."
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(tests sanitizers score training)

device=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0) || { echo "no GPU here" >&2; exit 1; }
compute=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0 | tr -d .)
name=$(tr '[:upper:] ' '[:lower:]_' <<<"$device" | tr -cd 'a-z0-9_')
results=benchmarks/results/$name
mkdir -p "$results"
failed=()
export PYTHONPATH=python

run() {  # <name> <command>...: its output into a log
  local label=$1
  shift
  printf '\n=== %s\n' "$label"
  timeout "${MINUTES:-60}m" "$@" 2>&1 | tee "$results/$label.log"
  [ "${PIPESTATUS[0]}" = 0 ] || failed+=("$label")
}
wanted() { [[ " ${steps[*]} " == *" $1 "* ]]; }

cmake --preset cuda -DCMAKE_BUILD_TYPE=Release -DMXLITE_CUDA_ARCHITECTURES="${ARCHITECTURE:-$compute-real}" >/dev/null &&
  ninja -C build/cuda -j"$(nproc)" --quiet || { echo "the build failed" >&2; exit 1; }
python -c 'import mxlite as mx; print(mx.num_gpus(), mx.gpu_memory_info(0))' || exit 1

if wanted tests; then
  run tests python -m pytest tests/python/gpu -q
  run kernels ctest --test-dir build/cuda --output-on-failure -R cuda_
  run digits python examples/digits/train.py --gpu
fi
if wanted sanitizers; then
  export MXLITE_CUDA_GRAPHS=0
  run memcheck compute-sanitizer --tool memcheck --leak-check full --error-exitcode 9 \
    python -m pytest tests/python/gpu -q -k 'not networks'
  for tool in racecheck initcheck synccheck; do
    run "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      python -m pytest tests/python/gpu/test_ops_on_gpu.py -q
  done
  unset MXLITE_CUDA_GRAPHS
fi
if wanted score || wanted training; then benchmarks/peers/setup; fi
if wanted score; then
  for dtype in float32 float16 bfloat16; do
    run "score_$dtype" python benchmarks/benchmark_score.py --ctx gpu --dtype "$dtype" \
      --json "$results/score_$dtype.json"
    run "peers_$dtype" python benchmarks/peers/run.py --device gpu --dtypes "$dtype" \
      --networks resnet-50 --batches 1 32 --json "$results/peers_$dtype.json"
  done
fi
if wanted training; then
  # PyTorch eager with channels-last memory and torch.compile take turns with mxlite in one run.
  run training python benchmarks/training/train_step.py --device gpu --networks resnet-50 --batches 256 \
    --dtypes float16 bfloat16 --json "$results/training.json"
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}; logs in $results"
  exit 1
fi
echo "all passed; commit $results"
