// The memory format that executables on CUDA use besides plain memory: (N, C, spatial) tensors
// stored as (N, spatial, C), for 16-bit floats and int8, whose convolutions then run on tensor
// cores. Such a tensor is a plain tensor of another shape, so the operators' plain kernels work on
// it. Only operands of int8 convolutions have additional channels of zeros.
#pragma once
#include "cpp/ops/planned_kernel.h"

namespace mxlite::cuda {

// Converts (N, C, spatial) to (N, spatial, C).
Shape last_shape(const Shape& shape);
// Returns the plain layout if the memory is the same, which holds for one channel or one pixel.
// Channels are padded to a multiple of `multiple`.
Layout channels_last(const TensorSpec& spec, int64_t multiple = 1);
bool is_channels_last(const Layout& layout);

bool same_channels_last(const Layout& a, const Layout& b);
Plan plan_channels_last_reorder(const TensorSpec& from_spec, const Layout& from,
                                const TensorSpec& to_spec, const Layout& to);

bool is_relu(const PostOp& p);

}  // namespace mxlite::cuda
