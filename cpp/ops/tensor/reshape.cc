// Reshape, Flatten, expand_dims, squeeze, reshape_like: outputs that alias their first input.
#include "cpp/ops/tensor/reshape.h"

#include <algorithm>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// One code of the shape parameter; -4 (split) includes the two numbers that follow it.
struct Code {
  int64_t value = 0, first = 0, second = 0;
};

Shape reversed(const Shape& shape) {
  Shape r = shape;
  std::reverse(r.begin(), r.end());
  return r;
}

// With `reverse`, codes are read from right to left, so the two numbers precede their -4.
std::vector<Code> read_codes(const Shape& given, bool reverse) {
  const Shape shape = reverse ? reversed(given) : given;
  std::vector<Code> codes;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == -4) {
      MX_CHECK(i + 2 < shape.ndim(), "Reshape: shape ", given, ": -4 needs two numbers ",
               reverse ? "before it, as reverse is set" : "after it");
      codes.push_back({-4, shape[i + 1], shape[i + 2]});
      i += 2;
    } else {
      codes.push_back({shape[i]});
    }
  }
  return codes;
}

Shape resolve_target_shape(const ReshapeParams& p, const Shape& from) {
  Shape to = p.target_shape;
  if (p.keep_highest && to.ndim() > 0 && from.ndim() > 0) to[0] = from[0];
  int inferred = -1;
  for (int i = p.keep_highest ? 1 : 0; i < to.ndim(); ++i)
    if (to[i] == 0) {
      MX_CHECK_SHAPE(inferred < 0, "Reshape: target_shape ", p.target_shape,
                     " leaves more than one dimension to infer");
      inferred = i;
    }
  if (inferred >= 0) {
    to[inferred] = 1;
    const int64_t others = count_elements(to);
    if (others > 0)
      to[inferred] = divide_dim(count_elements(from), others);
    else if (!is_known(others))  // a kept first dimension cancels, even if unknown
      to[inferred] =
          divide_dim(product_of_dims(from, 1, from.ndim()), product_of_dims(to, 1, to.ndim()));
  }
  return to;
}

Shape resolve_codes(const ReshapeParams& p, const Shape& given) {
  const Shape from = p.reverse ? reversed(given) : given;
  Shape to;
  int source = 0, inferred = -1;
  // Dimensions of data that no code keeps, joins or splits, and the product of the literal
  // dimensions of the parameter. -1 is the quotient of both, even if kept dimensions are unknown.
  Shape remaining = from;
  int64_t literals = 1;
  const auto next = [&] {
    MX_CHECK_SHAPE(source < from.ndim(), "Reshape: shape ", p.shape,
                   " refers to more dimensions than data of shape ", given, " has");
    remaining[source] = 1;
    return from[source++];
  };
  const auto infer_here = [&] {
    MX_CHECK_SHAPE(inferred < 0, "Reshape: shape ", p.shape,
                   " leaves more than one dimension to infer");
    inferred = to.ndim();
    to.push_back(1);
  };
  for (const Code& code : read_codes(p.shape, p.reverse)) {
    if (code.value == 0) {
      to.push_back(next());
    } else if (code.value == -1) {
      infer_here();
      ++source;
    } else if (code.value == -2) {
      while (source < from.ndim()) to.push_back(next());
    } else if (code.value == -3) {
      const int64_t first = next();
      to.push_back(multiply_dims(first, next()));
    } else if (code.value == -4) {
      const int64_t whole = next();
      int64_t first = code.first, second = code.second;
      MX_CHECK_SHAPE(first != -1 || second != -1, "Reshape: shape ", p.shape,
                     ": at most one of the factors after -4 may be -1, got two");
      if (first == -1 && second != 0) first = divide_dim(whole, second);
      if (second == -1 && code.first > 0) second = divide_dim(whole, first);
      const int64_t least = is_known(whole) ? 0 : kUnknownDim;
      MX_CHECK_SHAPE(
          first >= least && second >= least && may_equal(multiply_dims(first, second), whole),
          "Reshape: shape ", p.shape, ": a dimension of ", whole, " cannot be split into ",
          code.first, " x ", code.second);
      to.push_back(first);
      to.push_back(second);
    } else {
      to.push_back(code.value);
      literals = multiply_dims(literals, code.value);
      ++source;
    }
  }
  if (inferred >= 0) {
    const int64_t others = count_elements(to);
    MX_CHECK_SHAPE(others != 0, "Reshape: -1 in shape ", p.shape,
                   " cannot be inferred, because the other dimensions have no elements");
    if (is_known(others) && from.is_known()) {
      to[inferred] = from.size() / others;
    } else {
      const int64_t rest = count_elements(remaining);
      MX_CHECK_SHAPE(may_be_multiple(rest, literals), "Reshape: data of shape ", given,
                     " cannot have shape ", p.shape, ": ", rest, " elements are not a multiple of ",
                     literals);
      to[inferred] = divide_dim(rest, literals);
    }
  }
  return p.reverse ? reversed(to) : to;
}

