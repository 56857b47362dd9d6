#include "cpp/ops/amp.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace mxlite::amp {
namespace {

constexpr std::array kClassNames = {"neutral", "low_precision", "float32", "widest"};

std::atomic<const Rules*> active{nullptr};
std::atomic<double> loss_scale{1.0};
thread_local int pauses = 0;

bool takes_part(const Rules& rules, DType dtype) {
  return dtype == DType::kFloat32 || dtype == rules.target;
}

bool holds(const AmpCondition& condition, const ParamText& text) {
  const std::optional<std::string> value = text(condition.param);
  return value && std::ranges::find(condition.values, *value) != condition.values.end();
}

AmpClass class_of(const Rules& rules, const OpSchema& op, const ParamText& text) {
  if (const auto it = rules.conditions.find(&op); it != rules.conditions.end())
    for (const AmpCondition& condition : it->second)
      if (holds(condition, text)) return AmpClass::kFloat32;
  const auto it = rules.classes.find(&op);
  return it == rules.classes.end() ? op.amp.kind : it->second;
}

}  // namespace

void set_rules(std::shared_ptr<const Rules> rules) {
  // Old rules are leaked, because a call in another thread may still be reading them.
  const Rules* kept = rules ? new Rules(*rules) : nullptr;
  active.store(kept, std::memory_order_release);
}

const Rules* current_rules() {
  const Rules* rules = active.load(std::memory_order_acquire);
  return rules && pauses == 0 ? rules : nullptr;
}

void set_loss_scale(double scale) { loss_scale.store(scale, std::memory_order_relaxed); }

Pause::Pause() { ++pauses; }
Pause::~Pause() { --pauses; }

Resume::Resume() : lifted_(std::exchange(pauses, 0)) {}
Resume::~Resume() { pauses = lifted_; }

ParamText text_of(const OpSchema& op, const void* params) {
  return [&op, params](const std::string& param) -> std::optional<std::string> {
    const int at = op.param_index(param);
    if (at < 0) return std::nullopt;
    return attr_text(op.params_values(params)[static_cast<size_t>(at)]);
  };
}

ParamText text_of(const std::map<std::string, std::string>& attrs) {
  return [&attrs](const std::string& param) -> std::optional<std::string> {
    const auto found = attrs.find(param);
    if (found == attrs.end()) return std::nullopt;
    return found->second;
  };
}

Casts find_casts(const Rules& rules, const OpSchema& op, const ParamText& text,
                 std::span<const KnownType> types, const std::function<bool(int)>& writes) {
  const AmpClass kind = class_of(rules, op, text);
  if (kind == AmpClass::kNeutral) return {};
  bool low = false, single = false, unknown = false;
  for (const KnownType& type : types) {
    // Casts nothing if an input has another floating type, such as float64.
    if (type && is_floating(*type) && !takes_part(rules, *type)) return {};
    low |= type == rules.target;
    single |= type == DType::kFloat32;
    unknown |= !type;
  }
  Casts casts;
  if (kind == AmpClass::kLowPrecision)
    casts.type = rules.target;
  else if (kind == AmpClass::kFloat32 || (low && single && !unknown))
    casts.type = DType::kFloat32;
  else if (!unknown || types.size() < 2)
    return {};
  for (size_t i = 0; i < types.size(); ++i) {
    const bool fits =
        casts.type && types[i] && (types[i] == casts.type || !takes_part(rules, *types[i]));
    if (!fits && !writes(static_cast<int>(i))) casts.inputs.push_back(static_cast<int>(i));
  }
  return casts;
}

ParamsRef scaled_params(const OpSchema& op, const ParamsRef& params) {
  const double factor = loss_scale.load(std::memory_order_relaxed);
  if (factor == 1.0 || !op.loss_output) return params;
  const int at = op.param_index("grad_scale");
  if (at < 0) return params;
  std::vector<AttrValue> values = op.params_values(params.get());
  AttrValue& scale = values[static_cast<size_t>(at)];
  scale = attr_to_double(scale) * factor;
  return op.make_params(values, (uint64_t{1} << values.size()) - 1);
}

const char* class_name(AmpClass c) { return kClassNames[static_cast<size_t>(c)]; }

}  // namespace mxlite::amp
