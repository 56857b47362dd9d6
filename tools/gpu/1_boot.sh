#!/usr/bin/env bash
# Step 1 of the first run on a GPU: versions, devices, memory, copies, streams. About 5 minutes, most of them compiling.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
has nvidia-smi && part smi 30 nvidia-smi
part versions 120 "$PYTHON" tools/gpu/versions.py --json "$RESULTS/.$STEP.versions.json"
part memory 240 "${PYTEST[@]}" tests/python/gpu/test_memory_and_copies.py \
  tests/python/gpu/test_several_devices.py tests/python/gpu/test_gpu_profile.py --junitxml "$RESULTS/$STEP.memory.xml"
part copies 120 "$PYTHON" tools/gpu/copies.py --json "$RESULTS/.$STEP.copies.json"
finish
