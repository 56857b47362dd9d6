// Lets the optimizers of parameter servers (cpp/kvstore/store) run update operators (cpp/ops).
// Files in cpp/kvstore/store may not include those of cpp/ops.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cpp/kvstore/store/optimizer.h"
#include "cpp/ops/optimizer/run_update.h"

namespace mxlite::python {

inline void run_update_of_server(const std::string& op, std::span<const store::UpdateParam> params,
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

inline store::UpdateOperator find_update_of_server(const std::string& op) {
  optimizer::UpdateForm form = optimizer::form_of_update(op);
  return {form.states, form.scale_is_input, std::move(form.params)};
}

}  // namespace mxlite::python
