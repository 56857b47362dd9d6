#include "cpp/symbol/call.h"

#include "cpp/ops/call_checks.h"
#include "cpp/ops/invoke.h"

namespace mxlite::symbol {
namespace {

ParamsRef parsed(const OpSchema& op, const OpCall::Texts& params) {
  std::vector<std::pair<std::string_view, AttrValue>> values;
  for (const auto& [key, text] : params) values.emplace_back(key, text);
  return op.make_params_by_name(values);
}

}  // namespace

const SymbolTraits& Call::traits(const std::string&) const {
  static const SymbolTraits none;
  return none;
}

OpCall::OpCall(const std::string& name, const Texts& params)
    : op_(ops().get_public(name)), params_(parsed(op_, params)) {}

OpCall::OpCall(const OpSchema& op, ParamsRef params) : op_(op), params_(std::move(params)) {}

int OpCall::num_inputs() const { return op_.variadic ? -1 : op_.count_inputs(params()); }
int OpCall::num_outputs(int n) const { return op_.count_outputs(params(), n); }
int OpCall::num_visible(int n) const { return op_.count_visible_outputs(params(), n); }

std::vector<int> OpCall::written(int num_inputs) const {
  std::vector<int> result;
  for (int i = 0; i < num_inputs; ++i)
    if (op_.mutates(i, /*training=*/true)) result.push_back(i);
  return result;
}

void OpCall::complete(std::span<TensorSpec> inputs) const {
  check_input_count(op_, params(), inputs.size());
  if (op_.complete) op_.complete(params(), inputs);
}

Specs OpCall::infer(std::span<const TensorSpec> inputs) const {
  return infer_outputs(op_, params(), inputs);
}

void OpCall::fill_types(const SymbolTraits& traits, KnownTypes in, KnownTypes out) const {
  mxlite::fill_types(&op_, traits, params(), in, out);
}

const SymbolTraits& OpCall::traits(const std::string& file_name) const {
  return op_.symbol_traits(file_name);
}

Shape OpCall::shape_param() const {
  const int at = op_.param_index("shape");
  MX_ASSERT(at >= 0);
  return std::get<Shape>(op_.params_values(params())[static_cast<size_t>(at)]);
}

std::shared_ptr<const OpCall> OpCall::with_shape(const Shape& shape) const {
  const std::vector<AttrValue> values = op_.params_values(params());
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (size_t i = 0; i < values.size(); ++i)
    attrs.emplace_back(op_.params[i].name, op_.params[i].name == "shape" ? shape : values[i]);
  return std::make_shared<OpCall>(op_, op_.make_params_by_name(attrs));
}

}  // namespace mxlite::symbol
