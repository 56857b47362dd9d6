#include "cpp/ops/optimizer/run_update.h"

#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

void run_update(const char* op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output) {
  const OpSchema& schema = ops().get(op);
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [name, value] : params) attrs.emplace_back(name, value);
  const ParamsRef values = schema.make_params_by_name(attrs);
  std::vector<TensorSpec> specs;
  for (const TensorRef& input : inputs) specs.push_back({input.shape, input.dtype});
  const Specs out_specs = schema.infer(values.get(), specs);
  KernelContext context;
  schema.select_kernel(context.device.type, values.get(), specs, out_specs)
      .run(context, values.get(), inputs, {&output, 1});
}

int states_of_update(const char* op) {
  return static_cast<int>(ops().get(op).mutated_inputs.size());
}

}  // namespace mxlite::optimizer
