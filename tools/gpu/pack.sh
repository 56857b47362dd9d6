#!/usr/bin/env bash
# Packs what a machine with a GPU lacks into build/gpu_kit (at most 50 MiB; git ignores it): the libraries,
# pybind11's headers and pytest. The sources come with the checkout; tools/gpu/boot.sh unpacks on that machine.
#   tools/gpu/pack.sh              builds libmxlite.so and libmxlite_cuda.so, kernels with line numbers
#   tools/gpu/pack.sh --stand-in   the stand-in for a GPU (tests/cpp/fake_gpu) instead, to rehearse the steps
set -euo pipefail
cd "$(dirname "$0")/../.."
kit=build/gpu_kit
build=build/gpu
cuda=ON
targets=(mxlite mxlite_cuda)
flags=(-DMXLITE_CUDA=ON -DCMAKE_CUDA_FLAGS=-lineinfo)
if [ "${1:-}" = --stand-in ]; then
  build=build/gpu_stand_in
  cuda=OFF
  targets=(mxlite mxlite_fake_gpu)
  flags=(-DMXLITE_CUDA=OFF)
fi
# OpenCV and MPI are not on every machine, and the steps need neither.
cmake --preset dev -B "$build" -DCMAKE_BUILD_TYPE=Release -DMXLITE_OPENCV=OFF -DMXLITE_MPI=OFF \
  -DMXLITE_OUTPUT_DIRECTORY="$PWD/$build/mxlite" "${flags[@]}" >/dev/null
ninja -C "$build" -j"${CUDA_JOBS:-2}" --quiet "${targets[@]}"

rm -rf "$kit"
mkdir -p "$kit/content/mxlite" "$kit/content/site" "$kit/content/include"
cp "$build"/mxlite/libmxlite.so "$kit/content/mxlite/"
if [ $cuda = ON ]; then
  cp "$build"/mxlite/libmxlite_cuda.so "$kit/content/mxlite/"
else
  cp "$build"/tests/libmxlite_fake_gpu.so "$kit/content/"
fi
dnnl=$(ldd "$build/mxlite/libmxlite.so" | sed -n 's/.*libdnnl\.so\.3 => \([^ ]*\) .*/\1/p')
cp -L "$dnnl" "$kit/content/mxlite/libdnnl.so.3"
strip --strip-unneeded "$kit"/content/mxlite/*.so*
python - "$kit/content" <<'PYTHON'
import importlib.util
import shutil
import sys
from pathlib import Path

content = Path(sys.argv[1])
ignore = shutil.ignore_patterns("__pycache__")


def folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed; make setup")
    return Path(spec.origin)


shutil.copytree(folder("pybind11").parent / "include" / "pybind11", content / "include" / "pybind11", ignore=ignore)
for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "execnet", "xdist"):
    origin = folder(name)
    if origin.name == "__init__.py":
        shutil.copytree(origin.parent, content / "site" / name, ignore=ignore)
    else:
        shutil.copy(origin, content / "site")
    for info in origin.parent.parent.glob(f"*{name}-*.dist-info"):  # entry points of plug-ins
        shutil.copytree(info, content / "site" / info.name, ignore=ignore, dirs_exist_ok=True)
PYTHON
tar -C "$kit/content" -cf - . | xz -T0 -6 >"$kit/kit.tar.xz"
rm -r "$kit/content"
size=$(($(stat -c %s "$kit/kit.tar.xz") / 1048576 + 1))
echo "$kit/kit.tar.xz: $size MiB"
[ $size -le 50 ] || { echo "more than 50 MiB" >&2; exit 1; }