Specs infer_reshape(const ReshapeParams& p, std::span<const TensorSpec> in) {
  return {{resolve_reshape(p, in[0].shape), in[0].dtype}};
}

Specs infer_flatten(const NoParams&, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  MX_CHECK_SHAPE(from.ndim() > 0, "Flatten: data must have at least 1 dimension, got shape ()");
  return {{{from[0], product_of_dims(from, 1, from.ndim())}, in[0].dtype}};
}

Specs infer_expand_dims(const ExpandDimsParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  MX_CHECK_KIND(p.axis >= -to.ndim() - 1 && p.axis <= to.ndim(), ErrorKind::kIndex,
                "expand_dims: axis ", p.axis, " is out of range for an array with ", to.ndim(),
                " dimensions");
  to.insert(p.axis < 0 ? p.axis + to.ndim() + 1 : p.axis, 1);
  return {{to, in[0].dtype}};
}

Specs infer_squeeze(const SqueezeParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  bool removed[Shape::kMaxNdim] = {};
  if (p.axis) {
    for (const int64_t given : *p.axis) {
      const int axis = normalize_axis("squeeze", given, from.ndim());
      MX_CHECK_SHAPE(may_equal(from[axis], 1), "squeeze: axis ", given, " of data of shape ", from,
                     " must have length 1, got ", from[axis]);
      MX_CHECK(!removed[axis], "squeeze: axes must be distinct, got axis ", given, " twice in ",
               *p.axis);
      removed[axis] = true;
    }
  } else {
    if (!from.is_known()) return {{Shape::unknown(), in[0].dtype}};  // unknown axes may be squeezed
    for (int i = 0; i < from.ndim(); ++i) removed[i] = from[i] == 1;
  }
  Shape to;
  for (int i = 0; i < from.ndim(); ++i)
    if (!removed[i]) to.push_back(from[i]);
  if (to.ndim() == 0) to.push_back(1);  // as 1.x, which has no 0-d arrays
  return {{to, in[0].dtype}};
}

struct AxisRange {
  int begin, end;
};

AxisRange axis_range(const char* side, std::optional<int> begin, std::optional<int> end, int ndim) {
  AxisRange r{begin.value_or(0), end.value_or(ndim)};
  if (r.begin < 0) r.begin += ndim;
  if (r.end < 0) r.end += ndim;
  MX_CHECK_KIND(r.begin >= 0 && r.begin <= r.end && r.end <= ndim, ErrorKind::kIndex,
                "reshape_like: axes [", begin.value_or(0), ", ", end.value_or(ndim), ") of ", side,
                " are out of range for an array with ", ndim, " dimensions");
  return r;
}

Specs infer_reshape_like(const ReshapeLikeParams& p, std::span<const TensorSpec> in) {
  const Shape& lhs = in[0].shape;
  const Shape& rhs = in[1].shape;
  const AxisRange l = axis_range("lhs", p.lhs_begin, p.lhs_end, lhs.ndim());
  const AxisRange r = axis_range("rhs", p.rhs_begin, p.rhs_end, rhs.ndim());
  Shape to;
  for (int i = 0; i < l.begin; ++i) to.push_back(lhs[i]);
  for (int i = r.begin; i < r.end; ++i) to.push_back(rhs[i]);
  for (int i = l.end; i < lhs.ndim(); ++i) to.push_back(lhs[i]);
  MX_CHECK_SHAPE(may_equal(count_elements(to), count_elements(lhs)), "reshape_like: lhs of shape ",
                 lhs, " has ", count_elements(lhs), " elements, but the result, of shape ", to,
                 " from rhs of shape ", rhs, ", has ", count_elements(to));
  return {{to, in[0].dtype}};
}

