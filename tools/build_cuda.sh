#!/usr/bin/env bash
# Compiles and links libmxlite_cuda.so into build/cuda, and runs those of its tests that need no GPU. Uses the wheel's flags, so
# that the compiler cache has all objects that are not CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
werror=OFF
[ -z "${CI:-}" ] || werror=ON
# With this option, sanitizers and profilers name lines of kernels. tools/gpu/pack.sh packs the same objects.
export CUDAFLAGS=-lineinfo
# The compiler cache treats g++ and c++ as two compilers. Uses the wheel's compiler, so that nothing is compiled twice.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' build/wheel/CMakeCache.txt 2>/dev/null || true)
cmake --preset cuda ${compiler:+-DCMAKE_CXX_COMPILER="$compiler"} -DCMAKE_BUILD_TYPE=Release -DMXLITE_TESTS=ON -DMXLITE_GROUPED=ON -DMXLITE_WERROR=$werror \
  -DMXLITE_OUTPUT_DIRECTORY="$PWD/build/cuda/mxlite" >build-cuda.log || { cat build-cuda.log; rm build-cuda.log; exit 1; }
rm build-cuda.log
ninja -C build/cuda -j"${CUDA_JOBS:-2}" --quiet mxlite_cuda cuda_plugin_kernels_test \
  cuda_plugin_convolution_graph_test cuda_plugin_attention_graph_test cuda_plugin_gemm_preference_test rtc_chain_test
library=build/cuda/mxlite/libmxlite_cuda.so
ls -l --block-size=MiB "$library"
# Checks that the entry point is exported, and that libmxlite.so or the CUDA libraries provide all needed symbols.
nm -D --defined-only "$library" | grep -q ' T mxlite_plugin_load$' || { echo "no mxlite_plugin_load" >&2; exit 1; }
if ldd -r "$library" 2>&1 | grep -E 'not found|undefined symbol'; then exit 1; fi
# NVRTC compiles generated kernels. It needs no GPU.
export MXLITE_REQUIRE_NVRTC=1
MXLITE_NVRTC_LIBRARY=$(sed -n 's/^MXLITE_libnvrtc:[^=]*=//p' build/cuda/CMakeCache.txt)
export MXLITE_NVRTC_LIBRARY
ctest --test-dir build/cuda --output-on-failure --no-tests=error -R '^cuda_plugin_|RealNvrtc'
