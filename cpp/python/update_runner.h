// Joins the servers' optimizers and the operators: neither library sees the other.
#pragma once
#include <vector>

#include "cpp/kvstore/server/optimizer.h"
#include "cpp/ops/optimizer/run_update.h"

namespace mxlite::python {

inline void run_update_of_server(const char* op, std::span<const ps::UpdateParam> params,
                                 std::span<const ps::UpdateArray> inputs,
                                 const ps::UpdateArray& output) {
  const auto tensor = [](const ps::UpdateArray& a) {
    const Shape shape{a.count};
    return TensorRef{a.data, shape, contiguous_strides(shape), a.dtype, true};
  };
  std::vector<TensorRef> tensors;
  for (const ps::UpdateArray& input : inputs) tensors.push_back(tensor(input));
  optimizer::run_update(op, params, tensors, tensor(output));
}

}  // namespace mxlite::python
