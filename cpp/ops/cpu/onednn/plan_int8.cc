// Quantized layers inside executables. Between layers, images are int8 and channels-last, and
// weights are packed once. Bias, sum, activation and the conversion to int8 are applied before
// results are stored.
//
// Note [Halved weights] Processors without VNNI add two products of uint8 data and int8 weights in
// 16 bits, which can saturate. For these processors, weights are packed with 7 bits, so that the
// sums fit, and the scale is doubled. Files keep 8 bits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cpp/ops/cpu/onednn/convolution.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/pooling.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/quantization/fused.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite::onednn {
namespace {

using namespace quantization;  // NOLINT: this file's operators belong to that namespace

Desc vector_desc(int64_t size) {
  return Desc({size}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
}
const Desc& one_scale() {
  static const Desc* const desc = new Desc(vector_desc(1));
  return *desc;
}

bool is_image(const TensorSpec& spec) { return spec.shape.ndim() >= 3 && spec.shape.ndim() <= 5; }

Layout plain_layout(const TensorSpec& spec) { return {nullptr, spec.bytes()}; }

// Returns a plan whose inputs and outputs are all plain.
Plan plain_plan(const PlanRequest& r) {
  Plan plan;
  for (const TensorSpec& spec : r.inputs) plan.inputs.push_back(plain_layout(spec));
  for (const TensorSpec& spec : r.outputs) plan.outputs.push_back(plain_layout(spec));
  return plan;
}

float at(const void* number) { return *static_cast<const float*>(number); }
float magnitude_at(const void* low, const void* high) {
  return largest_magnitude(at(low), at(high));
}
void store_range(std::span<void* const> out, float low, float high) {
  *static_cast<float*>(out[1]) = low;
  *static_cast<float*>(out[2]) = high;
}

// ---- convolutions and linear layers -----------------------------------------------------------

// `weight_mask` has a bit for each dimension of the weight along which scales differ.
dnnl::primitive_attr fused_layer_attr(const FusedParams& p, const DType* sum, int weight_mask) {
  dnnl::primitive_attr attr = user_scratchpad();
  attr.set_scales_mask(DNNL_ARG_SRC, 0);
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, weight_mask);
  if (p.is_quantized()) attr.set_scales_mask(DNNL_ARG_DST, 0);
  dnnl::post_ops ops;
  if (sum) ops.append_sum(p.is_quantized() ? p.sum_unit(*sum) : 1.0f, 0, data_type(*sum));
  if (p.with_act && p.act_max)
    ops.append_eltwise(dnnl::algorithm::eltwise_clip, 0, *p.act_max);
  else if (p.with_act)
    ops.append_eltwise(p.act_type == FusedActivation::kGelu ? dnnl::algorithm::eltwise_gelu_erf
                                                            : dnnl::algorithm::eltwise_relu,
                       0, 0);
  attr.set_post_ops(ops);
  return attr;
}

// Completes a plan whose layouts of data, weight and output are those of `pd`.
template <class P>
void finish_fused(Plan& plan, const PlanRequest& r, const P& p, bool halved,
                  const dnnl::primitive_desc_base& pd) {
  const FusedInputs at_input = fused_inputs(p);
  if (halved)
    plan.inputs[1] = {std::make_shared<const MemoryFormat>(
                          MemoryFormat{pd.query_md(dnnl::query::weights_md), false, true}),
                      pd.query_md(dnnl::query::weights_md).get_size()};
  if (at_input.sum) {
    const Desc to = pd.query_md(dnnl::query::dst_md);
    const Layout& output = plan.outputs[0];
    plan.inputs[at_input.sum] =
        output.is_plain() ? plain_layout(r.inputs[at_input.sum])
                          : make_layout(Desc(to.get_dims(), data_type(r.inputs[at_input.sum].dtype),
                                             to.get_strides()));
    plan.required_inplace.push_back({static_cast<int>(at_input.sum), 0});
  }
  const auto primitive = std::make_shared<const Primitive>(pd);
  plan.scratch_bytes = primitive->scratch_bytes();
  const auto scales = std::make_shared<const Desc>(vector_desc(r.inputs[1].shape[0]));
  const float full = full_scale(r.inputs[0].dtype) / (halved ? 2.0f : 1.0f);
  constexpr float kUnitOfZeros = 1e30f;  // an empty range contains only zeros
  const float output_unit = !p.is_quantized()     ? 0
                            : p.output_unit() > 0 ? p.output_unit()
                                                  : kUnitOfZeros;
  plan.run = [=, low = p.min_calib_range.value_or(0), high = p.max_calib_range.value_or(0)](
                 KernelContext&, std::span<void* const> in, std::span<void* const> out,
                 void* scratch) {
    const float data_unit = magnitude_at(in[at_input.low()], in[at_input.high()]) / full;
    SmallVector<Arg, 8> args = {
        {DNNL_ARG_SRC, in[0]},
        {DNNL_ARG_WEIGHTS, in[1]},
        {DNNL_ARG_DST, out[0]},
        {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, &data_unit, &one_scale()},
        {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, in[at_input.scale], scales.get()}};
    if (at_input.bias) args.push_back({DNNL_ARG_BIAS, in[at_input.bias]});
    if (output_unit > 0)
      args.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, &output_unit, &one_scale()});
    primitive->run(args, scratch);
    if (output_unit > 0) store_range(out, low, high);
  };
}

