// Rules of products with csr matrices and of look-ups in row-sparse tables. These rules record
// their calls.
#include "cpp/ops/matrix/dot.h"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"
#include "cpp/sparse/tape.h"

namespace mxlite::sparse {
namespace {

using autograd::call_op;

NDArrayRef transpose(const NDArrayRef& matrix) { return call_op("transpose", {matrix}); }

NDArrayRef reshape(const NDArrayRef& array, const Shape& shape) {
  return call_op("reshape", {array}, {{"shape", shape}});
}

// Multiplies a csr matrix of this shape, or its transpose, by a dense matrix.
NDArrayRef csr_dot(const SparseParts& parts, const Shape& shape, const NDArrayRef& rhs,
                   bool transposed, bool sparse_grad = false) {
  return call_op("_csr_dot", {parts.values, parts.indices, parts.indptr, rhs},
                 {{"shape", shape}, {"transpose", transposed}, {"sparse_grad", sparse_grad}});
}

// Returns lhs.T @ rhs as a row-sparse array whose rows are the columns that lhs stores.
NDArrayRef rows_of_product(const NDArrayRef& lhs, const NDArrayRef& rhs) {
  const SparseParts& parts = normal_parts(lhs);
  const Shape& shape = lhs->shape();
  // The call throws the shape error.
  if (rhs->shape()[0] != shape[0]) return csr_dot(parts, shape, rhs, true);
  const NDArrayRef rows = unique_rows(parts.indices);
  const NDArrayRef places = call_op("_find_rows", {rows, parts.indices});
  const NDArrayRef values =
      call_op("_csr_dot", {parts.values, places, parts.indptr, rhs},
              {{"shape", Shape{shape[0], rows->size()}}, {"transpose", true}});
  return row_sparse({values, rows}, Shape{shape[1], rhs->shape()[1]});
}

// Returns whether the array is a variable whose gradient is row-sparse.
bool has_gradient_by_rows(const NDArrayRef& array) {
  const autograd::ArrayInfo* info = autograd::info_of(*array);
  return info && !info->node && info->req != autograd::GradReq::kNull &&
         info->stype == StorageType::kRowSparse;
}

// Returns null if the storage types have no sparse product.
NDArrayRef product(const NDArrayRef& lhs, const NDArrayRef& rhs, bool transpose_a,
                   bool transpose_b) {
  const bool lhs_is_csr = storage_type(*lhs) == StorageType::kCSR;
  const StorageType right = storage_type(*rhs);
  if (!lhs->is_sparse() && right == StorageType::kCSR && lhs->shape().ndim() == 2 &&
      !is_recorded(rhs)) {
    const NDArrayRef turned = transpose_a ? lhs : transpose(lhs);
    const NDArrayRef result =
        transpose(csr_dot(normal_parts(rhs), rhs->shape(), turned, !transpose_b));
    return transpose_a ? result : cast_storage(result, StorageType::kCSR);
  }
  const int ndim = rhs->shape().ndim();
  if (!lhs_is_csr || (ndim != 1 && ndim != 2) || is_recorded(lhs)) return nullptr;
  // A row-sparse gradient is only useful if the variable's gradient is row-sparse.
  const bool sparse_grad = has_gradient_by_rows(rhs) || right == StorageType::kRowSparse;
  const bool vector = ndim == 1;
  NDArrayRef matrix = dense_operand(rhs);
  if (vector)
    matrix = reshape(matrix, Shape{-1, 1});
  else if (transpose_b)
    matrix = transpose(matrix);
  const SparseParts& parts = normal_parts(lhs);
  if (transpose_a && right != StorageType::kCSR && !vector) {
    if (!is_recorded(matrix)) return rows_of_product(lhs, matrix);
    return cast_storage(csr_dot(parts, lhs->shape(), matrix, true), StorageType::kRowSparse);
  }
  const NDArrayRef result = csr_dot(parts, lhs->shape(), matrix, transpose_a, sparse_grad);
  return vector ? reshape(result, Shape{-1}) : result;
}

NDArrayRef dot(const SparseCall& call) {
  const auto& p = call.get<DotParams>();
  const NDArrayRef &lhs = call.inputs[0], &rhs = call.inputs[1];
  NDArrayRef result = product(lhs, rhs, p.transpose_a, p.transpose_b);
  if (!p.forward_stype) return result;
  if (!result)
    result = call_op("dot", {dense_operand(lhs), dense_operand(rhs)},
                     {{"transpose_a", p.transpose_a}, {"transpose_b", p.transpose_b}});
  const StorageType wanted = *p.forward_stype;
  MX_CHECK_SHAPE(wanted != StorageType::kCSR || result->shape().ndim() == 2,
                 "dot: the result must have 2 dimensions for forward_stype 'csr', got shape ",
                 result->shape());
  if (storage_type(*result) == wanted) return result;
  return cast_storage(cast_storage(result, StorageType::kDefault), wanted);
}

NDArrayRef fully_connected(const SparseCall& call) {
  const auto& p = call.get<FullyConnectedParams>();
  const NDArrayRef& data = call.inputs[0];
  const bool is_csr = storage_type(*data) == StorageType::kCSR;
  NDArrays inputs{data, dense_operand(call.inputs[1])};
  if (call.inputs.size() == 3) {
    const NDArrayRef bias = dense_operand(call.inputs[2]);
    const bool by_rows = bias->shape() == Shape{p.num_hidden, 1};  // whether the bias is row-sparse
    inputs.push_back(by_rows ? reshape(bias, Shape{p.num_hidden}) : bias);
  }
  SmallVector<TensorSpec, 3> specs;
  for (const NDArrayRef& input : inputs) specs.push_back(input->spec());
  infer_outputs(call.op, call.params.get(), specs);
  if (is_csr && is_recorded(data)) return nullptr;
  if (!is_csr) {
    inputs[0] = dense_operand(data);
    return autograd::call(call.op, call.params, inputs)[0];
  }
  const NDArrayRef result = product(data, transpose(inputs[1]), false, false);
  return inputs.size() == 3 ? call_op("broadcast_add", {result, inputs[2]}) : result;
}

NDArrayRef embedding(const SparseCall& call) {
  const auto& p = call.get<EmbeddingParams>();
  const NDArrayRef &data = call.inputs[0], &weight = call.inputs[1];
  if (storage_type(*weight) != StorageType::kRowSparse || data->is_sparse()) return nullptr;
  NDArrayRef rows, result;
  {
    const Unrecorded scope;
    const SparseParts& parts = normal_parts(weight);
    rows = call_op("_embedding_rows", {data}, {{"input_dim", p.input_dim}});
    Shape shape = data->shape();
    shape.push_back(p.output_dim);
    result = reshape(call_op("_row_sparse_take", {parts.values, parts.indices, rows}), shape);
  }
  const auto backward = [rows, shape = weight->shape(),
                         length = p.output_dim](std::span<const NDArrayRef> grads) {
    const NDArrayRef values = reshape(grads[0], Shape{-1, length});
    return std::vector{make_row_sparse({shape, values->dtype()}, values, rows, SparseForm::kRows)};
  };
  record("Embedding", weight, result, /*takes_sparse=*/false, backward);
  return result;
}

const RuleRegistration products_registration{
    {.op = "dot", .rule = &dot, .records = true},
    {.op = "FullyConnected", .rule = &fully_connected, .records = true, .checks_shapes = true},
    {.op = "Embedding", .rule = &embedding, .records = true}};

}  // namespace
}  // namespace mxlite::sparse
