#include "cpp/symbol/inference.h"

#include <algorithm>
#include <charconv>

namespace mxlite::symbol {
namespace {

KnownType parse_type(const std::string& text, const std::string& who) {
  if (const auto named = dtype_from_name(text)) return named;
  int code = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  MX_CHECK(error == std::errc() && end == text.data() + text.size(), who, ": __dtype__ is '", text,
           "', the code of a dtype expected");
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
      MX_CHECK(error == std::errc() && stop == part.data() + part.size(), who, ": shape '", text,
               "' given, a tuple of integers expected");
    }
    shape.push_back(extent);
  }
  return known_shape(shape, unknown);
}

bool shape_from_users(const Node& node, UnknownExtent unknown) {
  if (node.is_variable() || !node.call->traits(node.op).shape_from_users) return false;
  const auto* call = dynamic_cast<const OpCall*>(node.call.get());
  return call && !known_shape(call->shape_param(), unknown).is_known();
}

Inference::Inference(Entries heads, const Shapes& shapes, const Types& types, UnknownExtent unknown)
    : heads_(std::move(heads)), unknown_(unknown), nodes_(topological_order(heads_)) {
  for (const NodeRef& node : nodes_) {
    first_slot_[node.get()] = shapes_.size();
    const auto outputs = static_cast<size_t>(node->num_outputs());
    if (node->is_variable()) {
      variables_.push_back(shapes_.size());
      Shape shape = Shape::unknown();
      KnownType type;
      const auto attr = [&](const char* key) {
        const auto found = node->attrs.find(key);
        return found == node->attrs.end() ? nullptr : &found->second;
      };
      if (const auto given = shapes.find(node->name); given != shapes.end())
        shape = given->second;
      else if (const std::string* text = attr("__shape__"))
        shape = parse_shape(*text, unknown_, node->name);
      if (const auto given = types.find(node->name); given != types.end())
        type = given->second;
      else if (const std::string* text = attr("__dtype__"))
        type = parse_type(*text, node->name);
      shapes_.push_back(shape);
      types_.push_back(type);
      continue;
    }
    Step step{node.get(), &node->call->traits(node->op), {}, shapes_.size(), outputs};
    for (const Entry& entry : node->inputs) step.in.push_back(slot(*entry.node, entry.output));
    steps_.push_back(std::move(step));
    shapes_.resize(shapes_.size() + outputs, Shape::unknown());
    types_.resize(types_.size() + outputs);
  }
}

size_t Inference::slot(const Node& node, int output) const {
  const auto found = first_slot_.find(&node);
  MX_CHECK_KIND(found != first_slot_.end() && output >= 0 && output < node.num_outputs(),
                ErrorKind::kIndex, "inference: output ", output, " of ", node.name,
                " is no value of the graph");
  return found->second + static_cast<size_t>(output);
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
  for (const Step& step : steps_) changed |= fill_types(step);
  for (size_t i = steps_.size(); i-- > 0;) changed |= fill_types(steps_[i]);
  return changed;
}

bool Inference::fill_types(const Step& step) {
  std::vector<KnownType> in, out;
  for (const size_t i : step.in) in.push_back(types_[i]);
  for (size_t i = 0; i < step.outputs; ++i) out.push_back(types_[step.out + i]);
  const auto unknown = [](const KnownType& type) { return !type; };
  if (std::none_of(in.begin(), in.end(), unknown) && std::none_of(out.begin(), out.end(), unknown))
    return false;
  step.node->call->fill_types(*step.traits, in, out);
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

template <class F>
void Inference::at_node(const Step& step, F&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    throw Error(error.kind(), step.node->error_text(error.what()));
  }
}

void Inference::run_shapes() {
  bool changed = true, forward = true;
  while (changed) {
    changed = false;
    for (size_t k = 0; k < steps_.size(); ++k) {
      Step& step = steps_[forward ? k : steps_.size() - 1 - k];
      if (step.done) continue;
      at_node(step, [&] { changed |= spread_shapes(step); });
      step.done = is_complete(step);
    }
    forward = !forward;
  }
  // Rules from outputs to inputs may have filled a call: the operator's own rule decides.
  for (const Step& step : steps_)
    if (is_complete(step) && !shape_from_users(*step.node, unknown_))
      at_node(step, [&] { infer_known(step); });
}