std::optional<Plan> plan_fused_convolution(const PlanRequest& r) {
  return guarded("_sg_mkldnn_conv", [&]() -> std::optional<Plan> {
    if (is_empty(r)) return std::nullopt;
    const auto& p = *static_cast<const FusedConvolutionParams*>(r.params);
    const FusedInputs at_input = fused_inputs(p);
    const DType dtype = r.inputs[0].dtype;
    ConvDescs d = describe(p, r.inputs[0].shape, r.outputs[0].shape, dtype, /*bias=*/false);
    if (at_input.bias) d.bias = plain_desc(r.inputs[at_input.bias]);
    const auto any = [](const Desc& like, DType type) {
      return Desc(like.get_dims(), data_type(type), dnnl::memory::format_tag::any);
    };
    const DType* sum = at_input.sum ? &r.inputs[at_input.sum].dtype : nullptr;
    const int mask = p.num_group > 1 ? 3 : 1;
    const auto pd = forward_desc(d, d.any_data(), any(d.weight, DType::kInt8),
                                 any(d.output, r.outputs[0].dtype), /*training=*/false,
                                 fused_layer_attr(p, sum, mask));
    if (!pd.get(true) || pd.dst_desc().get_inner_nblks() != 0) return std::nullopt;
    Plan plan = plain_plan(r);
    plan.inputs[0] = make_layout(pd.src_desc());
    plan.inputs[1] = make_layout(pd.weights_desc());
    plan.outputs[0] = make_layout(pd.dst_desc());
    // oneDNN itself halves the weights of int8 data.
    finish_fused(plan, r, p, dtype == DType::kUInt8 && !cpu::has_vnni(), pd);
    return plan;
  });
}

std::optional<Plan> plan_fused_fully_connected(const PlanRequest& r) {
  return guarded("_sg_mkldnn_fully_connected", [&]() -> std::optional<Plan> {
    if (is_empty(r) || r.inputs[1].shape.ndim() != 2) return std::nullopt;
    const auto& p = *static_cast<const FusedFullyConnectedParams*>(r.params);
    const FusedInputs at_input = fused_inputs(p);
    const RowsColumns size = fully_connected_rows(p, r.inputs[0].shape);
    using tag = dnnl::memory::format_tag;
    const Desc data({size.rows, size.columns}, data_type(r.inputs[0].dtype), tag::ab);
    const Desc weight({p.num_hidden, size.columns}, dnnl::memory::data_type::s8, tag::any);
    const Desc output({size.rows, p.num_hidden}, data_type(r.outputs[0].dtype), tag::ab);
    const DType* sum = at_input.sum ? &r.inputs[at_input.sum].dtype : nullptr;
    const dnnl::primitive_attr attr = fused_layer_attr(p, sum, /*weight_mask=*/1);
    apply_thread_count(product_work(static_cast<double>(size.rows * size.columns) *
                                    static_cast<double>(p.num_hidden)));
    using PD = dnnl::inner_product_forward::primitive_desc;
    const auto prop = dnnl::prop_kind::forward_inference;
    const PD pd =
        at_input.bias
            ? PD(engine(), prop, data, weight, plain_desc(r.inputs[at_input.bias]), output, attr,
                 /*allow_empty=*/true)
            : PD(engine(), prop, data, weight, output, attr, /*allow_empty=*/true);
    if (!pd.get(true)) return std::nullopt;
    Plan plan = plain_plan(r);
    plan.inputs[1] = make_layout(pd.weights_desc());
    finish_fused(plan, r, p, !cpu::has_vnni(), pd);
    return plan;
  });
}

