// Chooses how a GPU computes quantized convolutions and fully connected layers: on tensor cores,
// whose libraries require padded operands, or in plain loops. Needs no GPU.
#pragma once
#include <cstdint>

#include "cpp/ops/nn/convolution_problem.h"
#include "cpp/ops/nn/fully_connected.h"

namespace mxlite::quantization {

// Most products in one sum on tensor cores. Libraries may saturate sums where the loops wrap
// around, so a sum of int8 products must never reach 2^31.
constexpr int64_t kMostProducts = (int64_t{1} << 31) / (128 * 128) - 1;
// uint8 data becomes int8 by subtracting this; the weights' sum times this is added to the result.
constexpr int32_t kShift = 128;

// (rows, columns) times (hidden, columns) transposed. cuBLASLt multiplies int8 on tensor cores if
// columns, hidden and all leading dimensions are multiples of 4, and addresses multiples of 4
// bytes. The copies for all others are padded with zeros.
struct Int8Gemm {
  const char* why_loops = nullptr;  // null: tensor cores
  bool shifted = false;             // data is uint8
  int64_t rows = 0, columns = 0, hidden = 0;
  int64_t padded_columns = 0, padded_hidden = 0;  // what the library multiplies
  bool copies_data = false, copies_weight = false, copies_sums = false;
};
// Alignments are bytes of which the address is a multiple.
Int8Gemm plan_int8_gemm(const FullyConnectedParams& p, const Shape& data, DType dtype,
                        int64_t data_alignment, int64_t weight_alignment);

// cuDNN convolves int8 in channels-last memory to int32 sums. Input channels are padded to whole
// vectors of 16 bytes, filters to a multiple of 4; padding is zeros.
struct Int8Convolution {
  static constexpr int64_t kChannels = 16, kFilters = 4;

  const char* why_loops = nullptr;  // null: tensor cores
  bool shifted = false;             // data is uint8
  // The problem that the library computes. If data is shifted, -128 stands for 0: the copy of data
  // is padded with it, and the library pads nothing.
  ConvolutionProblem problem;
  std::array<int64_t, 3> border{};  // elements that this copy gets on both sides, as problem.pad
};
Int8Convolution plan_int8_convolution(const ConvolutionParams& p, const Shape& data,
                                      const Shape& output, DType dtype);

}  // namespace mxlite::quantization
