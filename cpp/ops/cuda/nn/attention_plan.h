// Plans of cuDNN's fused attention, stored by problem and device until the process ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/attention_problem.h"

namespace mxlite::cuda {

using AttentionPointers = std::unordered_map<int64_t, void*>;  // by AttentionTensor

class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual void run(KernelContext& ctx, AttentionPointers pointers, void* workspace) const = 0;
};

// Returns null if cuDNN has no plan; MXLITE_VERBOSE=dispatch prints the reason once.
std::shared_ptr<const AttentionPlan> find_attention_plan(KernelContext& ctx,
                                                         const AttentionProblem& problem);

}  // namespace mxlite::cuda