// ---- conversions ------------------------------------------------------------------------------

// A copy with a scale that is given at run time. `scale` is oneDNN's argument that receives it.
struct ScaledCopy {
  std::shared_ptr<const Primitive> primitive;
  int scale;
  void run(const void* from, void* to, float unit, void* scratch) const {
    primitive->run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {scale, &unit, &one_scale()}},
                   scratch);
  }
};

ScaledCopy make_scaled_copy(const Desc& from, const Desc& to, int which) {
  apply_thread_count(memory_work(from));
  dnnl::primitive_attr attr = user_scratchpad();
  attr.set_scales_mask(which, 0);
  return {std::make_shared<const Primitive>(
              dnnl::reorder::primitive_desc(engine(), from, engine(), to, attr)),
          DNNL_ARG_ATTR_SCALES | which};
}

// Images become channels-last, the layout that all quantized layers read. An array with three
// dimensions in plain layout was not written by a convolution. It is a sequence and stays plain for
// linear layers.
std::optional<Plan> plan_quantize(const PlanRequest& r) {
  return guarded("_contrib_quantize_v2", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const CalibratedParams*>(r.params);
    const TensorSpec &data = r.inputs[0], &result = r.outputs[0];
    if (!p.min_calib_range || data.dtype != DType::kFloat32 || is_empty(r)) return std::nullopt;
    const float end = largest_magnitude(*p.min_calib_range, *p.max_calib_range);
    if (!(end > 0)) return std::nullopt;
    const bool stays_plain = r.layouts[0].is_plain() && (data.shape.ndim() == 3 || !is_image(data));
    if (!stays_plain && !is_image(data)) return std::nullopt;
    const auto vector = [](const TensorSpec& spec) {
      return Desc({spec.shape.size()}, data_type(spec.dtype), dnnl::memory::format_tag::a);
    };
    const Desc from = stays_plain ? vector(data) : desc_of(r.layouts[0], data);
    const Desc to = stays_plain ? vector(result) : channels_last_of(result.shape, result.dtype);
    Plan plan = plain_plan(r);
    plan.inputs[0] = r.layouts[0];
    if (!stays_plain) plan.outputs[0] = make_layout(to);
    const ScaledCopy copy = make_scaled_copy(from, to, DNNL_ARG_DST);
    plan.scratch_bytes = copy.primitive->scratch_bytes();
    const bool is_unsigned = result.dtype == DType::kUInt8;
    const float low = is_unsigned ? *p.min_calib_range : -end;
    const float high = is_unsigned ? *p.max_calib_range : end;
    plan.run = [copy, unit = end / full_scale(result.dtype), low, high](
                   KernelContext&, std::span<void* const> in, std::span<void* const> out,
                   void* scratch) {
      copy.run(in[0], out[0], unit, scratch);
      store_range(out, low, high);
    };
    return plan;
  });
}

std::optional<Plan> plan_dequantize(const PlanRequest& r) {
  return guarded("_contrib_dequantize", [&]() -> std::optional<Plan> {
    const TensorSpec& data = r.inputs[0];
    if (r.layouts[0].is_plain() || !is_image(data) || is_empty(r)) return std::nullopt;
    const Desc from = desc_of(r.layouts[0], data);
    if (!is_channels_last(from)) return std::nullopt;
    const Desc to = channels_last_of(data.shape, DType::kFloat32);
    Plan plan = plain_plan(r);
    plan.inputs[0] = r.layouts[0];
    plan.outputs[0] = make_layout(to);
    const ScaledCopy copy = make_scaled_copy(from, to, DNNL_ARG_SRC);
    plan.scratch_bytes = copy.primitive->scratch_bytes();
    plan.run = [copy, full = full_scale(data.dtype)](KernelContext&, std::span<void* const> in,
                                                     std::span<void* const> out, void* scratch) {
      copy.run(in[0], out[0], magnitude_at(in[1], in[2]) / full, scratch);
    };
    return plan;
  });
}

