#include "cpp/sparse/rule.h"

#include <map>

#include "cpp/sparse/aliases.h"
#include "cpp/sparse/parts.h"

namespace mxlite::sparse {
namespace {

// Filled by static objects before main().
std::map<std::string_view, RuleEntry>& rules() {
  static auto* made = new std::map<std::string_view, RuleEntry>;
  return *made;
}

const RuleEntry* find(const OpSchema& op) {
  const auto found = rules().find(op.name);
  return found == rules().end() ? nullptr : &found->second;
}

Rule alias_rule(const OpSchema& op, std::string_view alias) {
  const auto found = op.storage.aliases.find(alias);
  if (found == op.storage.aliases.end()) return nullptr;
  switch (found->second) {
    case AliasStorage::kUnion:
      return &stored_in_either;
    case AliasStorage::kStored:
      return &stored_in_first;
    case AliasStorage::kRowGradient:
      return nullptr;  // only the gradient differs
  }
  return nullptr;
}

}  // namespace

RuleRegistration::RuleRegistration(std::initializer_list<RuleEntry> added) {
  for (const RuleEntry& entry : added) MX_ASSERT(rules().try_emplace(entry.op, entry).second);
}

bool rule_checks_shapes(const OpSchema& op, std::string_view alias) {
  const RuleEntry* const entry = find(op);
  return alias_rule(op, alias) || (entry && entry->checks_shapes);
}

bool keeps_storage(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs) {
  if (op.storage.keeps_storage) return true;
  return op.keeps_zeros && inputs.size() == 1 && op.keeps_zeros(params, inputs[0].dtype);
}

NDArrayRef run_recording_rule(const SparseCall& call) {
  const RuleEntry* const entry = find(call.op);
  return entry && entry->records ? entry->rule(call) : nullptr;
}

NDArrayRef run_rule(const SparseCall& call) {
  const Unrecorded scope;
  if (const Rule rule = alias_rule(call.op, call.alias)) return rule(call);
  if (const RuleEntry* const entry = find(call.op))
    return entry->records ? nullptr : entry->rule(call);
  SmallVector<TensorSpec, 2> specs;
  for (const NDArrayRef& input : call.inputs) specs.push_back(input->spec());
  if (!keeps_storage(call.op, call.params.get(), specs)) return nullptr;
  const NDArrayRef values = normal_parts(call.inputs[0]).values;
  return with_values(call.inputs[0], autograd::call(call.op, call.params, {&values, 1})[0]);
}

}  // namespace mxlite::sparse
