#include "cpp/symbol/inference.h"

#include <algorithm>
#include <charconv>

#include "cpp/ops/numpy/promotion.h"
#include "cpp/symbol/names.h"

namespace mxlite::symbol {
namespace {

KnownType parse_type(const std::string& text, const std::string& who) {
  if (const auto named = dtype_from_name(text)) return named;
  int code = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  MX_CHECK(error == std::errc() && end == text.data() + text.size(), who,
           ": __dtype__ must be the code of a dtype, got '", text, "'");
  if (code < 0 || code > static_cast<int>(DType::kBFloat16)) return std::nullopt;
  return static_cast<DType>(code);
}

}  // namespace

Shape known_shape(const Shape& given, UnknownExtent unknown) {
  if (given.ndim() < 0) return given;
  Shape shape = given;
  if (unknown == UnknownExtent::kNegative) {
    for (int64_t& extent : shape) extent = std::max<int64_t>(extent, -1);
    return shape;
  }
  if (shape.ndim() == 0) return Shape::unknown();
  for (int64_t& extent : shape)
    if (extent <= 0) extent = -1;
  return shape;
}

Shape parse_shape(const std::string& text, UnknownExtent unknown, const std::string& who) {
  Shape shape;
  size_t at = 0;
  const auto is_edge = [](char c) { return c == '(' || c == ')' || c == '[' || c == ']'; };
  while (at < text.size()) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string part;
    for (size_t i = at; i < end; ++i)
      if (text[i] != ' ' && !is_edge(text[i])) part += text[i];
    at = end + 1;
    if (part.empty()) continue;
    int64_t extent = -1;
    if (part == "None") {
      if (text == "None") return Shape::unknown();
    } else {
      const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), extent);
      MX_CHECK(error == std::errc() && stop == part.data() + part.size(), who,
               ": shape must be a tuple of integers, got '", text, "'");
    }
    shape.push_back(extent);
  }
  return known_shape(shape, unknown);
}

namespace {

// Returns the shape parameter of a call if the parameter has unknown extents, which the users of
// the result determine. Returns nullopt if the shape is known. _arange has no parameter `shape`,
// but users may determine the number of its values.
std::optional<Shape> open_shape(const Call& call, UnknownExtent unknown) {
  if (!call.op || !call.traits().shape_from_users) return std::nullopt;
  const std::vector<AttrValue> values = call.op->params_values(call.params.get());
  const auto given = [&](const char* name) -> const AttrValue* {
    const AttrValue& value = values[static_cast<size_t>(call.op->param_index(name))];
    return std::holds_alternative<std::monostate>(value) ? nullptr : &value;
  };
  if (call.op->param_index("shape") < 0) {
    if (given("stop") || !attr_to_bool(*given("infer_range"))) return std::nullopt;
    return Shape{-1};
  }
  const AttrValue* value = given("shape");
  const Shape shape = value ? known_shape(std::get<Shape>(*value), unknown) : Shape::unknown();
  if (shape.is_known()) return std::nullopt;
  return shape;
}

CallRef with_shape(const Call& call, const Shape& shape) {
  const OpSchema& op = *call.op;
  const std::vector<AttrValue> values = op.params_values(call.params.get());
  std::vector<std::pair<std::string_view, AttrValue>> params;
  for (size_t i = 0; i < values.size(); ++i) params.emplace_back(op.params[i].name, values[i]);
  const auto value = [&](const char* name) -> AttrValue& {
    return params[static_cast<size_t>(op.param_index(name))].second;
  };
  const bool has_shape = op.param_index("shape") >= 0;
  AttrValue& found = value(has_shape ? "shape" : "stop");
  if (has_shape) {
    found = shape;
  } else {
    const auto repeat = attr_to_int(value("repeat"));
    MX_CHECK_SHAPE(shape[0] % repeat == 0, call.name.text,
                   ": the number of values must be a multiple of repeat ", repeat, ", got ",
                   shape[0], " from the users of the result");
    // `stop` lies half a step before the next value, so that rounding cannot change the count.
    const double steps = static_cast<double>(shape[0] / repeat) - 0.5;
    found = attr_to_double(value("start")) + steps * attr_to_double(value("step"));
  }
  auto made = std::make_shared<Call>(call);
  made->params = op.make_params_by_name(params);
  made->attrs[has_shape ? "shape" : "stop"] = attr_text(found);
  return made;
}

}  // namespace

bool shape_from_users(const Call& call, UnknownExtent unknown) {
  return open_shape(call, unknown).has_value();
}

void check_traced_shape(const Call& variable, const Shape& given) {
  const auto found = variable.attrs.find(kTracedShape);
  if (found == variable.attrs.end()) return;
  const std::string& name = variable.name.text;
  const Shape expected = parse_shape(found->second, UnknownExtent::kZero, name);
  bool fits = expected.ndim() < 0 || given.ndim() == expected.ndim();
  for (int i = 0; fits && i < expected.ndim(); ++i)
    fits = expected[i] == -1 || expected[i] == given[i];
  MX_CHECK_SHAPE(fits, "input ", name, " must have shape ", found->second,
                 ", with which the network was traced, because its forward reads "
                 "shapes, got ",
                 given, "; run it with inputs of that shape and export it again");
}

