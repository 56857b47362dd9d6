#!/usr/bin/env bash
# usage: tools/release/bundle.sh WHEEL FOLDER   writes the wheel with the libraries that it needs into the folder
set -euo pipefail
cd "$(dirname "$0")/../.."
platform=manylinux_2_36_x86_64
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
shared() { cc -shared -s -fPIC -O2 -Wl,--build-id=none -Wl,-soname,"$1" -o "$folder/$1" "${@:2}"; }

# Debian's OpenCV needs libGLX for three functions of its OpenGL interface. libGLX needs X11, which auditwheel leaves out and
# servers lack. mxlite never calls these functions. Therefore the wheel contains a libGLX with only these functions, which
# reports that OpenGL is missing.
for name in glXGetCurrentContext glXGetCurrentDisplay glXGetProcAddressARB; do
  echo "void* $name(void) { return 0; }"
done >"$folder/no_opengl.c"
shared libGLX.so.0 "$folder/no_opengl.c"

# OpenCV calls only 14 of LAPACK's 2,000 functions. A library with these functions and their callees saves 3.4 MB of the wheel.
lib=/usr/lib/x86_64-linux-gnu
called=$(nm -D --undefined-only $lib/libopencv_core.so | sed -nE 's/.* ([sdcz][a-z0-9]+_)$/-Wl,-u,\1/p')
shared liblapack.so.3 $called $lib/lapack/liblapack.a -lblas -lgfortran

LD_LIBRARY_PATH=$folder auditwheel repair --plat "$platform" --exclude 'libmpi.so.*' --strip -w "$2" "$1"
