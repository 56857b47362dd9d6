// The kernels of Winograd convolutions for AVX2, which every supported processor has.
#define MX_WIDE 0
#include "cpp/ops/cpu/nn/winograd/winograd_weight_grad_loops.h"

namespace mxlite::cpu::avx2 {

const WinogradKernels kWinogradKernels = with_kernels({
    .worthwhile_tiles = 32,
    .forward = {.bytes = 1 << 20, .least_tiles = 60, .most_tiles = 240},
    // Requires many tiles, because each pass reads and writes all sums.
    .weight_grad = {.bytes = 1 << 20, .least_tiles = 48, .most_tiles = 256},
});

}  // namespace mxlite::cpu::avx2
