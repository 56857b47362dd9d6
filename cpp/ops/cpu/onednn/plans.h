// Declarations that the files of planned kernels share.
#pragma once
#include "cpp/ops/planned_kernel.h"

namespace mxlite::onednn {

// Convolutions with our own kernels where they are faster than oneDNN's: Winograd and first layers.
std::optional<Plan> plan_own_convolution(const PlanRequest& r);
std::optional<Plan> plan_own_backward_data(const PlanRequest& r);
std::optional<Plan> plan_own_backward_weight(const PlanRequest& r);

// BatchNorm in training with our own kernels, for channels-last data or blocks of channel_block().
std::optional<Plan> plan_own_norm(const PlanRequest& r);
std::optional<Plan> plan_own_norm_backward(const PlanRequest& r);

// Returns whether an input or output has no elements.
bool is_empty(const PlanRequest& r);
// Returns whether oneDNN computes in the request's type and no input or output is empty.
bool is_plannable(const PlanRequest& r);

}  // namespace mxlite::onednn
