#!/usr/bin/env bash
# Step 5: training steps of BERT's encoder (base, length 128) in bfloat16 with lengths, dropout and LAMB. Lists kernels by time.
# BATCH and STEPS select other values.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
part profile 400 env MXLITE_VERBOSE=rtc "$PYTHON" tools/gpu/profile_step.py --network bert-base --batch "${BATCH:-64}" \
  --steps "${STEPS:-20}" --json "$RESULTS/.$STEP.profile.json"
finish
