#include "cpp/ops/optimizer/run_update.h"

#include <algorithm>
#include <cmath>

#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {
namespace {

// Returns whether the inputs are weight, gradient, the states that the operator changes and, in
// AdamW, the factor on the gradient, and the output is the new weight.
bool updates_one_weight(const OpSchema& op) {
  const auto& in = op.inputs;
  const size_t states = op.mutated_inputs.size(), arrays = 2 + states;
  const bool scaled = in.size() == arrays + 1 && in.back() == "rescale_grad";
  if (op.variadic || in.size() < arrays || (in.size() > arrays && !scaled)) return false;
  if (in[0] != "weight" || in[1] != "grad") return false;
  for (size_t i = 0; i < states; ++i)
    if (op.mutated_inputs[i] != static_cast<int>(i) + 2 || in[i + 2] == "weight32") return false;
  return std::any_of(op.inplace.begin(), op.inplace.end(),
                     [](InplacePair p) { return p.input == 0 && p.output == 0; });
}

const OpSchema& find_update(const std::string& name) {
  const OpSchema* const op = ops().find(name);
  MX_CHECK_KIND(op && updates_one_weight(*op), ErrorKind::kNotSupported, "set_optimizer: '", name,
                "' is no operator that updates one weight, as \"sgd_update\" does");
  return *op;
}

// Parameters of any type take a number without a fraction as an integer.
AttrValue number_attr(double value) {
  constexpr double kExact = 1LL << 53;
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

void run_update(const std::string& op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output) {
  const OpSchema& schema = find_update(op);
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [name, value] : params) attrs.emplace_back(name, number_attr(value));
  const ParamsRef values = schema.make_params_by_name(attrs);
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
