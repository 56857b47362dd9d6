#!/usr/bin/env bash
# Step 1 of the first run on a GPU, about 45 s. Prints the driver and versions, then compares each primitive once with NumPy and
# prints a line for each primitive.
. "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
cd "$ROOT" || exit 2
has nvidia-smi && part smi 10 nvidia-smi
part versions 30 "$PYTHON" tools/gpu/versions.py --json "$RESULTS/.$STEP.versions.json"
part smoke 120 "$PYTHON" tools/gpu/smoke.py --json "$RESULTS/.$STEP.smoke.json"
finish
