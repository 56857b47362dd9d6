// Rules of operators that choose the storage type of their result.
#include "cpp/ops/sparse/storage.h"

#include "cpp/ops/reduce/reduce.h"
#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"
#include "cpp/sparse/tape.h"

namespace mxlite::sparse {
namespace {

using autograd::call_op;

NDArrayRef cast(const SparseCall& call) {
  return cast_storage(call.inputs[0], call.get<CastStorageParams>().stype);
}

NDArrayRef retain(const SparseCall& call) {
  const NDArrayRef &data = call.inputs[0], &indices = call.inputs[1];
  MX_CHECK_KIND(storage_type(*data) == StorageType::kRowSparse, ErrorKind::kType, call.op.name,
                ": data must be a RowSparseNDArray, got an array of another storage type");
  MX_CHECK_SHAPE(!indices->is_sparse(), call.op.name,
                 ": indices must be dense, got a sparse array");
  NDArrayRef rows, result;
  {
    const Unrecorded scope;
    const SparseParts& parts = normal_parts(data);
    rows = call_op("Cast", {call_op("reshape", {indices}, {{"shape", Shape{-1}}})},
                   {{"dtype", DType::kInt64}});
    result = row_sparse({call_op("_row_sparse_take", {parts.values, parts.indices, rows}), rows},
                        data->shape());
  }
  record("retain", data, result, /*takes_sparse=*/true,
         [rows](std::span<const NDArrayRef> grads) -> std::vector<NDArrayRef> {
           const NDArrayRef& grad = grads[0];
           if (!grad || grad->is_sparse()) return {grad};
           const NDArrayRef values = call_op("take", {grad, rows}, {{"axis", int64_t{0}}});
           return {row_sparse({values, rows}, grad->shape())};
         });
  return result;
}

NDArrayRef sum_over(const NDArrayRef& squares, const Shape& axes, bool keepdims) {
  return call_op("sum", {squares}, {{"axis", axes}, {"keepdims", keepdims}});
}

// Returns sums of squares of a row-sparse matrix without recording. Sums over rows are row-sparse
// if the axis is kept.
NDArrayRef sums_of_rows(const NDArrayRef& data, const Shape& axes, bool keepdims) {
  const SparseParts& parts = normal_parts(data);
  const NDArrayRef squares = call_op("square", {parts.values});
  if (axes != Shape{1}) return sum_over(dense(with_values(data, squares)), axes, keepdims);
  const NDArrayRef result =
      row_sparse({sum_over(squares, axes, true), parts.indices}, Shape{data->shape()[0], 1});
  return keepdims ? result : call_op("reshape", {dense(result)}, {{"shape", Shape{-1}}});
}

NDArrayRef square_sum(const SparseCall& call) {
  const auto& p = call.get<ReduceParams>();
  const NDArrayRef& data = call.inputs[0];
  const Shape& shape = data->shape();
  const AxisMask reduced = reduced_axes("_square_sum", p.axis, p.exclude, shape.ndim());
  Shape axes;
  for (int axis = 0; axis < shape.ndim(); ++axis)
    if (reduced[axis]) axes.push_back(axis);
  if (storage_type(*data) != StorageType::kRowSparse || shape.ndim() != 2 || axes.ndim() == 0) {
    const NDArrayRef squares = call_op("square", {cast_storage(data, StorageType::kDefault)});
    return axes.ndim() == 0 && shape.ndim() > 0 ? squares : sum_over(squares, axes, p.keepdims);
  }
  NDArrayRef result, values;
  {
    const Unrecorded scope;
    result = sums_of_rows(data, axes, p.keepdims);
    // Copies the values, because the data may change before backward runs.
    if (autograd::needs_record({&data, 1})) values = call_op("_copy", {normal_parts(data).values});
  }
  const Shape joint = kept_shape(shape, reduced);
  record("_square_sum", data, result, /*takes_sparse=*/true,
         [values, indices = normal_parts(data).indices, shape, joint,
          by_row = !reduced[0]](std::span<const NDArrayRef> grads) -> std::vector<NDArrayRef> {
           if (!grads[0]) return {nullptr};
           NDArrayRef factors = call_op("reshape", {dense(grads[0])}, {{"shape", joint}});
           if (by_row) factors = call_op("take", {factors, indices}, {{"axis", int64_t{0}}});
           const NDArrayRef twice = call_op("_mul_scalar", {values}, {{"scalar", int64_t{2}}});
           return {row_sparse({call_op("broadcast_mul", {twice, factors}), indices}, shape)};
         });
  return result;
}

const RuleRegistration storage_registration{
    {.op = "cast_storage", .rule = &cast, .records = true},
    {.op = "_sparse_retain", .rule = &retain, .records = true},
    {.op = "_square_sum", .rule = &square_sum, .records = true}};

}  // namespace
}  // namespace mxlite::sparse
