#include "cpp/ops/quantization/int8_product.h"

#include "cpp/base/env.h"

namespace mxlite::quantization {
namespace {

constexpr int64_t kGemmMultiple = 4;    // in elements, and in bytes for addresses
constexpr int64_t kPaddedColumns = 16;  // whole vectors, used if columns must be padded anyway

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

const char* why_never() {
  static const bool wanted = env_int("MXLITE_INT8_TENSOR_CORES", 1) != 0;
  return wanted ? nullptr : "MXLITE_INT8_TENSOR_CORES=0";
}

}  // namespace

Int8Gemm plan_int8_gemm(const FullyConnectedParams& p, const Shape& data, DType dtype,
                        int64_t data_alignment, int64_t weight_alignment) {
  const auto [rows, columns] = fully_connected_rows(p, data);
  Int8Gemm g;
  g.shifted = dtype == DType::kUInt8;
  g.rows = rows;
  g.columns = columns;
  g.hidden = p.num_hidden;
  const bool pads = columns % kGemmMultiple != 0;
  g.padded_columns = pads ? rounded_up(columns, kPaddedColumns) : columns;
  g.padded_hidden = rounded_up(g.hidden, kGemmMultiple);
  g.copies_data = pads || g.shifted || data_alignment % kGemmMultiple != 0;
  g.copies_sums = g.padded_hidden != g.hidden;
  g.copies_weight = pads || g.copies_sums || weight_alignment % kGemmMultiple != 0;
  g.why_loops = why_never();
  if (rows == 0 || columns == 0 || g.hidden == 0) g.why_loops = "an empty product";
  if (columns > kMostProducts) g.why_loops = "sums of so many products may exceed int32";
  return g;
}

Int8Convolution plan_int8_convolution(const ConvolutionParams& p, const Shape& data,
                                      const Shape& output, DType dtype) {
  Int8Convolution c;
  c.shifted = dtype == DType::kUInt8;
  c.problem =
      describe_convolution(ConvolutionDirection::kForward, p, data, output, DType::kInt8, true);
  ConvolutionProblem& q = c.problem;
  int64_t products = q.weight[1];
  for (size_t i = 2; i < static_cast<size_t>(q.ndim); ++i) products *= q.weight[i];
  c.why_loops = why_never();
  if (data.size() == 0 || output.size() == 0) c.why_loops = "no elements";
  if (q.groups != 1) c.why_loops = "groups of channels, which cuDNN does not take in int8";
  if (products > kMostProducts) c.why_loops = "sums of so many products may exceed int32";
  q.data[1] = q.weight[1] = rounded_up(q.data[1], Int8Convolution::kChannels);
  q.weight[0] = q.output[1] = rounded_up(q.output[1], Int8Convolution::kFilters);
  if (!c.shifted) return c;
  c.border = q.pad;
  q.pad = {};
  for (size_t i = 0; i < static_cast<size_t>(q.ndim - 2); ++i) {
    if (c.border[i] > q.data[i + 2]) c.why_loops = "uint8 data smaller than its padding";
    q.data[i + 2] += 2 * c.border[i];
  }
  return c;
}

}  // namespace mxlite::quantization
