// The kernels of Winograd convolutions for AVX2, which every supported processor has.
#define MX_WIDE 0
#include "cpp/ops/cpu/onednn/winograd_weight_grad_loops.h"

namespace mxlite::onednn::avx2 {

const WinogradKernels kWinogradKernels = {
    .most_rows = kMostRows,
    .panel = kPanel,
    .worthwhile_tiles = 32,
    .forward = {.bytes = 1 << 20, .least_tiles = 60, .most_tiles = 240},
    // Many tiles, because each pass reads and writes all sums.
    .weight_grad = {.bytes = 1 << 20, .least_tiles = 48, .most_tiles = 256},
    .transform_tile = transform_tile,
    .transform_weights = transform_weights,
    .multiply_slab = multiply_slab,
    .finish_tile = finish_tile,
    .transform_output_grad = transform_output_grad,
    .accumulate_panel = accumulate_panel,
    .finish_weights = finish_weights,
};

}  // namespace mxlite::onednn::avx2