namespace {

UnknownExtent (*extent_of_thread)() = nullptr;

// Returns a function that looks up variables by name.
std::function<Inference::Known(const Node&)> known_by_name(const Inference::Shapes& shapes,
                                                           const Inference::Types& types) {
  return [&](const Node& variable) {
    Inference::Known known;
    if (const auto given = shapes.find(variable.name()); given != shapes.end())
      known.shape = given->second;
    if (const auto given = types.find(variable.name()); given != types.end())
      known.type = given->second;
    return known;
  };
}

}  // namespace

UnknownExtent unknown_extent() {
  return extent_of_thread ? extent_of_thread() : UnknownExtent::kZero;
}

void set_unknown_extent(UnknownExtent (*of_thread)()) { extent_of_thread = of_thread; }

Inference::Inference(const NodeOutputs& heads, const Shapes& shapes, const Types& types,
                     UnknownExtent unknown)
    : Inference(heads, known_by_name(shapes, types), unknown) {}

Inference::Inference(const NodeOutputs& heads, const std::function<Known(const Node&)>& known,
                     UnknownExtent unknown)
    : listing_(heads),
      slots_(listing_.graph),
      unknown_(unknown),
      shapes_(slots_.size(), Shape::unknown()),
      types_(slots_.size()) {
  for (size_t i = 0; i < listing_.nodes.size(); ++i) {
    const graph::Node& node = listing_.graph.nodes[i];
    const Call& call = *node.call;
    const auto id = static_cast<int32_t>(i);
    const size_t at = slots_.of({id, 0});
    if (call.op) {
      steps_.push_back(
          {&call, &call.traits(), id, slots_.of(node.inputs), at, node.outputs.size()});
      continue;
    }
    variables_.push_back(at);
    const auto attr = [&](const char* key) {
      const auto found = call.attrs.find(key);
      return found == call.attrs.end() ? nullptr : &found->second;
    };
    const std::string& name = call.name.text;
    const Known given = known(*listing_.nodes[i]);
    if (given.shape)
      shapes_[at] = *given.shape;
    else if (const std::string* text = attr("__shape__"))
      shapes_[at] = parse_shape(*text, unknown_, name);
    if (given.type)
      types_[at] = given.type;
    else if (const std::string* text = attr("__dtype__"))
      types_[at] = parse_type(*text, name);
  }
}

size_t Inference::slot(const Node& node, int output) const {
  const auto found = listing_.positions.find(&node);
  MX_CHECK_KIND(found != listing_.positions.end() && output >= 0 && output < node.num_outputs(),
                ErrorKind::kIndex, "inference: output ", output, " of ", node.name(),
                " is not a value of the graph");
  return slots_.of({found->second, output});
}

// -- types -------------------------------------------------------------------------------------

void Inference::run_types(KnownType fallback) {
  while (spread_types()) {
  }
  if (!fallback) return;
  for (const size_t variable : variables_) {
    if (types_[variable]) continue;
    types_[variable] = fallback;
    while (spread_types()) {
    }
  }
}

bool Inference::spread_types() {
  bool changed = false;
  for (const InferredCall& step : steps_) changed |= fill_types(step);
  for (size_t i = steps_.size(); i-- > 0;) changed |= fill_types(steps_[i]);
  return changed;
}

bool Inference::fill_types(const InferredCall& step) {
  std::vector<KnownType> in, out;
  for (const size_t i : step.in) in.push_back(types_[i]);
  for (size_t i = 0; i < step.outputs; ++i) out.push_back(types_[step.out + i]);
  const auto unknown = [](const KnownType& type) { return !type; };
  if (std::none_of(in.begin(), in.end(), unknown) && std::none_of(out.begin(), out.end(), unknown))
    return false;
  step.call->fill_types(in, out);
  bool changed = false;
  const auto keep = [&](size_t slot, const KnownType& type) {
    if (types_[slot] || !type) return;
    types_[slot] = type;
    changed = true;
  };
  for (size_t i = 0; i < in.size(); ++i) keep(step.in[i], in[i]);
  for (size_t i = 0; i < out.size(); ++i) keep(step.out + i, out[i]);
  return changed;
}

// -- shapes ------------------------------------------------------------------------------------

void Inference::at_node(const InferredCall& step, auto&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    throw Error(error.kind(), step.call->error_text(error.what()));
  }
}

void Inference::run_shapes() {
  bool changed = true, forward = true;
  while (changed) {
    changed = false;
    for (size_t k = 0; k < steps_.size(); ++k) {
      InferredCall& step = steps_[forward ? k : steps_.size() - 1 - k];
      if (step.done) continue;
      at_node(step, [&] { changed |= spread_shapes(step); });
      step.done = is_complete(step);
    }
    forward = !forward;
    changed = changed || take_default_shapes();
  }
  // Checks calls whose shapes were inferred from their outputs. Uses the operator's own shape rule.
  for (const InferredCall& step : steps_)
    if (is_complete(step) && !shape_from_users(*step.call, unknown_))
      at_node(step, [&] { infer_known(step); });
}

