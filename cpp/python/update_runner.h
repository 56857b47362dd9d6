// Connects the servers' optimizers with the operators; neither library depends on the other.
#pragma once
#include <vector>

#include "cpp/kvstore/store/optimizer.h"
#include "cpp/ops/optimizer/run_update.h"

namespace mxlite::python {

inline void run_update_of_server(const char* op, std::span<const store::UpdateParam> params,
                                 std::span<const store::UpdateArray> inputs,
                                 const store::UpdateArray& output) {
  const auto tensor = [](const store::UpdateArray& a) {
    const Shape shape{a.count};
    return TensorRef{a.data, shape, contiguous_strides(shape), a.dtype, true};
  };
  std::vector<TensorRef> tensors;
  for (const store::UpdateArray& input : inputs) tensors.push_back(tensor(input));
  optimizer::run_update(op, params, tensors, tensor(output));
}

}  // namespace mxlite::python
