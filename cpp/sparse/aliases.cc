#include "cpp/sparse/aliases.h"

#include "cpp/sparse/parts.h"

namespace mxlite::sparse {
namespace {

void check_shapes(const SparseCall& call) {
  for (const NDArrayRef& other : call.inputs.subspan(1))
    MX_CHECK_SHAPE(other->shape() == call.inputs[0]->shape(), call.alias, ": lhs has shape ",
                   call.inputs[0]->shape(), ", rhs has ", other->shape());
}

}  // namespace

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

}  // namespace mxlite::sparse
