#include "cpp/autograd/sparse_grad.h"

#include "cpp/autograd/call.h"

namespace mxlite::autograd {
namespace {

bool has_rows(const NDArrayRef& a) {
  return storage_type(*a) == StorageType::kRowSparse && sparse_parts(*a).form != SparseForm::kDense;
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

void store_sparse(ArrayInfo& variable, const NDArrayRef& value, bool own) {
  const bool added = variable.grad && variable.req == GradReq::kAdd;
  const NDArrayRef total = added ? add_gradients(variable.grad, value) : value;
  if (!variable.grad) variable.grad = empty_sparse(variable.stype, value->spec(), value->device());
  // Copies the memory if other handles may write to it, because the rows are merged later, when
  // they are read.
  const auto taken = [&](const NDArrayRef& a) {
    const bool alone =
        own && a->use_count() == 1 && a->storage()->use_count() == 1 && a->contiguous();
    return added || alone ? a : call_op("_copy", {a});
  };
  SparseParts& to = sparse_parts(*variable.grad);
  if (storage_type(*total) == variable.stype && sparse_parts(*total).form != SparseForm::kDense) {
    const SparseParts& from = sparse_parts(*total);
    to.form = from.form;
    to.values = taken(from.values);
    to.indices = taken(from.indices);
    to.indptr = from.indptr ? taken(from.indptr) : nullptr;
    return;
  }
  to.form = SparseForm::kDense;
  to.values = total->is_sparse() ? densified(total) : taken(total);
  if (total->is_sparse() && sparse_parts(*total).form == SparseForm::kDense)
    to.values = taken(to.values);
  to.indices = to.indptr = nullptr;
}

}  // namespace mxlite::autograd