// ---- layers that keep the range ---------------------------------------------------------------

std::optional<Plan> plan_quantized_pooling(const PlanRequest& r) {
  return guarded("_contrib_quantized_pooling", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const PoolingParams*>(r.params);
    const TensorSpec &data = r.inputs[0], &result = r.outputs[0];
    if (p.channels_last() || !is_image(data) || is_empty(r)) return std::nullopt;
    const auto d = describe(p, data.shape, result.shape, data.dtype);
    if (!d) return std::nullopt;
    const auto pd = forward_desc(*d, channels_last_of(data.shape, data.dtype),
                                 channels_last_of(result.shape, result.dtype), user_scratchpad());
    if (!pd.get(true)) return std::nullopt;
    Plan plan = plain_plan(r);
    plan.inputs[0] = make_layout(pd.src_desc());
    plan.outputs[0] = make_layout(pd.dst_desc());
    const auto primitive = std::make_shared<const Primitive>(pd);
    plan.scratch_bytes = primitive->scratch_bytes();
    plan.run = [primitive](KernelContext&, std::span<void* const> in, std::span<void* const> out,
                           void* scratch) {
      primitive->run({{DNNL_ARG_SRC, in[0]}, {DNNL_ARG_DST, out[0]}}, scratch);
      store_range(out, at(in[1]), at(in[2]));
    };
    return plan;
  });
}

std::optional<Plan> plan_quantized_act(const PlanRequest& r) {
  if (r.layouts[0].is_plain()) return std::nullopt;
  Plan plan = plain_plan(r);
  plan.inputs[0] = plan.outputs[0] = r.layouts[0];
  plan.run = [size = static_cast<int64_t>(r.layouts[0].bytes), dtype = r.inputs[0].dtype](
                 KernelContext&, std::span<void* const> in, std::span<void* const> out, void*) {
    dispatch_quantized(dtype, [&]<class T>(T) {
      const T* from = static_cast<const T*>(in[0]);
      T* to = static_cast<T*>(out[0]);
      cpu::parallel_ranges(size, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) to[i] = std::max(from[i], T(0));
      });
    });
    store_range(out, at(in[1]), at(in[2]));
  };
  return plan;
}

// Rounds to the nearest int8, in a form that compilers vectorize: adding kShift moves the integer
// part to the low bits.
int8_t to_int8(float v) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  const float shifted = std::min(std::max(v, -128.0f), 127.0f) + kShift;
  return static_cast<int8_t>(std::bit_cast<int32_t>(shifted));
}

std::optional<Plan> plan_quantized_batch_norm(const PlanRequest& r) {
  const auto& p = *static_cast<const BatchNormParams*>(r.params);
  const TensorSpec& data = r.inputs[0];
  if (!is_image(data) || is_empty(r) || p.axis != 1) return std::nullopt;
  Plan plan = plain_plan(r);
  plan.inputs[0] = make_layout(channels_last_of(data.shape, data.dtype));
  plan.outputs[0] = make_layout(channels_last_of(data.shape, DType::kInt8));
  const int64_t channels = data.shape[1], pixels = data.shape.size() / channels;
  plan.scratch_bytes = static_cast<size_t>(channels) * 2 * sizeof(float);
  plan.run = [=, dtype = data.dtype](KernelContext&, std::span<void* const> in,
                                     std::span<void* const> out, void* scratch) {
    const auto values = [&](size_t i) { return static_cast<const float*>(in[i]); };
    const float top = full_scale(DType::kInt8);
    const float units = scale_to(top, largest_magnitude(*p.min_calib_range, *p.max_calib_range));
    const float unit = magnitude_at(in[5], in[6]) / top * units;
    auto* factor = static_cast<float*>(scratch);
    float* shift = factor + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float slope =
          (p.fix_gamma ? 1.0f : values(1)[c]) / std::sqrt(values(4)[c] + static_cast<float>(p.eps));
      factor[c] = unit * slope;
      shift[c] = (values(2)[c] - values(3)[c] * slope) * units;
    }
    auto* to = static_cast<int8_t*>(out[0]);
    dispatch_quantized(dtype, [&]<class T>(T) {
      const T* from = static_cast<const T*>(in[0]);
      constexpr float kStep =  // converts uint8 numbers to int8 first
          std::is_same_v<T, uint8_t> ? 127.5f / 255.5f : 1.0f;
      cpu::parallel_for(pixels, channels, [&](int64_t pixel) {
        const T* x = from + pixel * channels;
        int8_t* y = to + pixel * channels;
        for (int64_t c = 0; c < channels; ++c) {
          const float v =
              std::is_same_v<T, uint8_t> ? to_int8(x[c] * kStep) : static_cast<float>(x[c]);
          y[c] = to_int8(v * factor[c] + shift[c]);
        }
      });
    });
    store_range(out, *p.min_calib_range, *p.max_calib_range);
  };
  return plan;
}

