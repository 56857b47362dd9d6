
#include <algorithm>

#include "cpp/base/suggest.h"
#include "cpp/core/accelerator.h"
#include "cpp/ops/dispatch_line.h"
#include "cpp/ops/registration.h"

namespace mxlite {

std::string OpSchema::input_name(int i) const {
  if (variadic) return str(inputs[0], i);
  return i < static_cast<int>(inputs.size()) ? inputs[i] : str("input", i);
}

int OpSchema::count_inputs(const void* p) const {
  return input_count ? input_count(p) : static_cast<int>(inputs.size());
}

int OpSchema::count_outputs(const void* p, int num_inputs) const {
  return output_count ? output_count(p, num_inputs) : num_outputs;
}

int OpSchema::count_visible_outputs(const void* p, int num_inputs) const {
  return visible_outputs ? visible_outputs(p) : count_outputs(p, num_inputs);
}

int OpSchema::param_index(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

const SymbolRules& OpSchema::symbol_traits(std::string_view file_name) const {
  const auto kept = kept_aliases.find(file_name);
  return kept == kept_aliases.end() ? symbol : kept->second;
}

ParamsRef OpSchema::make_params_by_name(
    std::span<const std::pair<std::string_view, AttrValue>> attrs) const {
  if (attrs.empty() && default_params) return default_params;
  std::vector<AttrValue> values(params.size());
  uint64_t given = 0;
  for (const auto& [key, value] : attrs) {
    const int i = param_index(key);
    if (i < 0) {
      std::vector<std::string> names;
      for (const ParamInfo& p : params) names.push_back(p.name);
      fail(ErrorKind::kType, name, "() got an unexpected keyword argument '", key, "'",
           did_you_mean(key, names));
    }
    values[i] = value;
    given |= uint64_t{1} << i;
  }
  return make_params(values, given);
}

bool OpSchema::mutates(int input, bool training) const {
  if (mutated_inputs.empty() || (mutates_only_in_training && !training)) return false;
  if (mutates_every > 0) input %= mutates_every;
  return std::find(mutated_inputs.begin(), mutated_inputs.end(), input) != mutated_inputs.end();
}

std::vector<ValueRef> OpSchema::emit_gradient(GradBuilder& g, bool differentiable) const {
  if (differentiable && composite_gradient) {
    std::vector<ValueRef> grads = composite_gradient(g);
    if (!grads.empty()) return grads;
  }
  return gradient(g);
}

namespace {

std::string why_no_kernel(DeviceType device, const std::string& op) {
  if (device != DeviceType::kCUDA) return " in this build";
  if (!accelerator()) return ", " + accelerator_absence();
  return " was written for " + op + "; move its inputs to the CPU with as_in_context(mx.cpu())";
}

// A kernel for calls whose outputs are all empty. The regular kernel's loops could still be long,
// for example over 2^40 rows without columns.
const Kernel& no_work() {
  static const Kernel kernel{.name = "no work",
                             .run = [](KernelContext&, const void*, Inputs, Outputs) {},
                             .strided_inputs = true};
  return kernel;
}

bool writes_nothing(const OpSchema& op, std::span<const TensorSpec> out) {
  return !out.empty() && op.mutated_inputs.empty() &&
         std::ranges::all_of(out, [](const TensorSpec& spec) {
           return std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end();
         });
}

}  // namespace

const Kernel& OpSchema::select_kernel(DeviceType device, const void* p,
                                      std::span<const TensorSpec> in,
                                      std::span<const TensorSpec> out) const {
  // The accelerator plug-in registers its kernels even if it finds no GPU. In this case, these
  // kernels must be ignored.
  const bool has_device = computing_device(device) == DeviceType::kCPU || accelerator();
  const std::span<const Kernel> candidates =
      has_device ? std::span<const Kernel>(kernels[device]) : std::span<const Kernel>();
  std::string reasons;
  for (const Kernel& kernel : candidates) {
    const char* reason = kernel.supports ? kernel.supports(p, in, out) : nullptr;
    print_dispatch(name, kernel.name, reason);
    if (reason) {
      reasons += str(reasons.empty() ? "" : "; ", kernel.name, ": ", reason);
      continue;
    }
    return !kernel.runs_when_empty && writes_nothing(*this, out) ? no_work() : kernel;
  }
  // Without a GPU, the error reports the missing GPU, not a missing kernel.
  MX_CHECK_KIND(!candidates.empty(), has_device ? ErrorKind::kNotSupported : ErrorKind::kDevice,
                name, ": no ", device == DeviceType::kCUDA ? "CUDA" : "CPU", " kernel",
                why_no_kernel(device, name));
  std::string given;
  for (const TensorSpec& spec : in) given += str(given.empty() ? "" : ", ", spec);
  fail(ErrorKind::kNotSupported, name, ": no kernel takes inputs ", given, " (", reasons, ")");
}

std::string OpSchema::signature() const {
  std::string s = "(";
  for (const std::string& in : inputs) s += (s.size() > 1 ? ", " : "") + (variadic ? "*" + in : in);
  if (!params.empty() && !variadic) s += s.size() > 1 ? ", *" : "*";
  for (const ParamInfo& p : params)
    s += ", " + p.name + ": " + p.python_type + (p.required ? "" : " = " + p.default_text);
  return s + ") -> NDArray";
}

namespace {

// Formats like Python, so that 2.0 does not look like an int.
std::string real_text(double value) {
  const std::string text = attr_text(value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string given_text(const AttrValue& given) {
  if (const auto* one = std::get_if<double>(&given)) return real_text(*one);
  const auto* several = std::get_if<std::vector<double>>(&given);
  if (!several) return attr_text(given);
  std::string text;
  for (const double v : *several) text += str(text.empty() ? "" : ", ", real_text(v));
  return str("(", text, several->size() == 1 ? ",)" : ")");
}

}  // namespace

void throw_attr_mismatch(const std::string& op, const std::string& param, const AttrValue& given,
                         const AttrMismatch& mismatch) {
  const bool text = std::holds_alternative<std::string>(given);
  fail(text || mismatch.wrong_value ? ErrorKind::kValue : ErrorKind::kType, op, ": parameter ",
       param, " must be ", mismatch.expected, ", got ", text ? "'" : "", given_text(given),
       text ? "'" : "");
}

void throw_missing_param(const std::string& op, const std::string& param) {
  fail(ErrorKind::kType, op, "() missing required keyword argument '", param, "'");
}

void set_params(OpSchema& schema, std::vector<ParamField> fields, std::shared_ptr<void> (*make)()) {
  const std::shared_ptr<void> defaults = make();
  bool any_required = false;
  for (const ParamField& f : fields) {
    any_required |= f.required;
    const AttrValue value = f.get(defaults.get());
    schema.params.push_back({f.name, f.type->python_type(), f.required ? "" : attr_text(value),
                             f.doc, f.required, range_text(f.range)});
    try {
      if (!f.required && f.range.is_bounded()) check_attr_range(value, f.range);
    } catch (const AttrMismatch& mismatch) {
      throw_attr_mismatch(schema.name, f.name, value, mismatch);
    }
  }
  if (!any_required) schema.default_params = defaults;
  schema.params_values = [fields](const void* params) {
    std::vector<AttrValue> values;
    values.reserve(fields.size());
    for (const ParamField& f : fields) values.push_back(f.get(params));
    return values;
  };
  schema.make_params = [op = schema.name, fields = std::move(fields), make](
                           std::span<const AttrValue> values, uint64_t given) -> ParamsRef {
    std::shared_ptr<void> params = make();
    for (size_t i = 0; i < fields.size(); ++i) {
      const ParamField& f = fields[i];
      if (given >> i & 1) {
        try {
          f.set(params.get(), values[i]);
          if (f.range.is_bounded()) check_attr_range(f.get(params.get()), f.range);
        } catch (const AttrMismatch& mismatch) {
          throw_attr_mismatch(op, f.name, values[i], mismatch);
        }
      } else if (f.required) {
        throw_missing_param(op, f.name);
      }
    }
    return params;
  };
}

OpSchema& OpRegistry::add(OpSchema schema) {
  std::vector<std::string> names = {schema.name};
  names.insert(names.end(), schema.aliases.begin(), schema.aliases.end());
  for (const std::string& name : names)
    MX_CHECK_KIND(!by_name_.contains(name), ErrorKind::kError,
                  "operator name registered twice: ", name);
  auto* op = new OpSchema(std::move(schema));
  order_.push_back(op);
  for (const std::string& name : names)
    if (!by_name_.try_emplace(name, op).second)
      fail(ErrorKind::kError, "the names of an operator must be distinct, got twice: ", name);
  return *op;
}

void OpRegistry::add_kernel(std::string_view op, DeviceType device, const Kernel& kernel) {
  const auto it = by_name_.find(std::string(op));
  if (it == by_name_.end()) fail(ErrorKind::kError, "kernel for an unknown operator: ", op);
  std::vector<Kernel>& candidates = it->second->kernels[device];
  for (const Kernel& other : candidates)
    if (std::string_view(other.name) == kernel.name)
      fail(ErrorKind::kError, "two ", kernel.name, " kernels for operator ", op, " on ",
           device_type_name(device));
  candidates.push_back(kernel);
}

void OpRegistry::check_complete() const {
  for (const OpSchema* op : order_)
    if (op->kernels[DeviceType::kCPU].empty() && !op->storage.chooses_storage)
      fail(ErrorKind::kError, "operator without a CPU kernel: ", op->name);
}

const OpSchema* OpRegistry::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

const OpSchema& OpRegistry::get(std::string_view name) const {
  if (const OpSchema* op = find(name)) return *op;
  std::vector<std::string> names;
  for (const auto& entry : by_name_) names.push_back(entry.first);
  fail(ErrorKind::kValue, "unknown operator '", name, "'", did_you_mean(name, names));
}

const OpSchema& OpRegistry::get_public(std::string_view name) const {
  const OpSchema& op = get(name);
  MX_CHECK_KIND(!op.internal, ErrorKind::kValue, "operator '", name,
                "' is internal: only gradients and graph passes can use it");
  return op;
}

OpRegistry& ops() {
  static auto* registry = [] {  // leaked: worker threads may outlive static destructors
    auto* r = new OpRegistry;
    Registration::run_all(*r);
    r->check_complete();
    return r;
  }();
  return *registry;
}

}  // namespace mxlite
