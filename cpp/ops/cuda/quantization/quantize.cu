#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/quantization/convert.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace quantization;  // NOLINT: this file uses its parameters and scales

// ---- ranges of data ---------------------------------------------------------------------------

constexpr unsigned kParts = 64;

// Each block writes the minimum and maximum of its part; another block combines them.
template <class T>
__global__ void __launch_bounds__(kThreads) find_range(int64_t n, const T* data, float* parts) {
  T low = data[0], high = data[0];
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    low = data[i] < low ? data[i] : low;
    high = data[i] > high ? data[i] : high;
  }
  const auto least = -block_max(-static_cast<float>(low), -INFINITY);
  const auto most = block_max(static_cast<float>(high), -INFINITY);
  if (threadIdx.x != 0) return;
  parts[2 * blockIdx.x] = least;
  parts[2 * blockIdx.x + 1] = most;
}

// Writes two floats to scratch memory; zeros if there is no data.
template <class T>
Range range_of(KernelContext& ctx, const TensorRef& data) {
  auto* const range = static_cast<float*>(ctx.scratch((2 * kParts + 2) * sizeof(float)));
  float* const parts = range + 2;
  const int64_t n = data.size();
  if (n == 0) {
    zero_bytes(ctx, range, 2 * sizeof(float));
  } else {
    const unsigned blocks = std::min(blocks_for(n, ctx), kParts);
    launch(ctx, find_range<T>, blocks, kThreads, n, data.as<T>(), parts);
    launch(ctx, find_range<float>, 1, kThreads, int64_t{2 * blocks},
           static_cast<const float*>(parts), range);
  }
  return {range, range + 1};
}

Range calibrated(const std::optional<float>& low, const std::optional<float>& high) {
  return Range::fixed(low.value_or(0), high.value_or(0));
}

// ---- conversions ------------------------------------------------------------------------------

// Converts floats to numbers whose largest value `top` corresponds to the end of the range.
__global__ void store_numbers(int64_t n, const float* from, Range range, float top, Numbers to,
                              RangeOut out) {
  const float magnitude = range.magnitude(), scale = scale_to(top, magnitude);
  if (to.dtype == DType::kUInt8)
    out.set(range.low(), range.high());
  else
    out.set(-magnitude, magnitude);
  for (int64_t i = global_index(); i < n; i += grid_stride()) to.store(i, from[i] * scale);
}
void store(KernelContext& ctx, const TensorRef& data, const Range& range, float top, Outputs out) {
  launch_items(ctx, store_numbers, at_least_one(data.size()), data.size(), data.as<float>(), range,
               top, Numbers(out[0]), RangeOut(out));
}

void quantize(KernelContext& ctx, const QuantizeParams&, Inputs in, Outputs out) {
  store(ctx, in[0], Range::of(in[1], in[2]), largest(out[0].dtype), out);
}

void quantize_v2(KernelContext& ctx, const CalibratedParams& p, Inputs in, Outputs out) {
  const Range known = calibrated(p.min_calib_range, p.max_calib_range);
  if (in[0].dtype != DType::kFloat32) {  // the data is already quantized
    copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
    return give_range(ctx, known, out);
  }
  const Range range = p.min_calib_range ? known : range_of<float>(ctx, in[0]);
  store(ctx, in[0], range, full_scale(out[0].dtype), out);
}

__global__ void load_numbers(int64_t n, Numbers from, Range range, float top, float* to) {
  const float level = range.magnitude() / top;
  for (int64_t i = global_index(); i < n; i += grid_stride()) to[i] = from.load(i) * level;
}
void dequantize(KernelContext& ctx, const DequantizeParams&, Inputs in, Outputs out) {
  launch_items(ctx, load_numbers, in[0].size(), in[0].size(), Numbers(in[0]),
               Range::of(in[1], in[2]), full_scale(in[0].dtype), out[0].as<float>());
}

// `raw` is the range of the int32 numbers, used if the result's range is not known.
__global__ void requantize_numbers(int64_t n, const int32_t* from, Range range, Range known,
                                   bool is_known, float top, Numbers to, RangeOut out) {
  const double level = static_cast<double>(range.magnitude()) / (double{kInt32Range} - 1);
  float low = known.low(), high = known.high();
  if (!is_known) {
    low = static_cast<float>(low * level);
    high = static_cast<float>(high * level);
  }
  const float magnitude = fmaxf(fabsf(low), fabsf(high));
  const auto scale = static_cast<float>(level * scale_to(top, magnitude));
  out.set(to.dtype == DType::kUInt8 ? 0.0f : -magnitude, magnitude);
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to.store(i, static_cast<float>(from[i]) * scale);
}
void requantize(KernelContext& ctx, const CalibratedParams& p, Inputs in, Outputs out) {
  const bool is_known = p.min_calib_range.has_value();
  const Range known =
      is_known ? calibrated(p.min_calib_range, p.max_calib_range) : range_of<int32_t>(ctx, in[0]);
  const int64_t n = in[0].size();
  launch_items(ctx, requantize_numbers, at_least_one(n), n, in[0].as<int32_t>(),
               Range::of(in[1], in[2]), known, is_known, largest(out[0].dtype), Numbers(out[0]),
               RangeOut(out));
}

__global__ void store_asymmetric(int64_t n, const float* from, Range range, uint8_t* to,
                                 RangeOut out) {
  const float scale = scale_to(255.0f, range.high() - range.low());
  const float shift = 255.0f - range.high() * scale;
  out.set(scale, shift);
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = saturate<uint8_t>(floorf(from[i] * scale + shift + 0.5f));
}
void quantize_asymmetric(KernelContext& ctx, const RangeParams& p, Inputs in, Outputs out) {
  const Range range = p.min_calib_range ? calibrated(p.min_calib_range, p.max_calib_range)
                                        : range_of<float>(ctx, in[0]);
  launch_items(ctx, store_asymmetric, at_least_one(in[0].size()), in[0].size(), in[0].as<float>(),
               range, out[0].as<uint8_t>(), RangeOut(out));
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::quantize>("_contrib_quantize");
  ops.cuda_kernel<&quantize_v2>("_contrib_quantize_v2");
  ops.cuda_kernel<&quantize_asymmetric>("_contrib_quantize_asym");
  ops.cuda_kernel<&dequantize>("_contrib_dequantize");
  ops.cuda_kernel<&requantize>("_contrib_requantize");
});

}  // namespace mxlite::cuda
