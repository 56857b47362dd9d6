// One convolution as a library sees it: tensors of 4 or 5 dimensions with strides, in the order
// (N, C, spatial). Problems are compared, hashed and written to files, so that what was found out
// about one is found again.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/plan_choice.h"

namespace mxlite {

enum class ConvolutionDirection : uint8_t { kForward, kBackwardData, kBackwardWeight };
// Says how carefully an algorithm is chosen; the values are MXNET_CUDNN_AUTOTUNE_DEFAULT's.
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
  bool bias = false, addend = false, relu = false;  // in this order; backward_data: bias
  // Forward, without the three above: the sums of the output's channels and of their squares are
  // stored, too.
  bool sums = false;
  // MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION (float32 in TF32) and MXNET_ENFORCE_DETERMINISM:
  // a choice measured with one value is not valid for the other.
  bool allow_conversion = false, deterministic = false;
  int64_t workspace_bytes = 0;
  // Bytes: every operand's address is a multiple. Engines that load 16 bytes at once need 16.
  int64_t alignment = kFullAlignment;
  int64_t groups = 1;
  Numbers data{}, weight{}, output{};
  std::array<int64_t, 3> stride{}, pad{}, dilate{};  // the first ndim - 2

  bool operator==(const ConvolutionProblem&) const = default;
  Numbers strides_of(const Numbers& dims) const;
  // One line without tabs.
  std::string text() const;
};

struct ConvolutionProblemHash {
  size_t operator()(const ConvolutionProblem& p) const;
};

// `data` and `output` are the convolution's own, also for its gradients. 1-D problems become 2-D
// ones of height 1. memory_channels_last: where the operator's layout is channels-first, how its
// tensors lie in memory (otherwise they are channels-last anyway).
ConvolutionProblem describe_convolution(ConvolutionDirection direction, const ConvolutionParams& p,
                                        const Shape& data, const Shape& output, DType dtype,
                                        bool memory_channels_last);

// Returns the rules by which engines are excluded for this problem.
PlanRules plan_rules(const ConvolutionProblem& problem);

// The largest power of two, up to kFullAlignment, of which all addresses are multiples.
int64_t common_alignment(std::initializer_list<const void*> addresses);

// The parameter cudnn_tune, or else what MXNET_CUDNN_AUTOTUNE_DEFAULT says: 0, 1 or 2.
ConvolutionTuning convolution_tuning(const std::optional<std::string>& cudnn_tune,
                                     int64_t by_environment);

}  // namespace mxlite
