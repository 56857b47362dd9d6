#include "cpp/ops/optimizer/run_update.h"

#include <cmath>

namespace mxlite::optimizer {
namespace {

const OpSchema& find_update(const std::string& name) {
  const OpSchema* const op = ops().find(name);
  MX_CHECK_KIND(op && !op->update_family.name.empty() && !op->update_family.mixed &&
                    op->update_family.count.empty(),
                ErrorKind::kNotSupported, "set_optimizer: '", name,
                "' must be an operator that updates one weight, such as \"sgd_update\"");
  return *op;
}

// Converts a double without a fraction to an integer, because parameters of all numeric types
// accept integers.
AttrValue number_attr(double value) {
  constexpr double kExact = 1LL << 53;
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

ParamsRef params_of_update(const std::string& op, std::span<const NamedNumber> params) {
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [name, value] : params) attrs.emplace_back(name, number_attr(value));
  return find_update(op).make_params_by_name(attrs);
}

void run_update(const std::string& op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output) {
  const OpSchema& schema = find_update(op);
  const ParamsRef values = params_of_update(op, params);
  std::vector<TensorSpec> specs;
  for (const TensorRef& input : inputs) specs.push_back({input.shape, input.dtype});
  MX_ASSERT(specs.size() == schema.inputs.size());
  const Specs out_specs = schema.infer(values.get(), specs);
  KernelContext context;
  schema.select_kernel(context.device.type, values.get(), specs, out_specs)
      .run(context, values.get(), inputs, {&output, 1});
}

UpdateForm form_of_update(const std::string& op) {
  const OpSchema& schema = find_update(op);
  UpdateForm form{
      static_cast<int>(schema.mutated_inputs.size()), schema.inputs.back() == "rescale_grad", {}};
  for (const ParamInfo& param : schema.params) form.params.push_back(param.name);
  return form;
}

}  // namespace mxlite::optimizer