bool Inference::is_known(const std::vector<size_t>& slots) const {
  return std::all_of(slots.begin(), slots.end(), [&](size_t i) { return shapes_[i].is_known(); });
}

bool Inference::is_complete(const Step& step) const {
  for (size_t i = 0; i < step.outputs; ++i)
    if (!shapes_[step.out + i].is_known()) return false;
  return is_known(step.in);
}

bool Inference::merge(size_t slot, const Shape& shape) {
  PartialShapes one({}, std::span(&shapes_[slot], 1), static_cast<int64_t>(unknown_));
  one.refine_output(0, shape);
  return one.changed();
}

Specs Inference::specs_of(const Step& step) const {
  Specs specs;
  for (const size_t i : step.in) specs.push_back({shapes_[i], types_[i].value_or(DType::kFloat32)});
  return specs;
}

Shape Inference::created_shape(const Step& step) const {
  const auto* call = dynamic_cast<const OpCall*>(step.node->call.get());
  MX_ASSERT(call);
  return known_shape(call->shape_param(), unknown_);
}

bool Inference::spread_shapes(Step& step) {
  if (step.traits->shape_from_users && step.in.empty()) return merge(step.out, created_shape(step));
  bool changed = complete_weights(step);
  if (is_known(step.in)) return infer_known(step) | changed;
  changed |= refine(step);
  return infer_partly(step) | changed;
}

bool Inference::infer_known(const Step& step) {
  const Specs specs = specs_of(step);
  const Specs found = step.node->call->infer({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < step.outputs && i < found.size(); ++i) {
    changed |= merge(step.out + i, found[i].shape);
    types_[step.out + i] = found[i].dtype;
  }
  return changed;
}

bool Inference::complete_weights(const Step& step) {
  const Call& call = *step.node->call;
  if (!call.completes() || step.in.empty() || is_known(step.in)) return false;
  const Shape& data = shapes_[step.in[0]];
  if (data.ndim() < 0 && !step.traits->completes_blindly) return false;
  Specs specs = specs_of(step);
  call.complete({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < specs.size(); ++i) changed |= merge(step.in[i], specs[i].shape);
  return changed;
}

bool Inference::refine(const Step& step) {
  const bool alike = step.node->call->is_pointwise() && step.in.size() == 1;
  if (!step.traits->refine && !alike) return false;
  std::vector<Shape> in, out;
  for (const size_t i : step.in) in.push_back(shapes_[i]);
  for (size_t i = 0; i < step.outputs; ++i) out.push_back(shapes_[step.out + i]);
  PartialShapes shapes(in, out, static_cast<int64_t>(unknown_));
  if (step.traits->refine)
    step.traits->refine(step.node->call->params(), shapes);
  else
    refine_all_alike(nullptr, shapes);
  if (!shapes.changed()) return false;
  bool changed = false;  // an array may be several inputs
  for (size_t i = 0; i < in.size(); ++i) changed |= merge(step.in[i], in[i]);
  for (size_t i = 0; i < out.size(); ++i) changed |= merge(step.out + i, out[i]);
  return changed;
}

bool Inference::infer_partly(const Step& step) {
  const Specs specs = specs_of(step);
  for (const TensorSpec& spec : specs)
    if (spec.shape.ndim() < 0) return false;
  const Specs found = step.node->call->infer({specs.data(), specs.size()});
  bool changed = false;
  for (size_t i = 0; i < found.size() && i < step.outputs; ++i)
    changed |= merge(step.out + i, found[i].shape);
  return changed;
}

bool Inference::casts_precision() const {
  return std::ranges::any_of(
      nodes_, [](const NodeRef& node) { return node->call && node->call->casts_precision(); });
}

std::unordered_map<const Node*, CallRef> Inference::completed_calls() const {
  std::unordered_map<const Node*, CallRef> calls;
  for (const Step& step : steps_) {
    if (!shape_from_users(*step.node, unknown_)) continue;
    const Shape& shape = shapes_[step.out];
    MX_CHECK_SHAPE(shape.is_known(), step.node->name, ": the shape of ", step.node->op,
                   " cannot be inferred");
    calls[step.node] = static_cast<const OpCall&>(*step.node->call).with_shape(shape);
  }
  return calls;
}

}  // namespace mxlite::symbol
