#!/usr/bin/env bash
# Installs missing Debian packages and the Python environment .venv.
# tools/setup.sh build   installs the requirements of building and scoring
# tools/setup.sh all     also installs the requirements of the checks
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

# Each line has a package and a command that succeeds if the package is not needed.
packages='
g++                   command -v g++
cmake                 command -v cmake
ninja-build           command -v ninja
ccache                command -v ccache
git                   command -v git
libgtest-dev          test -f /usr/include/gtest/gtest.h
libopencv-core-dev    test -f /usr/include/opencv4/opencv2/core.hpp
libopencv-imgproc-dev test -f /usr/include/opencv4/opencv2/imgproc.hpp
libjpeg62-turbo-dev   test -f /usr/include/jpeglib.h
libpng-dev            test -f /usr/include/png.h
nlohmann-json3-dev    test -f /usr/include/nlohmann/json.hpp
libasio-dev           test -f /usr/include/asio.hpp
python3-venv          $python -m ensurepip --version
python3-dev           test -f $($python -c "import sysconfig; print(sysconfig.get_path(\"include\"))")/Python.h
'
groups='--group build'
if [ "$1" = all ]; then
  packages+='
clang-format          command -v clang-format
clang                 command -v clang++
libclang-rt-14-dev    ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a
liblapack-dev         test -f /usr/lib/x86_64-linux-gnu/lapack/liblapack.a
chromium              command -v chromium
'
  groups='--group dev --group docs'
fi
missing=()
while read -r package probe; do
  [ -z "$package" ] || eval "$probe" >/dev/null 2>&1 </dev/null || missing+=("$package")
done <<<"$packages"

if [ ${#missing[@]} -gt 0 ]; then
  echo "installing Debian packages: ${missing[*]}"
  command -v apt-get >/dev/null || { echo "this machine has no apt-get: install the content of these packages" >&2; exit 1; }
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"  # has --group
.venv/bin/python -m pip install --quiet --disable-pip-version-check $groups
[ "$1" = all ] || exit 0
# The CUDA toolkit that compiles libmxlite_cuda.so comes from the machine or otherwise from PyPI.
cuda='nvidia-cudnn-frontend>=1.17'
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || cuda='-r tools/requirements-cuda.txt'
.venv/bin/python -m pip install --quiet --disable-pip-version-check $cuda
