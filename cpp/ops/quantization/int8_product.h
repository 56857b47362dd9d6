// Chooses how a GPU computes quantized convolutions and fully connected layers: on tensor cores,
// whose libraries require padded operands, or in plain loops. The choice needs no GPU.
#pragma once
#include <cstdint>

#include "cpp/ops/nn/convolution_problem.h"
#include "cpp/ops/nn/fully_connected.h"

namespace mxlite::quantization {

// Maximum number of products in one sum on tensor cores. Libraries may saturate sums where the
// loops wrap around, so a sum of int8 products must not reach 2^31.
constexpr int64_t kMostProducts = (int64_t{1} << 31) / (128 * 128) - 1;
// uint8 data is converted to int8 by subtracting this number. To correct the result, the sum of the
// weights times this number is added.
constexpr int32_t kShift = 128;

// Computes (rows, columns) times (hidden, columns) transposed. cuBLASLt multiplies int8 on tensor
// cores if columns, hidden and all leading dimensions are multiples of 4, and addresses are
// multiples of 4 bytes. Otherwise copies padded with zeros are used.
struct Int8Gemm {
  const char* why_loops = nullptr;  // why plain loops are used; null if tensor cores are used
  bool shifted = false;             // whether data is uint8
  int64_t rows = 0, columns = 0, hidden = 0;
  int64_t padded_columns = 0, padded_hidden = 0;  // sizes of the product that the library computes
  bool copies_data = false, copies_weight = false, copies_sums = false;
};
// Alignments are the largest powers of two, in bytes, that divide the addresses.
Int8Gemm plan_int8_gemm(const FullyConnectedParams& p, const Shape& data, DType dtype,
                        int64_t data_alignment, int64_t weight_alignment);

// cuDNN convolves int8 in channels-last memory with int32 sums. Input channels are padded with
// zeros to whole vectors of 16 bytes, filters to a multiple of 4.
struct Int8Convolution {
  static constexpr int64_t kChannels = 16, kFilters = 4;

  const char* why_loops = nullptr;  // why plain loops are used; null if tensor cores are used
  bool shifted = false;             // whether data is uint8
  // The problem that the library computes. If data is shifted, -128 represents 0, so the copy of
  // data is padded with -128 and the library pads nothing.
  ConvolutionProblem problem;
  std::array<int64_t, 3> border{};  // padding that the copy of data gets on both sides
};
Int8Convolution plan_int8_convolution(const ConvolutionParams& p, const Shape& data,
                                      const Shape& output, DType dtype);

}  // namespace mxlite::quantization
