// Layers on quantized data. The inputs are the arrays, then the ends of their ranges.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/quantization/quantization.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite {
namespace quantization {
namespace {

TensorSpec as(const TensorSpec& spec, DType dtype) { return {spec.shape, dtype}; }

// Applies the shape rule of the layer on floats.
template <class P>
Shape float_shape(const char* op, const P& p, std::span<const TensorSpec> arrays) {
  SmallVector<TensorSpec, 8> floats;
  for (const TensorSpec& s : arrays) floats.push_back(as(s, DType::kFloat32));
  return ops().get(op).infer(&p, floats)[0].shape;
}

// Inputs of Convolution and FullyConnected: data, weight[, bias], then two range ends for each.
template <class P>
Specs infer_product(const char* op, const char* of, const P& p, std::span<const TensorSpec> in) {
  const size_t arrays = p.no_bias ? 2 : 3;
  check_quantized(op, "data", in[0]);
  for (size_t i = 1; i < arrays; ++i)
    MX_CHECK_DTYPE(in[i].dtype == DType::kInt8, op, ": ", i == 1 ? "weight" : "bias",
                   " must be of dtype int8, got ", in[i].dtype);
  check_ranges(op, in, arrays, 2 * arrays);
  return with_range({float_shape(of, p, in.first(arrays)), DType::kInt32});
}

Specs infer_convolution(const ConvolutionParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_KIND(!p.channels_last(), ErrorKind::kNotSupported,
                "_contrib_quantized_conv: the layout must have the channels before the spatial "
                "axes, such as NCHW");
  return infer_product("_contrib_quantized_conv", "Convolution", p, in);
}

Specs infer_fully_connected(const FullyConnectedParams& p, std::span<const TensorSpec> in) {
  return infer_product("_contrib_quantized_fully_connected", "FullyConnected", p, in);
}

void complete_ranges(std::span<TensorSpec> ends) {
  for (TensorSpec& end : ends) complete_shape(end, Shape{1});
}

// Types in symbols: int8 data after the first `arrays` inputs, float32 for ends of ranges.
void fill_inputs(KnownTypes in, int arrays) {
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i]) in[i] = static_cast<int>(i) < arrays ? DType::kInt8 : DType::kFloat32;
}

void fill_outputs(KnownTypes out, KnownType first) {
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i]) out[i] = i == 0 ? first : DType::kFloat32;
}

// The output has the type of the input `source`.
template <class P>
auto types_like_input(int arrays, size_t source = 0) {
  return [=](const P&, KnownTypes in, KnownTypes out) {
    fill_inputs(in, arrays);
    fill_outputs(out, in[source]);
  };
}

DType pair_type(const RangeParams& p, KnownTypes in, bool is_sum) {
  if (!p.min_calib_range) return DType::kInt32;
  const bool unsigned_pair = in[0] == DType::kUInt8 && in[1] == DType::kUInt8;
  return is_sum && unsigned_pair ? DType::kUInt8 : DType::kInt8;
}

const std::vector<std::string> kOutputs = {"output", "min_output", "max_output"};

template <class P>
void add_product(OpRegistry& ops, const char* name, const char* doc, const char* of,
                 Specs (*infer)(const P&, std::span<const TensorSpec>)) {
  ops.add(OpBuilder<P>(name)
              .inputs({"data", "weight", "bias", "min_data", "max_data", "min_weight", "max_weight",
                       "min_bias", "max_bias"})
              .input_count([](const P& p) { return p.no_bias ? 6 : 9; })
              .outputs(3)
              .doc(doc)
              .shapes(str("as ", of, "; ends of ranges: (1,) -> as ", of, ", (1,), (1,)"))
              .infer(infer)
              .complete([of](const P& p, std::span<TensorSpec> in) {
                const size_t arrays = p.no_bias ? 2 : 3;
                mxlite::ops().get(of).complete(&p, in.first(arrays));
                complete_ranges(in.subspan(arrays));
              })
              .symbol({.output_names = kOutputs})
              .types([](const P& p, KnownTypes in, KnownTypes out) {
                fill_inputs(in, p.no_bias ? 2 : 3);
                fill_outputs(out, DType::kInt32);
              }));
}

template <class P, class Shaped>
void add_layer(OpRegistry& ops, const char* name, const char* doc, const char* of, Shaped shaped) {
  ops.add(OpBuilder<P>(name)
              .inputs({"data", "min_data", "max_data"})
              .outputs(3)
              .doc(doc)
              .shapes(str("as ", of, "; ends of ranges: (1,) -> as ", of, ", (1,), (1,)"))
              .infer([name, shaped](const P& p, std::span<const TensorSpec> in) -> Specs {
                check_quantized(name, "data", in[0]);
                check_ranges(name, in, 1, 2);
                return with_range({shaped(p, in), in[0].dtype});
              })
              .complete([](const P&, std::span<TensorSpec> in) { complete_ranges(in.subspan(1)); })
              .symbol({.output_names = kOutputs})
              .types(types_like_input<P>(1)));
}

