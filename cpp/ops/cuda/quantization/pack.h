// Copies int8 operands to the padded forms that cuDNN and cuBLASLt multiply, and copies their sums
// back. With `shift`, reads uint8 and subtracts 128 (quantization::kShift).
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

// Converts (rows, columns) to (rows + zero_rows, padded).
struct PackedRows {
  int64_t rows = 0, columns = 0, padded = 0;
  int64_t zero_rows = 0;
  bool shift = false;
};
void pack_rows(KernelContext& ctx, const PackedRows& p, const void* from, void* to);

// Converts (images, channels, size) to (images + zero_images, size + 2 * border, padded), where
// padded is a multiple of 4. The border contains the number that represents 0; padded channels
// contain 0.
struct PackedImages {
  int64_t images = 0, channels = 0, padded = 0;
  int64_t size[3] = {1, 1, 1}, border[3] = {0, 0, 0};
  int64_t zero_images = 0;
  bool shift = false;
};
void pack_images(KernelContext& ctx, const PackedImages& p, const void* from, void* to);

// Converts channels-last uint8 (images, size, padded) to int8 (images, size + 2 * border, padded).
// Other members are not used.
void shift_images(KernelContext& ctx, const PackedImages& p, const void* from, void* to);

// Adds the addend of each channel to the sums (null adds nothing) and converts (rows, padded) to
// (rows, columns). `sums` and `to` may be the same memory if padded equals columns.
void unpack_rows(KernelContext& ctx, int64_t rows, int64_t columns, int64_t padded,
                 const int32_t* sums, const int32_t* addends, int32_t* to);
// Converts (images, pixels, padded) to (images, channels, pixels).
void unpack_images(KernelContext& ctx, int64_t images, int64_t pixels, int64_t channels,
                   int64_t padded, const int32_t* sums, const int32_t* addends, int32_t* to);

}  // namespace mxlite::cuda
