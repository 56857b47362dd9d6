// SequenceMask, SequenceLast, SequenceReverse.
#include "cpp/ops/sequence/sequence.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
int count_inputs(const P& p) {
  return p.use_sequence_length ? 2 : 1;
}

void check_sequences(const char* op, const Shape& data, int axis, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(data.ndim() >= 2, op, ": data must have shape (time, batch, ...), got ", data);
  MX_CHECK_KIND(axis == 0 || axis == 1, ErrorKind::kIndex, op, ": axis must be 0 or 1, got ", axis);
  if (in.size() < 2) return;
  MX_CHECK_SHAPE(in[1].shape.ndim() == 1 && may_equal(in[1].shape[0], data[1 - axis]), op,
                 ": sequence_length must have shape (", data[1 - axis], ",) for data of shape ",
                 data, ", got ", in[1].shape);
  MX_CHECK_DTYPE(in[1].dtype != DType::kBool, op,
                 ": sequence_length must have a numeric dtype, got bool");
}

// Requires one length for each sequence of the batch.
template <class P>
void refine_lengths(const P& p, PartialShapes& shapes) {
  const Shape& data = shapes.input(0);
  if (shapes.num_inputs() > 1 && data.ndim() >= 2 && (p.axis == 0 || p.axis == 1))
    shapes.refine_input(1, Shape{data[1 - p.axis]});
}
// Like the function above if the output has data's shape.
template <class P>
void refine_sequences(const P& p, PartialShapes& shapes) {
  refine_like_first(&p, shapes);
  refine_lengths(p, shapes);
}

Specs infer_mask(const SequenceMaskParams& p, std::span<const TensorSpec> in) {
  check_sequences("SequenceMask", in[0].shape, p.axis, in);
  return {in[0]};
}

Specs infer_last(const SequenceParams& p, std::span<const TensorSpec> in) {
  check_sequences("SequenceLast", in[0].shape, p.axis, in);
  Shape to = in[0].shape;
  MX_CHECK_SHAPE(to[p.axis] != 0, "SequenceLast: data must have at least 1 time step, got shape ",
                 to);
  to.erase(p.axis);
  return {{to, in[0].dtype}};
}

Specs infer_last_backward(const SequenceLastBackwardParams& p, std::span<const TensorSpec> in) {
  return {{p.shape, in[0].dtype}};
}

Specs infer_reverse(const SequenceParams& p, std::span<const TensorSpec> in) {
  check_sequences("SequenceReverse", in[0].shape, p.axis, in);
  MX_CHECK_KIND(p.axis == 0, ErrorKind::kIndex, "SequenceReverse: axis must be 0, got ", p.axis);
  return {in[0]};
}

// Emits op(gradient[, sequence_length]). Lengths get no gradient.
std::vector<ValueRef> apply(GradBuilder& g, const char* op, ParamsRef params) {
  const ValueRef grad = g.output_grad(0);
  if (g.num_inputs() == 1) return {g.emit(op, {grad}, std::move(params))};
  return {g.emit(op, {grad, g.input(1)}, std::move(params)), {}};
}

std::vector<ValueRef> grad_mask(GradBuilder& g) {
  auto params = std::make_shared<SequenceMaskParams>(g.params<SequenceMaskParams>());
  params->value = 0;
  return apply(g, "SequenceMask", params);
}

std::vector<ValueRef> grad_reverse(GradBuilder& g) {
  return apply(g, "SequenceReverse", g.params_ref());
}

std::vector<ValueRef> grad_last(GradBuilder& g) {
  const auto& p = g.params<SequenceParams>();
  auto params = std::make_shared<SequenceLastBackwardParams>();
  *params = {g.input_spec(0).shape, p.use_sequence_length, p.axis};
  return apply(g, "_sequence_last_backward", params);
}

std::vector<ValueRef> grad_last_backward(GradBuilder& g) {
  const auto& p = g.params<SequenceLastBackwardParams>();
  auto params = std::make_shared<SequenceParams>();
  *params = {p.use_sequence_length, p.axis};
  return apply(g, "SequenceLast", params);
}

}  // namespace

static const Registration sequence_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<SequenceMaskParams>("SequenceMask")
              .inputs({"data", "sequence_length"})
              .input_count(count_inputs<SequenceMaskParams>)
              .doc("Replaces all time steps after the end of each sequence by one value.")
              .shapes("data: (steps, N, ...), sequence_length: (N,) -> shape of data")
              .infer(infer_mask)
              .gradient(grad_mask)
              .inplace(0, 0)
              .symbol({.untied_inputs = {1}})
              .refine(refine_sequences<SequenceMaskParams>));
  ops.add(OpBuilder<SequenceParams>("SequenceLast")
              .inputs({"data", "sequence_length"})
              .input_count(count_inputs<SequenceParams>)
              .doc("Returns the last time step of each sequence.")
              .shapes("data: (steps, N, ...), sequence_length: (N,) -> (N, ...)")
              .infer(infer_last)
              .gradient(grad_last)
              .symbol({.untied_inputs = {1}})
              .refine(refine_lengths<SequenceParams>));
  ops.add(OpBuilder<SequenceLastBackwardParams>("_sequence_last_backward")
              .internal()
              .inputs({"output_grad", "sequence_length"})
              .input_count(count_inputs<SequenceLastBackwardParams>)
              .doc("Zeros with output_grad at every sequence's last time step.")
              .infer(infer_last_backward)
              .gradient(grad_last_backward));
  ops.add(OpBuilder<SequenceParams>("SequenceReverse")
              .inputs({"data", "sequence_length"})
              .input_count(count_inputs<SequenceParams>)
              .doc("Reverses the time steps of each sequence; steps after its end stay in place.")
              .shapes("data: (steps, N, ...), sequence_length: (N,) -> shape of data")
              .infer(infer_reverse)
              .gradient(grad_reverse)
              .symbol({.untied_inputs = {1}})
              .refine(refine_sequences<SequenceParams>));
});

}  // namespace mxlite