Specs infer_concat(const ConcatParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_quantized_concat";
  MX_CHECK(
      in.size() % 3 == 0, kOp,
      ": the number of arrays must be a multiple of 3 (all data, then min and max of each), got ",
      in.size());
  const size_t count = in.size() / 3;
  bool is_signed = false;
  for (size_t i = 0; i < count; ++i) {
    check_quantized(kOp, "data", in[i]);
    is_signed |= in[i].dtype == DType::kInt8;
  }
  check_ranges(kOp, in, count, 2 * count);
  return with_range(
      {float_shape("Concat", p, in.first(count)), is_signed ? DType::kInt8 : DType::kUInt8});
}

// Checks both operands and their ranges. The output is signed if one operand is signed.
DType check_pair(const char* op, const RangeParams& p, std::span<const TensorSpec> in) {
  check_quantized(op, "lhs", in[0]);
  check_quantized(op, "rhs", in[1]);
  MX_CHECK_SHAPE(may_equal(in[0].shape, in[1].shape), op, ": operands must have equal shapes, got ",
                 in[0].shape, " and ", in[1].shape);
  check_ranges(op, in, 2, 4);
  check_calibration(op, p.min_calib_range, p.max_calib_range);
  if (!p.min_calib_range) return DType::kInt32;
  const bool is_unsigned = in[0].dtype == DType::kUInt8 && in[1].dtype == DType::kUInt8;
  return is_unsigned ? DType::kUInt8 : DType::kInt8;
}

Specs infer_add(const RangeParams& p, std::span<const TensorSpec> in) {
  const DType dtype = check_pair("_contrib_quantized_elemwise_add", p, in);
  return with_range({merged(in[0].shape, in[1].shape), dtype});
}

Specs infer_multiply(const MultiplyParams& p, std::span<const TensorSpec> in) {
  const DType dtype = check_pair("_contrib_quantized_elemwise_mul", p, in);
  const Shape shape = merged(in[0].shape, in[1].shape);
  if (p.enable_float_output) return {{shape, DType::kFloat32}};
  return with_range({shape, dtype == DType::kInt32 ? dtype : DType::kInt8});
}

template <class P>
void complete_pair(const P&, std::span<TensorSpec> in) {
  complete_shape(in[0], in[1].shape);
  complete_shape(in[1], in[0].shape);
  complete_ranges(in.subspan(2));
}

// Operands and the sum have one shape; all other values are single numbers.
void refine_pair(const void*, PartialShapes& shapes) {
  for (const Shape& known : {shapes.output(0), shapes.input(0), shapes.input(1)}) {
    shapes.refine_output(0, known);
    for (int i = 0; i < 2; ++i) shapes.refine_input(i, known);
  }
}

const std::vector<std::string> kPair = {"lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max"};

Specs infer_embedding(const EmbeddingParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_quantized_embedding";
  check_quantized(kOp, "weight", in[1]);
  check_ranges(kOp, in, 2, 2);
  const TensorSpec floats[] = {in[0], as(in[1], DType::kFloat32)};
  return with_range({ops().get("Embedding").infer(&p, floats)[0].shape, in[1].dtype});
}

Specs infer_batch_norm(const BatchNormParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_quantized_batch_norm";
  check_quantized(kOp, "data", in[0]);
  check_ranges(kOp, in, 5, 2);
  check_calibration(kOp, p.min_calib_range, p.max_calib_range);
  MX_CHECK(p.min_calib_range, kOp,
           ": min_calib_range and max_calib_range must give the range of the output");
  SmallVector<TensorSpec, 8> floats(in.begin(), in.begin() + 5);
  floats[0].dtype = DType::kFloat32;
  const Shape shape = ops().get("BatchNorm").infer(&p, floats)[0].shape;
  return with_range({shape, DType::kInt8});
}

}  // namespace
}  // namespace quantization