Specs infer_identity_like(const NoParams&, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(may_equal(in[0].shape, in[1].shape),
                 "_identity_with_attr_like_rhs: rhs must have the shape of lhs, ", in[0].shape,
                 ", got ", in[1].shape);
  return {{merged(in[0].shape, in[1].shape), in[0].dtype}};
}

std::vector<ValueRef> grad_reshape(GradBuilder& g) {
  return {g.reshape(g.output_grad(0), g.input_spec(0).shape)};
}

std::vector<ValueRef> grad_reshape_like(GradBuilder& g) {
  return {g.reshape(g.output_grad(0), g.input_spec(0).shape), {}};
}

void refine_expand_dims(const ExpandDimsParams& p, PartialShapes& shapes) {
  Shape out = shapes.output(0);
  if (out.ndim() <= 0) return;
  out.erase(((p.axis % out.ndim()) + out.ndim()) % out.ndim());
  shapes.refine_input(0, out);
}

// Infers a single unknown extent of data, because the number of elements stays the same.
void refine_reshape(const ReshapeParams&, PartialShapes& shapes) {
  const Shape &data = shapes.input(0), &out = shapes.output(0);
  if (data.ndim() < 0 || !out.is_known() || std::count(data.begin(), data.end(), -1) != 1) return;
  int64_t known = 1;
  for (const int64_t extent : data)
    if (extent != -1) known = checked_mul(known, extent);
  const int64_t whole = out.size();
  if (known == 0 || whole % known != 0) return;
  Shape before = data;
  std::replace(before.begin(), before.end(), int64_t{-1}, whole / known);
  shapes.refine_input(0, before);
}

}  // namespace

Shape resolve_reshape(const ReshapeParams& p, const Shape& from) {
  const bool old_form = p.shape.ndim() == 0 && p.target_shape.ndim() > 0;
  const Shape to = old_form ? resolve_target_shape(p, from) : resolve_codes(p, from);
  MX_CHECK_SHAPE(may_equal(count_elements(to), count_elements(from)), "Reshape: data of shape ",
                 from, " has ", count_elements(from), " elements, but shape ",
                 old_form ? p.target_shape : p.shape, " gives ", to, " with ", count_elements(to),
                 " elements");
  return to;
}

static const Registration reshape_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<ReshapeParams>("Reshape")
              .alias({"reshape"})
              .doc("Returns the same elements in another shape.")
              .shapes("any shape -> `shape` (0 keeps a size, -1 is inferred)")
              .infer(infer_reshape)
              .gradient(grad_reshape)
              .inplace(0, 0)
              .aliases_input()
              .drawn("shape")
              .refine(refine_reshape));
  ops.add(OpBuilder<NoParams>("Flatten")
              .alias({"flatten"})
              .doc("Joins all axes except the first: shape (d1, d2, ..., dk) becomes (d1, d2 * ... "
                   "* dk).")
              .shapes("(N, ...) -> (N, product of the others)")
              .infer(infer_flatten)
              .gradient(grad_reshape)
              .inplace(0, 0)
              .aliases_input()
              .drawn("shape"));
  ops.add(OpBuilder<ExpandDimsParams>("expand_dims")
              .doc("Inserts an axis of length 1.")
              .shapes("any shape -> size 1 inserted at `axis`")
              .infer(infer_expand_dims)
              .gradient(grad_reshape)
              .inplace(0, 0)
              .aliases_input()
              .refine(refine_expand_dims));
  ops.add(OpBuilder<SqueezeParams>("squeeze")
              .doc("Removes axes of length 1, but keeps at least one axis.")
              .infer(infer_squeeze)
              .gradient(grad_reshape)
              .inplace(0, 0)
              .aliases_input());
  ops.add(OpBuilder<ReshapeLikeParams>("reshape_like")
              .inputs({"lhs", "rhs"})
              .doc("Reshapes lhs to the shape of rhs, or a range of axes of lhs to the lengths of "
                   "a range of axes of rhs.")
              .infer(infer_reshape_like)
              .gradient(grad_reshape_like)
              .inplace(0, 0)
              .aliases_input());
  ops.add(OpBuilder<NoParams>("_identity_with_attr_like_rhs")
              .inputs({"lhs", "rhs"})
              .doc("Returns lhs; lhs and rhs have the same shape, so that symbols infer one from "
                   "the other.")
              .infer(infer_identity_like)
              .gradient(grad_reshape_like)
              .inplace(0, 0)
              .aliases_input()
              .refine(refine_all_alike));
});

}  // namespace mxlite
