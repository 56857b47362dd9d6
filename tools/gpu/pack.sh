#!/usr/bin/env bash
# Packs everything that a machine with a GPU lacks into build/gpu_kit (at most 50 MiB; git ignores this folder): the libraries,
# _core for this Python and for those of VERSIONS ("3.11 3.12 3.13") that this machine has with their headers, pybind11's
# headers to compile _core for other versions, pytest and pytest-xdist (from PyPI). The checkout has the sources.
# tools/gpu/boot.sh unpacks the kit.
#   tools/gpu/pack.sh              builds libmxlite.so and libmxlite_cuda.so, with line numbers for kernels
#   tools/gpu/pack.sh --stand-in   instead builds the stand-in for a GPU (tests/cpp/fake_gpu), to rehearse the steps
set -euo pipefail
cd "$(dirname "$0")/../.."
kit=build/gpu_kit
build=build/gpu
cuda=ON
werror=OFF
targets=(mxlite mxlite_cuda _core)
flags=(-DMXLITE_CUDA=ON)
export CUDAFLAGS=-lineinfo  # like tools/build_cuda.sh, so that the compiler cache serves both
[ -z "${CI:-}" ] || werror=ON
if [ "${1:-}" = --stand-in ]; then
  build=build/gpu_stand_in
  cuda=OFF
  targets=(mxlite mxlite_fake_gpu _core)
  flags=(-DMXLITE_CUDA=OFF)
fi
# The scripts for the GPU machine need no MPI. The bindings need the image pipeline, so the kit contains its libraries.
cmake --preset dev -B "$build" -DCMAKE_BUILD_TYPE=Release -DMXLITE_MPI=OFF \
  -DMXLITE_WERROR=$werror -DMXLITE_OUTPUT_DIRECTORY="$PWD/$build/mxlite" "${flags[@]}" >/dev/null
ninja -C "$build" -j"${CUDA_JOBS:-2}" --quiet "${targets[@]}"

rm -rf "$kit"/content "$kit"/kit.tar.xz  # keeps plans in $kit/cache
mkdir -p "$kit"/content/{mxlite,core,site,include}
cp "$build"/mxlite/_core.*.so "$kit/content/core/"
cp "$build"/mxlite/libmxlite.so "$kit/content/mxlite/"
if [ $cuda = ON ]; then
  cp "$build"/mxlite/libmxlite_cuda.so "$kit/content/mxlite/"
else
  cp "$build"/tests/libmxlite_fake_gpu.so "$kit/content/"
fi
# The libraries that libmxlite.so needs (oneDNN, OpenCV and their dependencies), except those that every g++ has.
ldd "$build/mxlite/libmxlite.so" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | while read -r name path; do
  case $name in
    libc.so* | libm.so* | libmvec.so* | libdl.so* | librt.so* | libpthread.so* | libstdc++.so* | libgcc_s.so* | libgomp.so*) ;;
    *) cp -L "$path" "$kit/content/mxlite/$name" ;;
  esac
done
# Compiles _core for other versions of Python. The objects stay in $build for the next kit.
pybind11=$(python -c 'import pathlib, pybind11; print(pathlib.Path(pybind11.__file__).parent / "include")')
suffix='import os, sys, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")
print("%d.%d" % sys.version_info[:2], sysconfig.get_config_var("EXT_SUFFIX"))'
for version in ${VERSIONS-3.11 3.12 3.13}; do
  found=
  for other in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
    [[ $("$other" -c "$suffix" 2>/dev/null) == "$version "* ]] && found=$other && break
  done
  if [ -z "$found" ]; then
    echo "no Python $version with headers here: a machine with that version compiles _core itself"
    continue
  fi
  name=_core$("$found" -c "$suffix" | cut -d' ' -f2)
  [ ! -e "$kit/content/core/$name" ] || continue
  JOBS=${CUDA_JOBS:-2} "$found" tools/gpu/compile_core.py . "$build/mxlite" "$pybind11" "$build/core-$version"
  mv "$build/mxlite/$name" "$kit/content/core/"
done
strip --strip-unneeded "$kit"/content/mxlite/*.so* "$kit"/content/core/*.so
# Libraries are searched for next to the library that needs them, not in the folders of this machine.
for library in "$kit"/content/mxlite/*.so* "$kit"/content/core/*.so; do patchelf --set-rpath '$ORIGIN' "$library"; done
[ $cuda = ON ] || patchelf --set-rpath '$ORIGIN/python/mxlite' "$kit/content/libmxlite_fake_gpu.so"
cp -r "$pybind11/pybind11" "$kit/content/include/"
# These wheels contain only Python code, so they also serve other versions of Python.
python -m pip install --quiet --disable-pip-version-check --no-compile --only-binary=:all: \
  --target "$kit/content/site" pytest pytest-xdist
tar -C "$kit/content" -cf - . | xz -T0 -9 >"$kit/kit.tar.xz"
rm -r "$kit/content"
size=$(($(stat -c %s "$kit/kit.tar.xz") / 1048576 + 1))
echo "$kit/kit.tar.xz: $size MiB"
[ $size -le 50 ] || { echo "more than 50 MiB" >&2; exit 1; }