static const Registration layers_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  add_product<ConvolutionParams>(ops, "_contrib_quantized_conv",
                                 "Convolution of quantized data; returns int32 sums and the ends "
                                 "of the range that they represent.",
                                 "Convolution", infer_convolution);
  add_product<FullyConnectedParams>(ops, "_contrib_quantized_fully_connected",
                                    "Linear layer on quantized data; returns int32 sums and the "
                                    "ends of the range that they represent.",
                                    "FullyConnected", infer_fully_connected);
  add_layer<PoolingParams>(
      ops, "_contrib_quantized_pooling",
      "Maximum or average pooling of quantized data; also returns the ends of the unchanged range.",
      "Pooling", [](const PoolingParams& p, std::span<const TensorSpec> in) {
        MX_CHECK_KIND(p.pool_type == PoolType::kMax || p.pool_type == PoolType::kAvg,
                      ErrorKind::kNotSupported,
                      "_contrib_quantized_pooling: pool_type must be 'max' or 'avg'");
        return float_shape("Pooling", p, in.first(1));
      });
  add_layer<ActivationParams>(
      ops, "_contrib_quantized_act",
      "relu of quantized data; also returns the ends of the unchanged range.", "Activation",
      [](const ActivationParams& p, std::span<const TensorSpec> in) {
        MX_CHECK_KIND(p.act_type == ActivationType::kRelu, ErrorKind::kNotSupported,
                      "_contrib_quantized_act: act_type must be 'relu'");
        return in[0].shape;
      });
  add_layer<NoParams>(ops, "_contrib_quantized_flatten",
                      "Flatten of quantized data: joins all axes except the first; also returns "
                      "the ends of the unchanged range.",
                      "Flatten", [](const NoParams& p, std::span<const TensorSpec> in) {
                        return float_shape("Flatten", p, in.first(1));
                      });
  ops.add(
      OpBuilder<ConcatParams>("_contrib_quantized_concat")
          .variadic("data")
          .outputs(3)
          .doc("Joins quantized arrays along an axis after converting them to the widest of their "
               "ranges; data holds all arrays, then the low and the high end of each range.")
          .shapes("as concat; ends of ranges: (1,) -> as concat, (1,), (1,)")
          .infer(infer_concat)
          .symbol({.output_names = kOutputs}));
  ops.add(
      OpBuilder<RangeParams>("_contrib_quantized_elemwise_add")
          .inputs(kPair)
          .outputs(3)
          .doc("Sum of quantized arrays: int32, or int8 or uint8 if a calibrated range is given.")
          .shapes("equal shapes; ends of ranges: (1,) -> the same shape, (1,), (1,)")
          .infer(infer_add)
          .complete(complete_pair<RangeParams>)
          .refine(refine_pair)
          .symbol({.output_names = kOutputs})
          .types([](const RangeParams& p, KnownTypes in, KnownTypes out) {
            fill_inputs(in, 2);
            fill_outputs(out, pair_type(p, in, true));
          }));
  ops.add(
      OpBuilder<MultiplyParams>("_contrib_quantized_elemwise_mul")
          .inputs(kPair)
          .output_count([](const MultiplyParams& p, int) { return p.enable_float_output ? 1 : 3; })
          .doc("Product of quantized arrays: int32, int8 if a calibrated range is given, or "
               "float32 if enable_float_output is True.")
          .shapes("equal shapes; ends of ranges: (1,) -> the same shape, (1,), (1,)")
          .infer(infer_multiply)
          .complete(complete_pair<MultiplyParams>)
          .symbol({.output_names = kOutputs})
          .types([](const MultiplyParams& p, KnownTypes in, KnownTypes out) {
            fill_inputs(in, 2);
            fill_outputs(out, p.enable_float_output ? DType::kFloat32 : pair_type(p, in, false));
          }));
  ops.add(OpBuilder<EmbeddingParams>("_contrib_quantized_embedding")
              .inputs({"data", "weight", "min_weight", "max_weight"})
              .outputs(3)
              .doc("Looks up the rows of a quantized table that the indices in data select; also "
                   "returns the ends of the table's range.")
              .shapes("as Embedding; ends of the range: (1,) -> as Embedding, (1,), (1,)")
              .infer(infer_embedding)
              .complete([](const EmbeddingParams& p, std::span<TensorSpec> in) {
                complete_shape(in[1], Shape{p.input_dim, p.output_dim});
                complete_ranges(in.subspan(2));
              })
              .symbol({.output_names = kOutputs})
              .types(types_like_input<EmbeddingParams>(2, 1)));
  ops.add(
      OpBuilder<BatchNormParams>("_contrib_quantized_batch_norm")
          .inputs({"data", "gamma", "beta", "moving_mean", "moving_var", "min_data", "max_data"})
          .outputs(3)
          .doc("BatchNorm of quantized data by moving_mean and moving_var; returns int8 with the "
               "calibrated range.")
          .shapes("data: (N, C, ...), parameters: (C,), ends of the range: (1,) -> shape of data, "
                  "(1,), (1,)")
          .infer(infer_batch_norm)
          .complete([](const BatchNormParams& p, std::span<TensorSpec> in) {
            mxlite::ops().get("BatchNorm").complete(&p, in.first(5));
            complete_ranges(in.subspan(5));
          })
          .symbol({.output_names = kOutputs, .read_states = {3, 4}})
          .types(types_like_input<BatchNormParams>(1)));  // the running statistics are BatchNorm's
});

}  // namespace mxlite
