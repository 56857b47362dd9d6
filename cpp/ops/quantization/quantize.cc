// Conversions between floats and quantized numbers, and selection of ranges.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/quantization/quantization.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {

void check_quantized(const char* op, const char* input, const TensorSpec& spec) {
  MX_CHECK_DTYPE(spec.dtype == DType::kInt8 || spec.dtype == DType::kUInt8, op, ": ", input,
                 " must be of dtype int8 or uint8, got ", spec.dtype);
}

void check_ranges(const char* op, std::span<const TensorSpec> in, size_t first, size_t count) {
  for (const TensorSpec& s : in.subspan(first, count)) {
    MX_CHECK_SHAPE(may_equal(count_elements(s.shape), 1), op,
                   ": each end of a range must be one number, got shape ", s.shape);
    MX_CHECK_DTYPE(s.dtype == DType::kFloat32, op,
                   ": each end of a range must be of dtype float32, got ", s.dtype);
  }
}

void check_calibration(const char* op, const std::optional<float>& low,
                       const std::optional<float>& high) {
  MX_CHECK(low.has_value() == high.has_value(), op,
           ": min_calib_range and max_calib_range must be given both or not at all, got one");
  MX_CHECK(!low || *low <= *high, op, ": min_calib_range must be at most max_calib_range, ",
           high.value_or(0), ", got ", low.value_or(0));
}

namespace {

void check_float32(const char* op, const TensorSpec& spec) {
  MX_CHECK_DTYPE(spec.dtype == DType::kFloat32, op, ": data must be of dtype float32, got ",
                 spec.dtype);
}

DType fixed_dtype(const QuantizeParams& p) {
  return p.out_type == Fixed::kInt8 ? DType::kInt8 : DType::kUInt8;
}

Specs infer_quantize(const QuantizeParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_quantize";
  check_float32(kOp, in[0]);
  check_ranges(kOp, in, 1, 2);
  return with_range({in[0].shape, fixed_dtype(p)});
}

Specs infer_quantize_v2(const CalibratedParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_quantize_v2";
  check_calibration(kOp, p.min_calib_range, p.max_calib_range);
  const DType dtype = in[0].dtype;
  if (dtype == DType::kInt8 || dtype == DType::kUInt8) {
    MX_CHECK(p.min_calib_range, kOp, ": data of dtype ", dtype,
             " is quantized already; min_calib_range and max_calib_range must give its range");
    return with_range(in[0]);
  }
  check_float32(kOp, in[0]);
  return with_range({in[0].shape, target_dtype(p.out_type, p.min_calib_range)});
}

Specs infer_dequantize(const DequantizeParams&, std::span<const TensorSpec> in) {
  check_quantized("_contrib_dequantize", "data", in[0]);
  check_ranges("_contrib_dequantize", in, 1, 2);
  return {{in[0].shape, DType::kFloat32}};
}

Specs infer_requantize(const CalibratedParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_requantize";
  MX_CHECK_DTYPE(in[0].dtype == DType::kInt32, kOp, ": data must be of dtype int32, got ",
                 in[0].dtype);
  check_ranges(kOp, in, 1, 2);
  check_calibration(kOp, p.min_calib_range, p.max_calib_range);
  return with_range({in[0].shape, target_dtype(p.out_type, p.min_calib_range)});
}

Specs infer_asymmetric(const RangeParams& p, std::span<const TensorSpec> in) {
  check_float32("_contrib_quantize_asym", in[0]);
  check_calibration("_contrib_quantize_asym", p.min_calib_range, p.max_calib_range);
  return with_range({in[0].shape, DType::kUInt8});
}

Specs infer_entropy(const EntropyParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_contrib_calibrate_entropy";
  const Shape &hist = in[0].shape, &edges = in[1].shape;
  MX_CHECK_SHAPE(
      hist.ndim() == 1 && edges.ndim() == 1 && may_equal(edges[0], add_to_dim(hist[0], 1)), kOp,
      ": hist and hist_edges must have shapes (bins,) and (bins + 1,), got ", hist, " and ", edges);
  MX_CHECK(may_be_at_least(hist[0], p.num_quantized_bins), kOp,
           ": num_quantized_bins must be at most ", hist[0], ", the number of bins of hist, got ",
           p.num_quantized_bins);
  MX_CHECK_SHAPE(!is_known(hist[0]) || hist[0] % 2 == 1, kOp,
                 ": hist must have an odd number of bins around 0, got shape ", hist);
  // The time to search a threshold grows with the square of the number of bins.
  MX_CHECK_SHAPE(hist[0] < 65536, kOp, ": hist must have fewer than 65536 bins, got shape ", hist);
  for (const TensorSpec& s : in)
    MX_CHECK_DTYPE(s.dtype != DType::kBool, kOp, ": inputs must be of numbers, got bool");
  return {kOneFloat, kOneFloat};
}

// The first output has the shape of the first input; other inputs and outputs are single numbers.
void refine_ranged(const void* params, PartialShapes& shapes) {
  refine_like_first(params, shapes);
  for (int i = 1; i < shapes.num_inputs(); ++i)
    if (shapes.input(i).ndim() < 0 || shapes.input(i).ndim() == 1) shapes.refine_input(i, Shape{1});
  for (int i = 1; i < shapes.num_outputs(); ++i) shapes.refine_output(i, Shape{1});
}

// Fills unknown types in symbols: all inputs and outputs after the first are float32.
void fill_ranged(KnownTypes in, KnownTypes out, KnownType data, KnownType result) {
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i]) in[i] = i == 0 ? data : DType::kFloat32;
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i]) out[i] = i == 0 ? result : DType::kFloat32;
}

