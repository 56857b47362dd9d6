#!/usr/bin/env bash
# Installs only the bundled wheel and NumPy into a new environment and runs tools/wheel_smoke.py in it. Then installs the shims
# and imports mxnet and horovod.mxnet.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_mb=30
wheel=$(ls wheelhouse/mxlite-*.whl)
bytes=$(stat -c %s "$wheel")
echo "$wheel: $((bytes / 1000000)) MB"
[ "$bytes" -lt $((limit_mb * 1000000)) ] || { echo "the wheel must stay below $limit_mb MB" >&2; exit 1; }

environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
root=$PWD
smoke=$PWD/tools/wheel_smoke.py
photo=$PWD/tests/data/gradient.jpg
wheels=$PWD/wheelhouse
cd "$environment"
env -i PATH=/usr/bin:/bin HOME="$environment" "$environment/bin/python" -I "$smoke" "$photo"

# C programs run without Python. They need only the wheel.
read -ra options <<< "$("$environment/bin/python" -m mxlite.config --includes --libs)"
cc "$root/examples/inference_c/classify.c" "${options[@]}" -o classify
head -c 40 /dev/zero > values.bin
classifier=$root/tests/data/mxnet_1_9_1/classifier
env -i "$PWD/classify" "$classifier-symbol.json" "$classifier-0001.params" values.bin 5

"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheels"/mxnet-*.whl "$wheels"/horovod-*.whl
cd "$environment"
env -i PATH=/usr/bin:/bin HOME="$environment" "$environment/bin/python" -I -c '
import mxnet, mxlite, horovod.mxnet
from importlib.metadata import version
from mxnet.gluon import nn
assert nn.Dense is mxlite.gluon.nn.Dense and horovod.mxnet.rank is not None
assert version("mxnet") == "1.9.1+mxlite", version("mxnet")
print("shims: import mxnet and horovod.mxnet give mxlite")'