bool Inference::take_default_shapes() {
  bool changed = false;
  for (const InferredCall& step : steps_) {
    const auto open = open_shape(*step.call, unknown_);
    if (!open || open->ndim() >= 0 || shapes_[step.out].ndim() >= 0) continue;
    const Shape shape = known_shape(step.call->infer({})[0].shape, unknown_);
    if (shape.is_known()) changed |= merge(step.out, shape);
  }
  return changed;
}

bool Inference::is_known(const std::vector<graph::Route::Slot>& slots) const {
  return std::all_of(slots.begin(), slots.end(), [&](size_t i) { return shapes_[i].is_known(); });
}

bool Inference::is_complete(const InferredCall& step) const {
  for (size_t i = 0; i < step.outputs; ++i)
    if (!shapes_[step.out + i].is_known()) return false;
  return is_known(step.in);
}

bool Inference::merge(size_t slot, const Shape& shape) {
  PartialShapes one({}, std::span(&shapes_[slot], 1), static_cast<int64_t>(unknown_));
  one.refine_output(0, shape);
  return one.changed();
}

Specs Inference::specs_of(const InferredCall& step) const {
  Specs specs;
  for (const size_t i : step.in) specs.push_back({shapes_[i], types_[i].value_or(DType::kFloat32)});
  // Numpy mode casts inputs to one dtype. Other operators get their inputs unchanged.
  const OpSchema& op = *step.call->op;
  const auto differs = [&](const TensorSpec& spec) { return spec.dtype != specs[0].dtype; };
  if (!op.numpy || (!op.name.starts_with("_np") && std::ranges::none_of(specs, differs)))
    return specs;
  const std::span<const TensorSpec> given(specs.data(), specs.size());
  if (const auto dtype = numpy_input_dtype(op, step.call->params.get(), given))
    for (TensorSpec& spec : specs) spec.dtype = *dtype;
  return specs;
}

bool Inference::spread_shapes(InferredCall& step) {
  if (const auto open = open_shape(*step.call, unknown_)) return merge(step.out, *open);
  bool changed = complete_weights(step);
  if (is_known(step.in)) return infer_known(step) | changed;
  changed |= refine(step);
  return infer_partly(step) | changed;
}

bool Inference::infer_known(const InferredCall& step) {
  const Specs specs = specs_of(step);
  const Specs found = step.call->infer({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < step.outputs && i < found.size(); ++i) {
    changed |= merge(step.out + i, found[i].shape);
    types_[step.out + i] = found[i].dtype;
  }
  return changed;
}

bool Inference::complete_weights(const InferredCall& step) {
  const Call& call = *step.call;
  if (!call.completes() || step.in.empty() || is_known(step.in)) return false;
  const Shape& data = shapes_[step.in[0]];
  if (data.ndim() < 0 && !step.traits->completes_without_data) return false;
  Specs specs = specs_of(step);
  call.complete({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < specs.size(); ++i) changed |= merge(step.in[i], specs[i].shape);
  return changed;
}

bool Inference::refine(const InferredCall& step) {
  const bool alike = step.call->op->pointwise && step.in.size() == 1;
  if (!step.traits->refine && !alike) return false;
  std::vector<Shape> in, out;
  for (const size_t i : step.in) in.push_back(shapes_[i]);
  for (size_t i = 0; i < step.outputs; ++i) out.push_back(shapes_[step.out + i]);
  PartialShapes shapes(in, out, static_cast<int64_t>(unknown_));
  if (step.traits->refine)
    step.traits->refine(step.call->params.get(), shapes);
  else
    refine_all_alike(nullptr, shapes);
  if (!shapes.changed()) return false;
  bool changed = false;  // set by merge, because an array may be several inputs
  for (size_t i = 0; i < in.size(); ++i) changed |= merge(step.in[i], in[i]);
  for (size_t i = 0; i < out.size(); ++i) changed |= merge(step.out + i, out[i]);
  return changed;
}

bool Inference::infer_partly(const InferredCall& step) {
  const Specs specs = specs_of(step);
  for (const TensorSpec& spec : specs)
    if (spec.shape.ndim() < 0) return false;
  const Specs found = step.call->infer({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < found.size() && i < step.outputs; ++i)
    changed |= merge(step.out + i, found[i].shape);
  return changed;
}

bool Inference::casts_precision() const {
  return std::ranges::any_of(steps_,
                             [](const InferredCall& step) { return step.call->op->amp.casts; });
}

Calls Inference::completed_calls() const {
  Calls calls;
  for (const InferredCall& step : steps_) {
    if (!shape_from_users(*step.call, unknown_)) continue;
    const Shape& shape = shapes_[step.out];
    MX_CHECK_SHAPE(shape.is_known(), step.call->name.text, ": the shape of ", step.call->file_op,
                   " cannot be inferred");
    calls[listing_.nodes[static_cast<size_t>(step.node)].get()] = with_shape(*step.call, shape);
  }
  return calls;
}

}  // namespace mxlite::symbol