void fill_quantize(const QuantizeParams& p, KnownTypes in, KnownTypes out) {
  fill_ranged(in, out, DType::kFloat32, fixed_dtype(p));
}

// Data that is already quantized keeps its type.
void fill_quantize_v2(const CalibratedParams& p, KnownTypes in, KnownTypes out) {
  const bool quantized = in[0] == DType::kInt8 || in[0] == DType::kUInt8;
  fill_ranged(in, out, {}, quantized ? *in[0] : target_dtype(p.out_type, p.min_calib_range));
}

void fill_requantize(const CalibratedParams& p, KnownTypes in, KnownTypes out) {
  fill_ranged(in, out, DType::kInt32, target_dtype(p.out_type, p.min_calib_range));
}

void refine_entropy(const void*, PartialShapes& shapes) {
  for (int i = 0; i < shapes.num_outputs(); ++i) shapes.refine_output(i, Shape{1});
}

template <class P, class Infer>
OpBuilder<P> ranged(const char* name, std::vector<std::string> inputs, int outputs, Infer infer,
                    const char* doc) {
  OpBuilder<P> op(name);
  op.inputs(std::move(inputs)).outputs(outputs).doc(doc).infer(infer).refine(refine_ranged);
  op.symbol({.all_inputs_untied = true});
  return op;
}

}  // namespace
}  // namespace quantization

static const Registration quantize_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  const std::vector<std::string> inputs = {"data", "min_range", "max_range"};
  ops.add(ranged<QuantizeParams>(
              "_contrib_quantize", inputs, 3, infer_quantize,
              "Quantizes float32 data to int8 or uint8, where min_range and max_range are the ends "
              "of data's range; also returns the ends of the range that the output represents.")
              .shapes("any shape; ends of the range: (1,) -> the same shape, (1,), (1,)")
              .types(fill_quantize));
  ops.add(
      ranged<CalibratedParams>(
          "_contrib_quantize_v2", {"data"}, 3, infer_quantize_v2,
          "Quantizes float32 data to int8 or uint8 by the calibrated range, or by the smallest and "
          "largest element of data; also returns the ends of the range that the output represents.")
          .shapes("any shape -> the same shape, (1,), (1,)")
          .types(fill_quantize_v2));
  ops.add(ranged<RangeParams>("_contrib_quantize_asym", {"data"}, 3, infer_asymmetric,
                              "Quantizes float32 data to uint8 as data * scale + shift, so that "
                              "the whole range of uint8 is used; also returns scale and shift.")
              .shapes("any shape -> the same shape, (1,), (1,)")
              .symbol({.output_names = {"output", "scale", "shift"}, .all_inputs_untied = true})
              .types([](const RangeParams&, KnownTypes in, KnownTypes out) {
                fill_ranged(in, out, {}, DType::kUInt8);
              }));
  ops.add(ranged<DequantizeParams>("_contrib_dequantize", inputs, 1, infer_dequantize,
                                   "Converts quantized data back to float32; min_range and "
                                   "max_range are the ends of the range that data represents.")
              .shapes("any shape; ends of the range: (1,) -> the same shape")
              .types([](const DequantizeParams&, KnownTypes in, KnownTypes out) {
                fill_ranged(in, out, {}, DType::kFloat32);
              }));
  ops.add(ranged<CalibratedParams>(
              "_contrib_requantize", inputs, 3, infer_requantize,
              "Converts the int32 results of quantized layers to int8 or uint8 by the calibrated "
              "range, or by the range of data; also returns the ends of the output's range.")
              .shapes("any shape; ends of the range: (1,) -> the same shape, (1,), (1,)")
              .types(fill_requantize));
  ops.add(ranged<EntropyParams>(
              "_contrib_calibrate_entropy", {"hist", "hist_edges"}, 2, infer_entropy,
              "Returns the threshold whose quantized histogram has the smallest KL divergence from "
              "hist, and this divergence; values beyond the threshold are clipped.")
              .shapes("hist: (bins,), hist_edges: (bins + 1,) -> (1,), (1,)")
              .symbol({.output_names = {"threshold", "divergence"}, .all_inputs_untied = true})
              .refine(refine_entropy)
              .types([](const EntropyParams&, KnownTypes in, KnownTypes out) {
                fill_ranged(in, out, {}, DType::kFloat32);
              }));
});

}  // namespace mxlite
