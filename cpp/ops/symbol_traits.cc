#include "cpp/ops/symbol_traits.h"

#include <algorithm>

namespace mxlite {

void add_layer_traits(SymbolTraitsTable& table);
void add_pointwise_traits(SymbolTraitsTable& table);
void add_quantization_traits(SymbolTraitsTable& table);
void add_random_traits(SymbolTraitsTable& table);
void add_tensor_traits(SymbolTraitsTable& table);
void add_vision_traits(SymbolTraitsTable& table);

namespace {

std::string shape_text(const Shape& shape, int64_t unknown) {
  if (shape.ndim() < 0) return "unknown";
  Shape shown = shape;
  std::replace(shown.begin(), shown.end(), int64_t{-1}, unknown);
  return str(shown);
}

// What the parameter dtype says; none for None.
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
  MX_CHECK_SHAPE(fits, "shape ", shape_text(known, unknown_), " given or inferred, ",
                 shape_text(shape, unknown_), " expected");
  for (int i = 0; i < known.ndim(); ++i) {
    if (known[i] != -1 || shape[i] == -1) continue;
    known[i] = shape[i];
    changed_ = true;
  }
}

const SymbolTraits& SymbolTraitsTable::find(std::string_view file_name, const OpSchema& op) const {
  auto found = traits_.find(file_name);
  if (found == traits_.end()) found = traits_.find(op.name);
  static const SymbolTraits defaults;
  return found == traits_.end() ? defaults : found->second;
}

bool SymbolTraitsTable::keeps_alias(std::string_view alias) const {
  const auto found = traits_.find(alias);
  return found != traits_.end() && found->second.keeps_alias;
}

void SymbolTraitsTable::check_names() const {
  for (const auto& [name, traits] : traits_)
    if (!traits.keeps_alias && !ops().find(name))
      fail(ErrorKind::kError, "symbol traits: there is no operator '", name, "'");
}

const SymbolTraitsTable& symbol_traits() {
  static const SymbolTraitsTable* table = [] {
    auto* made = new SymbolTraitsTable;
    add_layer_traits(*made);
    add_pointwise_traits(*made);
    add_quantization_traits(*made);
    add_random_traits(*made);
    add_tensor_traits(*made);
    add_vision_traits(*made);
    made->check_names();
    return made;
  }();
  return *table;
}

void fill_types(const OpSchema* op, const SymbolTraits& traits, const void* params, KnownTypes in,
                KnownTypes out) {
  if (traits.types) traits.types(params, in, out);
  const auto is_tied = [&](size_t i) {
    const auto& free = traits.free_types;
    return !traits.inputs_apart &&
           std::find(free.begin(), free.end(), static_cast<int>(i)) == free.end();
  };
  KnownType known;
  for (size_t i = 0; i < in.size() && !known; ++i)
    if (is_tied(i)) known = in[i];
  if (!known && !traits.typed_by_parameter && !traits.output_type_apart && !out.empty())
    known = out[0];
  for (size_t i = 0; i < in.size(); ++i)
    if (is_tied(i) && !in[i]) in[i] = known;

  KnownType result;
  if (traits.typed_by_parameter || (in.empty() && op && op->param_index("dtype") >= 0)) {
    result = asked_type(*op, params);
    if (!result && !traits.dtype_keeps) result = DType::kFloat32;
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

}  // namespace mxlite
