// Repeats values along axes of length 1; the gradient is the sum over these axes.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct BroadcastToParams {
  Shape shape;
  MX_FIELDS(BroadcastToParams,
            MX_FIELD(shape, "Shape of the result; 0 keeps the length of data's axis.").at_least(0))
};

struct BroadcastAxisParams {
  Shape axis, size;
  MX_FIELDS(BroadcastAxisParams, MX_FIELD(axis, "Axes of length 1 along which data is repeated."),
            MX_FIELD(size, "New length of each axis in axis.").at_least(0))
};

struct BroadcastLikeParams {
  std::optional<Shape> lhs_axes, rhs_axes;
  MX_FIELDS(BroadcastLikeParams, MX_FIELD(lhs_axes, "Axes of lhs that are repeated; None: all."),
            MX_FIELD(rhs_axes, "Axes of rhs whose lengths those in lhs_axes get; None: all."))
};

Shape checked(const char* op, const Shape& from, Shape to) {
  bool fits = from.ndim() <= to.ndim();
  const int lead = to.ndim() - from.ndim();
  for (int i = 0; fits && i < from.ndim(); ++i)
    fits = may_equal(from[i], to[lead + i]) || from[i] == 1;
  MX_CHECK_SHAPE(fits, op, ": data of shape ", from, " cannot be broadcast to ", to);
  for (int i = 0; i < from.ndim(); ++i)
    if (from[i] != 1) to[lead + i] = merged(to[lead + i], from[i]);
  return to;
}

Specs infer_to(const BroadcastToParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  Shape to = p.shape;
  const int lead = to.ndim() - from.ndim();
  for (int i = std::max(lead, 0); i < to.ndim(); ++i)
    if (to[i] == 0) to[i] = from[i - lead];
  return {{checked("broadcast_to", from, to), in[0].dtype}};
}

Specs infer_axis(const BroadcastAxisParams& p, std::span<const TensorSpec> in) {
  MX_CHECK(p.axis.ndim() == p.size.ndim(),
           "broadcast_axis: axis and size must have equal lengths, got ", p.axis, " and ", p.size);
  Shape to = in[0].shape;
  for (int i = 0; i < p.axis.ndim(); ++i) {
    const int axis = normalize_axis("broadcast_axis", p.axis[i], to.ndim());
    MX_CHECK_SHAPE(may_equal(in[0].shape[axis], 1), "broadcast_axis: axis ", axis,
                   " of data of shape ", in[0].shape, " must have length 1, got ",
                   in[0].shape[axis]);
    to[axis] = p.size[i];
  }
  return {{to, in[0].dtype}};
}

Specs infer_like(const BroadcastLikeParams& p, std::span<const TensorSpec> in) {
  const Shape &from = in[0].shape, &like = in[1].shape;
  MX_CHECK(p.lhs_axes.has_value() == p.rhs_axes.has_value(),
           "broadcast_like: lhs_axes and rhs_axes must be given together, got only ",
           p.lhs_axes ? "lhs_axes" : "rhs_axes");
  if (!p.lhs_axes) return {{checked("broadcast_like", from, like), in[0].dtype}};
  MX_CHECK(p.lhs_axes->ndim() == p.rhs_axes->ndim(),
           "broadcast_like: lhs_axes and rhs_axes must have equal lengths, got ", *p.lhs_axes,
           " and ", *p.rhs_axes);
  MX_CHECK(p.lhs_axes->ndim() > 0,
           "broadcast_like: lhs_axes and rhs_axes must have at least 1 axis, got () and ()");
  Shape to = from;
  for (int i = 0; i < p.lhs_axes->ndim(); ++i)
    to[normalize_axis("broadcast_like", (*p.lhs_axes)[i], from.ndim())] =
        like[normalize_axis("broadcast_like", (*p.rhs_axes)[i], like.ndim())];
  return {{checked("broadcast_like", from, to), in[0].dtype}};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = g.sum_to(g.output_grad(0), g.input_spec(0).shape);
  return grads;
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<BroadcastToParams>("broadcast_to")
              .doc("Repeats data along axes of length 1 to a given shape.")
              .shapes("sizes equal to `shape`, or 1 -> `shape`")
              .infer(infer_to)
              .gradient(gradient));
  ops.add(OpBuilder<BroadcastAxisParams>("broadcast_axis")
              .alias({"broadcast_axes"})
              .doc("Repeats data along axes of length 1.")
              .infer(infer_axis)
              .gradient(gradient));
  ops.add(OpBuilder<BroadcastLikeParams>("broadcast_like")
              .inputs({"lhs", "rhs"})
              .doc("Repeats lhs along axes of length 1 to the shape of rhs.")
              .infer(infer_like)
              .gradient(gradient));
});

}  // namespace mxlite
