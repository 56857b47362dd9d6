#include "cpp/ops/symbol_traits.h"

#include <algorithm>

#include "cpp/ops/op_schema.h"

namespace mxlite {

namespace {

std::string shape_text(const Shape& shape, int64_t unknown) {
  if (shape.ndim() < 0) return "unknown";
  Shape shown = shape;
  std::replace(shown.begin(), shown.end(), int64_t{-1}, unknown);
  return str(shown);
}

// Returns the value of the parameter dtype; nullopt if it is None or absent.
KnownType asked_type(const OpSchema& op, const void* params) {
  const int at = op.param_index("dtype");
  if (at < 0) return std::nullopt;
  const AttrValue value = op.params_values(params)[static_cast<size_t>(at)];
  const auto* text = std::get_if<std::string>(&value);
  if (std::holds_alternative<std::monostate>(value) || (text && (*text == "None" || text->empty())))
    return std::nullopt;
  return attr_to_dtype(value);
}

}  // namespace

void PartialShapes::refine(Shape& known, const Shape& shape) {
  if (shape.ndim() < 0) return;
  if (known.ndim() < 0) {
    known = shape;
    changed_ = true;
    return;
  }
  bool fits = known.ndim() == shape.ndim();
  for (int i = 0; fits && i < known.ndim(); ++i)
    fits = known[i] == shape[i] || known[i] == -1 || shape[i] == -1;
  MX_CHECK_SHAPE(fits, "shape must be ", shape_text(shape, unknown_), ", got or inferred ",
                 shape_text(known, unknown_));
  for (int i = 0; i < known.ndim(); ++i) {
    if (known[i] != -1 || shape[i] == -1) continue;
    known[i] = shape[i];
    changed_ = true;
  }
}

void fill_types(const OpSchema* op, const SymbolRules& rules, const void* params, KnownTypes in,
                KnownTypes out) {
  if (rules.types) rules.types(params, in, out);
  const auto is_tied = [&](size_t i) {
    const auto& untied = rules.untied_inputs;
    return !rules.all_inputs_untied &&
           std::find(untied.begin(), untied.end(), static_cast<int>(i)) == untied.end();
  };
  const bool by_dtype = rules.output_type >= OutputType::kDtype;
  KnownType known;
  for (size_t i = 0; i < in.size() && !known; ++i)
    if (is_tied(i)) known = in[i];
  if (!known && rules.output_type == OutputType::kShared && !out.empty()) known = out[0];
  for (size_t i = 0; i < in.size(); ++i)
    if (is_tied(i) && !in[i]) in[i] = known;

  KnownType result;
  if (by_dtype || (in.empty() && op && op->param_index("dtype") >= 0)) {
    result = asked_type(*op, params);
    if (!result && rules.output_type != OutputType::kDtypeOrInputs) result = DType::kFloat32;
  }
  for (size_t i = 0; i < in.size() && !result; ++i) {
    if (!is_tied(i)) continue;
    result = in[i];
    break;
  }
  for (KnownType& type : out)
    if (!type) type = result;
}

void refine_all_alike(const void*, PartialShapes& shapes) {
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_output(0, shapes.input(i));
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_input(i, shapes.output(0));
}

void refine_like_first(const void*, PartialShapes& shapes) {
  shapes.refine_output(0, shapes.input(0));
  shapes.refine_input(0, shapes.output(0));
}

void refine_batch_size(const void*, PartialShapes& shapes) {
  Shape data = shapes.input(0);
  const Shape& out = shapes.output(0);
  if (data.ndim() < 2 || out.ndim() != data.ndim()) return;
  data[0] = out[0];
  shapes.refine_input(0, data);
}

}  // namespace mxlite
