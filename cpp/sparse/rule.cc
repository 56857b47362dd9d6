#include "cpp/sparse/rule.h"

#include <map>

#include "cpp/sparse/parts.h"

namespace mxlite::sparse {
namespace {

// Static objects add rules to this map before main().
std::map<std::string_view, RuleEntry>& rules() {
  static auto* made = new std::map<std::string_view, RuleEntry>;
  return *made;
}

const RuleEntry* find(const OpSchema& op) {
  const auto found = rules().find(op.name);
  return found == rules().end() ? nullptr : &found->second;
}

void check_shapes(const SparseCall& call) {
  for (const NDArrayRef& other : call.inputs.subspan(1))
    MX_CHECK_SHAPE(other->shape() == call.inputs[0]->shape(), call.alias,
                   ": rhs must have the shape of lhs, ", call.inputs[0]->shape(), ", got ",
                   other->shape());
}

// Rule for operators with f(0, 0) = 0. The result stores a value where either operand stores a
// value.
NDArrayRef stored_in_either(const SparseCall& call) {
  check_shapes(call);
  const NDArrayRef &lhs = call.inputs[0], &rhs = call.inputs[1];
  const StorageType stype = storage_type(*lhs);
  if (storage_type(*rhs) != stype || lhs->dtype() != rhs->dtype()) return nullptr;
  const bool is_csr = stype == StorageType::kCSR;
  const SparseParts &left = normal_parts(lhs), &right = normal_parts(rhs);
  const std::array values{left.values, right.values};
  const std::array places{is_csr ? csr_keys(lhs) : left.indices,
                          is_csr ? csr_keys(rhs) : right.indices};
  const Rows stored = merged(concat_rows(values), concat_rows(places));
  const NDArrayRef pattern = is_csr ? csr_of_keys(stored.values, stored.indices, lhs->shape())
                                    : row_sparse(stored, lhs->shape());
  const std::array operands{looked_up(lhs, pattern), looked_up(rhs, pattern)};
  return with_values(pattern, autograd::call(call.op, call.params, operands)[0]);
}

// Rule of operators whose result stores values where the first input stores them.
NDArrayRef stored_in_first(const SparseCall& call) {
  check_shapes(call);
  const NDArrayRef& data = call.inputs[0];
  const bool alone = call.inputs.size() == 1;
  if (!alone && storage_type(*data) != StorageType::kRowSparse) return nullptr;
  NDArrays operands{normal_parts(data).values};
  for (const NDArrayRef& other : call.inputs.subspan(1))
    operands.push_back(looked_up(dense(other), data));
  return with_values(data, autograd::call(call.op, call.params, operands)[0]);
}

// Returns the rule of an operator whose result is sparse only for this alias. 1.x has
// element-wise operators and broadcasting operators (_maximum, broadcast_maximum), and operators
// that skip values that are not stored (_scatter_plus_scalar, _plus_scalar). In mxlite, each such
// pair is one operator. Its schema defines how the results of each alias are stored
// (AliasStorage).
Rule alias_rule(const OpSchema& op, std::string_view alias) {
  const auto found = op.storage.aliases.find(alias);
  if (found == op.storage.aliases.end()) return nullptr;
  switch (found->second) {
    case AliasStorage::kUnion:
      return &stored_in_either;
    case AliasStorage::kStored:
      return &stored_in_first;
    case AliasStorage::kRowGradient:
      return nullptr;  // only the gradient's storage type differs
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
