// all_gather, reduce_scatter and all_to_all: arrays that are divided among the ranks along an axis.
#include "cpp/base/checked_math.h"
#include "cpp/ops/collective/params.h"
#include "cpp/ops/collective/reductions.h"
#include "cpp/ops/collective/run.h"
#include "cpp/ops/registration.h"

namespace mxlite::collective {
namespace {

constexpr const char* kAllGatherOp = "_contrib_all_gather";
constexpr const char* kReduceScatterOp = "_contrib_reduce_scatter";
constexpr const char* kAllToAllOp = "_contrib_all_to_all";

// The functions below return the argument's shape with another size along an axis. Unknown sizes
// stay unknown.
Shape joined(const Shape& data, int axis, int64_t ranks) {
  Shape shape;
  for (int d = 0; d < data.ndim(); ++d)
    shape.push_back(d == axis && data[d] > 0 ? checked_mul(data[d], ranks) : data[d]);
  return shape;
}

Shape divided(const char* op, const Shape& data, int axis, int64_t ranks) {
  Shape shape;
  for (int d = 0; d < data.ndim(); ++d) {
    const bool here = d == axis && data[d] > 0;
    MX_CHECK_SHAPE(!here || data[d] % ranks == 0, op, ": the size of axis ", axis,
                   " must be a multiple of the ", ranks, " ranks, got data of shape ", data);
    shape.push_back(here ? data[d] / ranks : data[d]);
  }
  return shape;
}

Specs infer_all_gather(const AllGatherParams& p, std::span<const TensorSpec> in) {
  const int64_t ranks = group_of(kAllGatherOp, p.process_set).size();
  const int axis = normalize_axis(kAllGatherOp, p.axis, in[0].shape.ndim());
  return Specs{TensorSpec{joined(in[0].shape, axis, ranks), in[0].dtype}};
}

Specs infer_reduce_scatter(const ReduceScatterParams& p, std::span<const TensorSpec> in) {
  const int64_t ranks = group_of(kReduceScatterOp, p.process_set).size();
  check_mean(kReduceScatterOp, p.op, in[0].dtype);
  const int axis = normalize_axis(kReduceScatterOp, p.axis, in[0].shape.ndim());
  return Specs{TensorSpec{divided(kReduceScatterOp, in[0].shape, axis, ranks), in[0].dtype}};
}

Specs infer_all_to_all(const AllToAllParams& p, std::span<const TensorSpec> in) {
  const int64_t ranks = group_of(kAllToAllOp, p.process_set).size();
  const int split = normalize_axis(kAllToAllOp, p.split_axis, in[0].shape.ndim());
  const int join = normalize_axis(kAllToAllOp, p.concat_axis, in[0].shape.ndim());
  const Shape parts = divided(kAllToAllOp, in[0].shape, split, ranks);
  return Specs{TensorSpec{joined(parts, join, ranks), in[0].dtype}};
}

std::vector<ValueRef> all_gather_gradient(GradBuilder& g) {
  const auto& p = g.params<AllGatherParams>();
  return {g.emit(kReduceScatterOp, {g.output_grad(0)},
                 {{"axis", p.axis}, {"process_set", int64_t{p.process_set}}})};
}

std::vector<ValueRef> reduce_scatter_gradient(GradBuilder& g) {
  const auto& p = g.params<ReduceScatterParams>();
  check_differentiable(kReduceScatterOp, p.op);
  const ValueRef all = g.emit(kAllGatherOp, {g.output_grad(0)},
                              {{"axis", p.axis}, {"process_set", int64_t{p.process_set}}});
  if (p.op == Reduction::kSum) return {all};
  const double ranks = static_cast<double>(group_of(kReduceScatterOp, p.process_set).size());
  return {g.mul_scalar(all, 1 / ranks)};
}

std::vector<ValueRef> all_to_all_gradient(GradBuilder& g) {
  const auto& p = g.params<AllToAllParams>();
  return {g.emit(kAllToAllOp, {g.output_grad(0)},
                 {{"split_axis", p.concat_axis},
                  {"concat_axis", p.split_axis},
                  {"process_set", int64_t{p.process_set}}})};
}

}  // namespace

static const Registration blocks_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add(ops,
      OpBuilder<AllGatherParams>(kAllGatherOp)
          .doc("Joins the arrays of all ranks of a process set along an axis, in the order of "
               "ranks; every rank gets the result. The arrays must have the same shape. The "
               "gradient is reduce_scatter.")
          .shapes("any shape with 1 dimension or more -> `axis` times the number of ranks")
          .infer(infer_all_gather)
          .gradient(all_gather_gradient),
      [](const void* params, const TensorSpec& data, Terms& terms) {
        const auto& p = *static_cast<const AllGatherParams*>(params);
        terms.kind = Kind::kAllGather;
        terms.process_set = p.process_set;
        terms.join_axis = normalize_axis(kAllGatherOp, p.axis, data.shape.ndim());
        terms.text = str("all_gather(axis=", terms.join_axis, ")");
      });
  add(ops,
      OpBuilder<ReduceScatterParams>(kReduceScatterOp)
          .doc("Combines the arrays of all ranks of a process set; rank i of the set gets the i-th "
               "of equal parts along an axis. The gradient of sum and mean is all_gather; min, max "
               "and product are not differentiable.")
          .shapes("any shape with 1 dimension or more -> `axis` divided by the number of ranks")
          .infer(infer_reduce_scatter)
          .gradient(reduce_scatter_gradient),
      [](const void* params, const TensorSpec& data, Terms& terms) {
        const auto& p = *static_cast<const ReduceScatterParams*>(params);
        terms.kind = Kind::kReduceScatter;
        terms.process_set = p.process_set;
        terms.reduction = p.op;
        terms.split_axis = normalize_axis(kReduceScatterOp, p.axis, data.shape.ndim());
        terms.text = str("reduce_scatter(axis=", terms.split_axis, ", ", reduction_name(p.op), ")");
      });
  add(ops,
      OpBuilder<AllToAllParams>(kAllToAllOp)
          .doc(
              "Divides each rank's array along `split_axis` into equal parts, sends part i to rank "
              "i of the process set, and joins what was received along `concat_axis`, in the "
              "order of ranks. The gradient is all_to_all with exchanged axes.")
          .shapes("any shape with 1 dimension or more -> `split_axis` divided by the number of "
                  "ranks, `concat_axis` times it")
          .infer(infer_all_to_all)
          .gradient(all_to_all_gradient),
      [](const void* params, const TensorSpec& data, Terms& terms) {
        const auto& p = *static_cast<const AllToAllParams*>(params);
        terms.kind = Kind::kAllToAll;
        terms.process_set = p.process_set;
        terms.split_axis = normalize_axis(kAllToAllOp, p.split_axis, data.shape.ndim());
        terms.join_axis = normalize_axis(kAllToAllOp, p.concat_axis, data.shape.ndim());
        terms.text =
            str("all_to_all(split_axis=", terms.split_axis, ", concat_axis=", terms.join_axis, ")");
      });
});

}  // namespace mxlite::collective
