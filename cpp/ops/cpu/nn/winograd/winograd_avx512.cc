// The kernels of Winograd convolutions for AVX-512. Call only if the processor has AVX-512.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "cpp/ops/cpu/nn/winograd/winograd_kernels.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_WIDE 1
#include "cpp/ops/cpu/nn/winograd/winograd_weight_grad_loops.h"

namespace mxlite::cpu::avx512 {

const WinogradKernels kWinogradKernels = with_kernels({
    .worthwhile_tiles = 48,
    .forward = {.bytes = 1 << 20, .least_tiles = 56, .most_tiles = 224},
    // Requires many tiles, because each pass reads and writes all sums.
    .weight_grad = {.bytes = 3 << 20, .least_tiles = 48, .most_tiles = 256},
});

}  // namespace mxlite::cpu::avx512
