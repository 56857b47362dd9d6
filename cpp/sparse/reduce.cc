// Rules of sums, means and norms. The rules compute only on the stored values.
#include "cpp/ops/reduce/reduce.h"

#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"

namespace mxlite::sparse {
namespace {

using autograd::call_op;

NDArrayRef sum(const SparseCall& call) {
  const NDArrayRef& data = call.inputs[0];
  if (storage_type(*data) != StorageType::kCSR) return nullptr;
  const auto& p = call.get<ReduceParams>();
  const Shape& shape = data->shape();
  const AxisMask reduced = reduced_axes(call.op.name.c_str(), p.axis, p.exclude, shape.ndim());
  if (!reduced[0] && !reduced[1]) return nullptr;
  const SparseParts& parts = normal_parts(data);
  const NDArrayRef total = reduced[0] && reduced[1]
                               ? call_op("sum", {parts.values})
                               : call_op("_csr_sum", {parts.values, parts.indices, parts.indptr},
                                         {{"shape", shape}, {"axis", int64_t{reduced[0] ? 0 : 1}}});
  return call_op("reshape", {total}, {{"shape", result_shape(shape, reduced, p.keepdims)}});
}

NDArrayRef mean(const SparseCall& call) {
  const NDArrayRef total = sum(call);
  if (!total) return nullptr;
  const auto& p = call.get<ReduceParams>();
  const Shape& shape = call.inputs[0]->shape();
  const AxisMask reduced = reduced_axes("mean", p.axis, p.exclude, shape.ndim());
  return call_op("_div_scalar", {total}, {{"scalar", reduced_size(shape, reduced)}});
}

NDArrayRef norm(const SparseCall& call) {
  const auto& p = call.get<NormParams>();
  if ((p.axis && p.axis->ndim() > 0) || p.out_dtype || p.keepdims) return nullptr;
  const NDArrayRef values = normal_parts(call.inputs[0]).values;
  const NDArrayRef vector = call_op("reshape", {values}, {{"shape", Shape{values->size()}}});
  return call_op("norm", {vector}, {{"ord", int64_t{p.ord}}});
}

const RuleRegistration reduce_registration{
    {.op = "sum", .rule = &sum}, {.op = "mean", .rule = &mean}, {.op = "norm", .rule = &norm}};

}  // namespace
}  // namespace mxlite::sparse
