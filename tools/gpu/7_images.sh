#!/usr/bin/env bash
# Step 7: JPEG images that nvJPEG decodes (MXLITE_NVJPEG=1): its tests, then batches of photographs beside the CPU's, and
# images per second of both. IMAGES and BATCH choose other sizes.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
part tests 200 "${PYTEST[@]}" tests/python/gpu/test_nvjpeg_on_gpu.py \
  --junitxml "$RESULTS/$STEP.tests.xml"
part batches 300 env MXLITE_NVJPEG=1 "$PYTHON" tools/gpu/images.py --photos "$MXLITE_GPU_DIR/photos" \
  --images "${IMAGES:-4096}" --batch "${BATCH:-256}" --json "$RESULTS/.$STEP.batches.json"
finish
