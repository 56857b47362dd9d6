#include "cpp/autograd/sparse_grad.h"

#include "cpp/autograd/call.h"

namespace mxlite::autograd {
namespace {

bool has_rows(const NDArrayRef& a) {
  return storage_type(*a) == StorageType::kRowSparse && sparse_parts(*a).form != SparseForm::kDense;
}

// Merging is put off until somebody looks, so nobody else may change the memory until then.
NDArrayRef owned(const NDArrayRef& a) {
  if (a->storage()->use_count() == 1 && a->contiguous()) return a;
  return call_op("_copy", {a});
}

}  // namespace

NDArrayRef densified(const NDArrayRef& array) {
  if (!array->is_sparse()) return array;
  const SparseParts& p = sparse_parts(*array);
  if (p.form == SparseForm::kDense) return p.values;
  if (p.stype == StorageType::kRowSparse)
    return call_op("_row_sparse_to_dense", {p.values, p.indices}, {{"shape", array->shape()}});
  return call_op("_csr_to_dense", {p.values, p.indices, p.indptr}, {{"shape", array->shape()}});
}

NDArrayRef add_gradients(const NDArrayRef& a, const NDArrayRef& b) {
  if (!has_rows(a) || !has_rows(b)) return call_op("elemwise_add", {densified(a), densified(b)});
  const SparseParts &x = sparse_parts(*a), &y = sparse_parts(*b);
  const std::pair<std::string_view, AttrValue> dim{"dim", int64_t{0}};
  return make_row_sparse(a->spec(), call_op("Concat", {x.values, y.values}, {dim}),
                         call_op("Concat", {x.indices, y.indices}, {dim}), SparseForm::kRows);
}

NDArrayRef empty_sparse(StorageType stype, const TensorSpec& spec, Device device) {
  const auto zeros = [&](const Shape& shape, DType dtype) {
    return call_op("_zeros", {}, {{"shape", shape}, {"dtype", dtype}}, device);
  };
  const NDArrayRef indices = zeros({0}, DType::kInt64);
  if (stype == StorageType::kCSR)
    return make_csr(spec, zeros({0}, spec.dtype), indices,
                    zeros({spec.shape[0] + 1}, DType::kInt64));
  Shape rows = spec.shape;
  rows[0] = 0;
  return make_row_sparse(spec, zeros(rows, spec.dtype), indices);
}

void store_sparse(ArrayInfo& variable, const NDArrayRef& value) {
  NDArrayRef total = value;
  if (variable.grad && variable.req == GradReq::kAdd) total = add_gradients(variable.grad, value);
  if (!variable.grad) variable.grad = empty_sparse(variable.stype, value->spec(), value->device());
  SparseParts& to = sparse_parts(*variable.grad);
  if (has_rows(total) && variable.stype == StorageType::kRowSparse) {
    const SparseParts& from = sparse_parts(*total);
    to.form = from.form;
    const NDArrayRef values = from.values, indices = from.indices;
    total = nullptr;
    to.values = owned(values);
    to.indices = owned(indices);
    return;
  }
  to.form = SparseForm::kDense;
  to.values = owned(densified(total));
  to.indices = to.indptr = nullptr;
}

}  // namespace mxlite::autograd