// Joins channels of channels-last images. Each part is converted by a table of its 256 numbers.
std::optional<Plan> plan_quantized_concat(const PlanRequest& r) {
  const TensorSpec& result = r.outputs[0];
  const int ndim = result.shape.ndim();
  const int axis = static_cast<const ConcatParams*>(r.params)->dim;
  if (!is_image(result) || is_empty(r) || (axis != 1 && axis != 1 - ndim)) return std::nullopt;
  struct Part {
    int64_t channels;
    DType dtype;
  };
  const size_t count = r.inputs.size() / 3;
  Plan plan = plain_plan(r);
  std::vector<Part> parts;
  for (size_t i = 0; i < count; ++i) {
    parts.push_back({r.inputs[i].shape[1], r.inputs[i].dtype});
    plan.inputs[i] = make_layout(channels_last_of(r.inputs[i].shape, r.inputs[i].dtype));
  }
  plan.outputs[0] = make_layout(channels_last_of(result.shape, result.dtype));
  const int64_t channels = result.shape[1], pixels = result.shape.size() / channels;
  plan.run = [=, dtype = result.dtype](KernelContext&, std::span<void* const> in,
                                       std::span<void* const> out, void*) {
    float low = at(in[count]), high = at(in[count + 1]);
    for (size_t i = 1; i < count; ++i) {
      low = std::min(low, at(in[count + 2 * i]));
      high = std::max(high, at(in[count + 2 * i + 1]));
    }
    const float units = scale_to(full_scale(dtype), largest_magnitude(low, high));
    int64_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      const Part& part = parts[i];
      const float scale =
          magnitude_at(in[count + 2 * i], in[count + 2 * i + 1]) / full_scale(part.dtype) * units;
      uint8_t table[256];
      for (int k = 0; k < 256; ++k) {
        const float value = static_cast<float>(
            part.dtype == DType::kUInt8 ? k : static_cast<int8_t>(static_cast<uint8_t>(k)));
        dispatch_quantized(dtype, [&]<class T>(T) {
          table[k] = static_cast<uint8_t>(saturate<T>(value * scale));
        });
      }
      const auto* from = static_cast<const uint8_t*>(in[i]);
      auto* to = static_cast<uint8_t*>(out[0]) + offset;
      cpu::parallel_for(pixels, part.channels, [&](int64_t pixel) {
        for (int64_t c = 0; c < part.channels; ++c)
          to[pixel * channels + c] = table[from[pixel * part.channels + c]];
      });
      offset += part.channels;
    }
    store_range(out, low, high);
  };
  return plan;
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  const auto add = [&](const char* op, PlanFn plan) {
    add_planned_kernel(ops, op, DeviceType::kCPU, {plan});
  };
  add("_sg_mkldnn_conv", plan_fused_convolution);
  add("_sg_mkldnn_fully_connected", plan_fused_fully_connected);
  add("_contrib_quantize_v2", plan_quantize);
  add("_contrib_dequantize", plan_dequantize);
  add("_contrib_quantized_pooling", plan_quantized_pooling);
  add("_contrib_quantized_act", plan_quantized_act);
  add("_contrib_quantized_batch_norm", plan_quantized_batch_norm);
  add("_contrib_quantized_concat", plan_quantized_concat);
});

}  // namespace mxlite::onednn
