// Names and types of operators on quantized arrays in symbols: int8 data behind the first input,
// float32 ends of ranges.
#include "cpp/ops/symbol_traits.h"

#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/quantization/quantization.h"

namespace mxlite {
namespace {

// The first `arrays` inputs are no ends of ranges.
void fill_inputs(KnownTypes in, int arrays) {
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i]) in[i] = static_cast<int>(i) < arrays ? DType::kInt8 : DType::kFloat32;
}

void fill_outputs(KnownTypes out, KnownType first) {
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i]) out[i] = i == 0 ? first : DType::kFloat32;
}

// `source` is the input that the output has the type of.
auto like_input(int arrays, size_t source = 0) {
  return [=](const void*, KnownTypes in, KnownTypes out) {
    fill_inputs(in, arrays);
    fill_outputs(out, in[source]);
  };
}

template <class P>
void sum_types(const P& p, KnownTypes in, KnownTypes out) {
  fill_inputs(in, p.no_bias ? 2 : 3);
  fill_outputs(out, DType::kInt32);
}

DType pair_type(const quantization::RangeParams& p, KnownTypes in, bool is_sum) {
  if (!p.min_calib_range) return DType::kInt32;
  const bool unsigned_pair = in[0] == DType::kUInt8 && in[1] == DType::kUInt8;
  return is_sum && unsigned_pair ? DType::kUInt8 : DType::kInt8;
}

}  // namespace

void add_quantization_traits(SymbolTraitsTable& table) {
  for (const char* name : {"_contrib_quantized_act", "_contrib_quantized_batch_norm",
                           "_contrib_quantized_concat", "_contrib_quantized_conv",
                           "_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul",
                           "_contrib_quantized_embedding", "_contrib_quantized_flatten",
                           "_contrib_quantized_fully_connected", "_contrib_quantized_pooling"})
    table[name].output_names = {"output", "min_output", "max_output"};
  for (const char* name : {"_contrib_quantized_pooling", "_contrib_quantized_act",
                           "_contrib_quantized_flatten", "_contrib_quantized_batch_norm"})
    table[name].types = like_input(1);
  // The running statistics are BatchNorm's.
  table["_contrib_quantized_batch_norm"].read_states = {3, 4};
  table["_contrib_quantized_embedding"].types = like_input(2, 1);
  table["_contrib_quantized_conv"].set_types<ConvolutionParams>(sum_types<ConvolutionParams>);
  table["_contrib_quantized_fully_connected"].set_types<FullyConnectedParams>(
      sum_types<FullyConnectedParams>);
  table["_contrib_quantized_elemwise_add"].set_types<quantization::RangeParams>(
      [](const quantization::RangeParams& p, KnownTypes in, KnownTypes out) {
        fill_inputs(in, 2);
        fill_outputs(out, pair_type(p, in, true));
      });
  table["_contrib_quantized_elemwise_mul"].set_types<quantization::MultiplyParams>(
      [](const quantization::MultiplyParams& p, KnownTypes in, KnownTypes out) {
        fill_inputs(in, 2);
        fill_outputs(out, p.enable_float_output ? DType::kFloat32 : pair_type(p, in, false));
      });
  table["_contrib_quantize_v2"].typed_by_parameter = true;
}

}  // namespace mxlite
