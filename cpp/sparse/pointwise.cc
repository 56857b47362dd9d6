// Rules of element-wise operators on two or more arrays. The rules compute only on the stored
// values.
#include "cpp/autograd/sparse_grad.h"
#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"

namespace mxlite::sparse {
namespace {

using autograd::call_op;

NDArrayRef zeros_like(const SparseCall& call) {
  const NDArrayRef& data = call.inputs[0];
  const TensorSpec spec = data->spec();
  const Specs outputs = infer_outputs(call.op, call.params.get(), {&spec, 1});
  return autograd::empty_sparse(storage_type(*data), outputs[0], data->device());
}

// Returns the sum of row-sparse arrays that have the same shape and dtype.
NDArrayRef add_rows(std::span<const NDArrayRef> arrays) {
  NDArrays values, indices;
  for (const NDArrayRef& array : arrays) {
    values.push_back(normal_parts(array).values);
    indices.push_back(normal_parts(array).indices);
  }
  return row_sparse(merged(concat_rows(values), concat_rows(indices)), arrays[0]->shape());
}

NDArrayRef add_csr(const NDArrayRef& lhs, const NDArrayRef& rhs) {
  const std::array values{normal_parts(lhs).values, normal_parts(rhs).values};
  const std::array keys{csr_keys(lhs), csr_keys(rhs)};
  const Rows stored = merged(concat_rows(values), concat_rows(keys));
  return csr_of_keys(stored.values, stored.indices, lhs->shape());
}

NDArrayRef add_or_subtract(const SparseCall& call, bool subtract) {
  const NDArrayRef &lhs = call.inputs[0], &rhs = call.inputs[1];
  if (subtract && lhs->dtype() == DType::kBool) return nullptr;  // booleans cannot be negated
  const StorageType stype = storage_type(*lhs);
  if (!lhs->is_sparse() || !rhs->is_sparse()) {
    const std::array operands{dense(lhs), dense(rhs)};
    return autograd::call(call.op, call.params, operands)[0];
  }
  if (stype != storage_type(*rhs) || lhs->dtype() != rhs->dtype()) return nullptr;
  const NDArrayRef other =
      subtract ? with_values(rhs, call_op("negative", {normal_parts(rhs).values})) : rhs;
  if (stype == StorageType::kCSR) return add_csr(lhs, other);
  const std::array both{lhs, other};
  return add_rows(both);
}

NDArrayRef elemwise_add(const SparseCall& call) {
  return add_or_subtract(call, /*subtract=*/false);
}
NDArrayRef elemwise_sub(const SparseCall& call) { return add_or_subtract(call, /*subtract=*/true); }

NDArrayRef elemwise_mul(const SparseCall& call) {
  const NDArrayRef &lhs = call.inputs[0], &rhs = call.inputs[1];
  const bool mixed =
      lhs->is_sparse() && rhs->is_sparse() && storage_type(*lhs) != storage_type(*rhs);
  if (mixed || lhs->dtype() != rhs->dtype()) return nullptr;
  const NDArrayRef &pattern = lhs->is_sparse() ? lhs : rhs, &other = lhs->is_sparse() ? rhs : lhs;
  const NDArrayRef values = normal_parts(pattern).values;
  return with_values(pattern, call_op("elemwise_mul", {values, looked_up(other, pattern)}));
}

// Combines a csr matrix with a number, row, column or matrix. As in 1.x, the result of a division
// contains no NaN at positions where the divisor is 0 and the matrix stores no value.
NDArrayRef csr_with_dense(const SparseCall& call, const char* elemwise) {
  const NDArrayRef &lhs = call.inputs[0], &rhs = call.inputs[1];
  if (storage_type(*lhs) != StorageType::kCSR || rhs->is_sparse() || lhs->dtype() != rhs->dtype())
    return nullptr;
  const Shape &matrix = lhs->shape(), &given = rhs->shape();
  if (given.ndim() > 2) return nullptr;
  Shape two{1, 1};
  for (int i = 1; i <= given.ndim(); ++i) {
    const int64_t extent = given[given.ndim() - i];
    if (extent != 1 && extent != matrix[2 - i]) return nullptr;
    two[2 - i] = extent;
  }
  const NDArrayRef other = call_op("reshape", {rhs}, {{"shape", two}});
  return with_values(lhs, call_op(elemwise, {normal_parts(lhs).values, looked_up(other, lhs)}));
}

NDArrayRef broadcast_mul(const SparseCall& call) { return csr_with_dense(call, "elemwise_mul"); }
NDArrayRef broadcast_div(const SparseCall& call) { return csr_with_dense(call, "elemwise_div"); }

NDArrayRef add_n(const SparseCall& call) {
  for (const NDArrayRef& array : call.inputs)
    if (storage_type(*array) != StorageType::kRowSparse ||
        array->dtype() != call.inputs[0]->dtype())
      return nullptr;
  return add_rows(call.inputs);
}

const RuleRegistration pointwise_registration{{.op = "zeros_like", .rule = &zeros_like},
                                              {.op = "elemwise_add", .rule = &elemwise_add},
                                              {.op = "elemwise_sub", .rule = &elemwise_sub},
                                              {.op = "elemwise_mul", .rule = &elemwise_mul},
                                              {.op = "broadcast_mul", .rule = &broadcast_mul},
                                              {.op = "broadcast_div", .rule = &broadcast_div},
                                              {.op = "add_n", .rule = &add_n}};

}  // namespace
}  // namespace mxlite::sparse
