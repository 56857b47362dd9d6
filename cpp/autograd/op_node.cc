#include "cpp/autograd/op_node.h"

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/overwritten.h"
#include "cpp/autograd/sparse_grad.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::autograd {

namespace {

thread_local const OpNode* running = nullptr;

struct GradientOf {
  explicit GradientOf(const OpNode& node) : before(running) { running = &node; }
  ~GradientOf() { running = before; }
  GradientOf& operator=(GradientOf&&) = delete;  // neither copied nor moved
  const OpNode* before;
  const collective::BackwardScope backward;
};

}  // namespace

class EagerGradBuilder final : public GradBuilder {
 public:
  EagerGradBuilder(OpNode& node, std::span<const NDArrayRef> output_grads,
                   std::span<const uint8_t> needs)
      : node_(node), output_grads_(output_grads), needs_(needs) {}

  int num_inputs() const override { return static_cast<int>(node_.saved_inputs_.size()); }
  int num_outputs() const override { return static_cast<int>(node_.saved_outputs_.size()); }
  bool needs_grad(int i) const override { return needs_[static_cast<size_t>(i)] != 0; }
  ValueRef input(int i) override {
    return add(node_.checked(node_.saved_inputs_[static_cast<size_t>(i)], node_.op_.input_name(i)));
  }
  ValueRef output(int i) override {
    NDArrayRef array =
        node_.checked(node_.saved_outputs_[static_cast<size_t>(i)], "output")->detached();
    array->set_autograd(make_ref<ArrayInfo>(TapeNodeRef(&node_), i));
    return add(std::move(array));
  }
  const TensorSpec& input_spec(int i) const override {
    return node_.saved_inputs_[static_cast<size_t>(i)].array->spec();
  }
  const TensorSpec& output_spec(int i) const override {
    return node_.output_specs()[static_cast<size_t>(i)];
  }
  bool has_output_grad(int i) const override {
    return static_cast<bool>(output_grads_[static_cast<size_t>(i)]);
  }
  ValueRef output_grad(int i) override {
    if (has_output_grad(i)) return add(output_grads_[static_cast<size_t>(i)]);
    return zeros(output_spec(i));
  }
  const ParamsRef& params_ref() const override { return node_.params_; }
  bool training() const override { return node_.training_; }
  const TensorSpec& spec(ValueRef v) const override { return array(v)->spec(); }

  using GradBuilder::emit_all;
  std::vector<ValueRef> emit_all(const OpSchema& op, std::span<const ValueRef> inputs,
                                 ParamsRef params) override {
    NDArrays arrays;
    for (ValueRef v : inputs) arrays.push_back(densified(array(v)));
    // Some gradient rules end with this operator. Backward skips it, so that the gradient stays
    // row-sparse.
    static const OpSchema& to_dense = ops().get("_row_sparse_to_dense");
    if (&op == &to_dense && !mode.recording) {
      const TensorSpec spec =
          infer_outputs(op, params.get(), std::array{arrays[0]->spec(), arrays[1]->spec()})[0];
      return {add(make_row_sparse(spec, arrays[0], arrays[1], SparseForm::kRows))};
    }
    // Uses a view if no other handle can change the reshaped array.
    if (op.alias && !mode.recording && arrays[0]->contiguous()) {
      const Specs specs = infer_outputs(op, params.get(), std::array{arrays[0]->spec()});
      return {add(arrays[0]->reshaped(specs[0].shape))};
    }
    std::vector<ValueRef> result;
    for (NDArrayRef& out : call(op, params, arrays, {.device = node_.device()}))
      result.push_back(add(std::move(out)));
    return result;
  }

  const NDArrayRef& array(ValueRef v) const {
    MX_ASSERT(v);
    return values_[static_cast<size_t>(v.id)];
  }

 private:
  using GradBuilder::add;
  ValueRef add(NDArrayRef array) {
    values_.push_back(std::move(array));
    return {static_cast<int32_t>(values_.size() - 1)};
  }

  OpNode& node_;
  std::span<const NDArrayRef> output_grads_;
  std::span<const uint8_t> needs_;
  std::vector<NDArrayRef> values_;
};

OpNode::OpNode(const OpSchema& op, ParamsRef params, bool training,
               std::span<const NDArrayRef> inputs, std::span<const NDArrayRef> outputs)
    : op_(op),
      params_(std::move(params)),
      training_(training),
      gradient_of_(running ? &running->op_ : nullptr) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    saved_inputs_.push_back(save(inputs[i]));
    // States that the call itself writes (running statistics) are not checked.
    if (op.mutates(static_cast<int>(i), training)) saved_inputs_.back().version = kAnyVersion;
  }
  // Saves handles without the arrays' links to this node, because the links would form a reference
  // cycle.
  for (const NDArrayRef& a : outputs) saved_outputs_.push_back(save(a->detached()));
}

const OpNode* OpNode::in_backward() { return running; }

OpNode::Saved OpNode::save(NDArrayRef array) {
  const uint64_t version = version_of(*array);
  return {std::move(array), version};
}

const NDArrayRef& OpNode::checked(const Saved& saved, const std::string& what) const {
  if (saved.version != kAnyVersion)
    check_version(*saved.array, saved.version, [&] { return str(what, " of ", op_.name); });
  return saved.array;
}

std::vector<NDArrayRef> OpNode::backward(std::span<const NDArrayRef> output_grads,
                                         std::span<const uint8_t> needs) {
  if (op_.zero_gradient) return zero_gradients(needs);
  if (!op_.gradient && gradient_of_)
    fail(ErrorKind::kNotSupported, gradient_of_->name, ": the gradient of its gradient is not ",
         "supported (", op_.name, " is not differentiable)");
  MX_CHECK_KIND(op_.gradient, ErrorKind::kNotSupported, op_.name,
                ": the operator is not differentiable");
  EagerGradBuilder builder(*this, output_grads, needs);
  ModeScope scope({mode.recording, training_});
  const GradientOf gradient_of(*this);
  const std::vector<ValueRef> grads = op_.emit_gradient(builder, mode.recording);
  std::vector<NDArrayRef> result(needs.size());
  for (size_t i = 0; i < grads.size() && i < needs.size(); ++i)
    if (needs[i] && grads[i]) result[i] = builder.array(grads[i]);
  return result;
}

std::vector<NDArrayRef> OpNode::zero_gradients(std::span<const uint8_t> needs) const {
  const OpSchema& zeros_like = ops().get("zeros_like");
  const ModeScope quiet({false, training_});
  std::vector<NDArrayRef> result(needs.size());
  for (size_t i = 0; i < needs.size(); ++i)
    if (needs[i])
      result[i] = call(zeros_like, zeros_like.default_params, {&saved_inputs_[i].array, 1})[0];
  return result;
}

void OpNode::release_saved() {
  saved_inputs_.clear();
  saved_outputs_.clear();
  params_.reset();
}

}  // namespace mxlite::autograd
