// Description of one convolution for a library: strided tensors of 4 or 5 dimensions in the order
// (N, C, spatial). Problems are the keys of the plan caches in memory and in files (as text), so
// that a measured choice is reused.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/plan_choice.h"

namespace mxlite {

enum class ConvolutionDirection : uint8_t { kForward, kBackwardData, kBackwardWeight };
// Ways to choose an algorithm; the values are those of MXNET_CUDNN_AUTOTUNE_DEFAULT.
enum class ConvolutionTuning : uint8_t { kOff = 0, kLimitedWorkspace = 1, kFastest = 2 };

struct ConvolutionProblem {
  static constexpr int kMaxNdim = 5;
  static constexpr int64_t kFullAlignment = 16;
  using Numbers = std::array<int64_t, kMaxNdim>;

  ConvolutionDirection direction = ConvolutionDirection::kForward;
  ConvolutionTuning tuning = ConvolutionTuning::kOff;
  DType dtype = DType::kFloat32;
  int ndim = 4;
  bool channels_last = false;                       // memory layout: N, spatial, C
  bool bias = false, addend = false, relu = false;  // post-ops in this order; for gradients, only
                                                    // bias
  // Says whether forward also stores the sums of the output's channels and of their squares. Such a
  // forward cannot have the three post-ops above.
  bool sums = false;
  // MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION (float32 in TF32) and MXNET_ENFORCE_DETERMINISM. A
  // choice measured with one value is not valid for the other.
  bool allow_conversion = false, deterministic = false;
  int64_t workspace_bytes = 0;
  // All operands' addresses are multiples of this number of bytes. Engines with 16-byte loads
  // require 16.
  int64_t alignment = kFullAlignment;
  int64_t groups = 1;
  Numbers data{}, weight{}, output{};
  std::array<int64_t, 3> stride{}, pad{}, dilate{};  // only the first ndim - 2 entries are used

  bool operator==(const ConvolutionProblem&) const = default;
  Numbers strides_of(const Numbers& dims) const;
  // Returns a description in one line without tabs.
  std::string text() const;
};

struct ConvolutionProblemHash {
  size_t operator()(const ConvolutionProblem& p) const;
};

// `data` and `output` are the forward convolution's shapes, also for gradients. 1-D problems become
// 2-D problems of height 1. memory_channels_last: whether tensors of a channels-first operator are
// channels-last in memory (with a channels-last layout they always are).
ConvolutionProblem describe_convolution(ConvolutionDirection direction, const ConvolutionParams& p,
                                        const Shape& data, const Shape& output, DType dtype,
                                        bool memory_channels_last);

// Returns the rules by which engines are excluded for this problem.
PlanRules plan_rules(const ConvolutionProblem& problem);

// Returns the largest power of two, up to kFullAlignment, that divides all addresses.
int64_t common_alignment(std::initializer_list<const void*> addresses);

// Returns the value of cudnn_tune, or `by_environment` (MXNET_CUDNN_AUTOTUNE_DEFAULT) if not given.
ConvolutionTuning convolution_tuning(const std::optional<std::string>& cudnn_tune,
                                     int64_t by_environment);

}  // namespace mxlite
