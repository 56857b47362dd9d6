#include "cpp/ops/nn/convolution_problem.h"

#include <algorithm>

#include "cpp/base/env.h"
#include "cpp/base/str.h"

namespace mxlite {
namespace {

// Workspace limit for tuning without a user limit (kFastest): measuring must leave memory for the
// network.
constexpr int64_t kMostWorkspace = int64_t{4} << 30;

int64_t workspace_limit(int64_t mebibytes, ConvolutionTuning tuning) {
  const int64_t asked = std::clamp<int64_t>(mebibytes, 0, 1 << 20) << 20;
  return tuning == ConvolutionTuning::kFastest ? std::max(asked, kMostWorkspace) : asked;
}

// Returns (N, C, spatial) with leading spatial dimensions of 1 added, so that there are ndim
// dimensions.
ConvolutionProblem::Numbers own_dims(const SpatialDims& d, int ndim) {
  ConvolutionProblem::Numbers n{d.batch, d.channels};
  for (int i = 2; i < ndim; ++i) n[static_cast<size_t>(i)] = d.size[3 - (ndim - i)];
  return n;
}

template <class List>
std::string joined(const List& numbers, int count) {
  std::string s;
  for (int i = 0; i < count; ++i) s += str(i > 0 ? "x" : "", numbers[static_cast<size_t>(i)]);
  return s;
}

}  // namespace

ConvolutionProblem::Numbers ConvolutionProblem::strides_of(const Numbers& dims) const {
  Numbers strides{};
  int64_t step = 1;
  const auto take = [&](int i) {
    strides[static_cast<size_t>(i)] = step;
    step *= dims[static_cast<size_t>(i)];
  };
  if (channels_last) take(1);
  for (int i = ndim - 1; i >= 2; --i) take(i);
  if (!channels_last) take(1);
  take(0);
  return strides;
}

std::string ConvolutionProblem::text() const {
  constexpr const char* kDirections[] = {"forward", "backward_data", "backward_weight"};
  const int spatial = ndim - 2;
  return str("convolution ", kDirections[static_cast<int>(direction)], " ", dtype_name(dtype), " ",
             channels_last ? "channels_last" : "channels_first", " data ", joined(data, ndim),
             " weight ", joined(weight, ndim), " output ", joined(output, ndim), " stride ",
             joined(stride, spatial), " pad ", joined(pad, spatial), " dilate ",
             joined(dilate, spatial), " groups ", groups, bias ? " bias" : "", addend ? " add" : "",
             relu ? " relu" : "", sums ? " sums" : "", allow_conversion ? " conversion" : "",
             deterministic ? " deterministic" : "", " tuning ", static_cast<int>(tuning),
             " workspace ", workspace_bytes, " alignment ", alignment);
}

size_t ConvolutionProblemHash::operator()(const ConvolutionProblem& p) const {
  uint64_t hash = 0;
  const auto mix = [&](int64_t v) {
    hash ^= static_cast<uint64_t>(v) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  };
  mix(static_cast<int64_t>(p.direction));
  mix(static_cast<int64_t>(p.dtype));
  mix(p.channels_last + 2 * p.bias + 4 * p.addend + 8 * p.relu + 16 * p.sums);
  mix(p.groups);
  mix(p.alignment);
  for (const int64_t v : p.data) mix(v);
  for (const int64_t v : p.weight) mix(v);
  for (const int64_t v : p.stride) mix(v);
  for (const int64_t v : p.pad) mix(v);
  for (const int64_t v : p.dilate) mix(v);
  return hash;
}

ConvolutionProblem describe_convolution(ConvolutionDirection direction, const ConvolutionParams& p,
                                        const Shape& data, const Shape& output, DType dtype,
                                        bool memory_channels_last) {
  const bool last = p.channels_last();
  const SpatialWindow w = p.window();
  const SpatialDims d = spatial_dims(data, last);
  ConvolutionProblem q;
  q.direction = direction;
  q.dtype = dtype;
  q.ndim = p.kernel.ndim() == 3 ? 5 : 4;
  q.channels_last = last || memory_channels_last;
  q.groups = p.num_group;
  static const int64_t autotune = env_int("MXNET_CUDNN_AUTOTUNE_DEFAULT", 1);
  static const bool conversion = env_int("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", 0) != 0;
  static const bool deterministic = env_int("MXNET_ENFORCE_DETERMINISM", 0) != 0;
  q.tuning = convolution_tuning(p.cudnn_tune, autotune);
  q.workspace_bytes = workspace_limit(p.workspace, q.tuning);
  q.allow_conversion = conversion && dtype == DType::kFloat32;
  q.deterministic = deterministic;
  q.data = own_dims(d, q.ndim);
  q.output = own_dims(spatial_dims(output, last), q.ndim);
  q.weight = {q.output[1], d.channels / p.num_group};
  for (int i = 0; i < q.ndim - 2; ++i) {
    const int at = 3 - (q.ndim - 2) + i;
    const auto k = static_cast<size_t>(i);
    q.weight[k + 2] = w.kernel[at];
    q.stride[k] = w.stride[at];
    q.pad[k] = w.pad[at];
    q.dilate[k] = w.dilate[at];
  }
  return q;
}

// As in 1.x, TF32 is used for float32 only if MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION=1.
PlanRules plan_rules(const ConvolutionProblem& p) {
  const bool exact = p.dtype == DType::kFloat32 && !p.allow_conversion;
  return {.no_tensor_cores = exact,
          .no_down_conversion = exact,
          .no_reduced_reduction = is_half(p.dtype),
          .deterministic = p.deterministic,
          .most_workspace = p.workspace_bytes};
}

int64_t common_alignment(std::initializer_list<const void*> addresses) {
  auto bits = static_cast<uintptr_t>(ConvolutionProblem::kFullAlignment);
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(bits & (~bits + 1));
}

ConvolutionTuning convolution_tuning(const std::optional<std::string>& cudnn_tune,
                                     int64_t by_environment) {
  if (cudnn_tune == "off") return ConvolutionTuning::kOff;
  if (cudnn_tune == "limited_workspace") return ConvolutionTuning::kLimitedWorkspace;
  if (cudnn_tune == "fastest") return ConvolutionTuning::kFastest;
  MX_CHECK(by_environment >= 0 && by_environment <= 2,
           "MXNET_CUDNN_AUTOTUNE_DEFAULT must be 0, 1 or 2, got ", by_environment);
  return static_cast<ConvolutionTuning>(by_environment);
}

}  // namespace mxlite
