#include "cpp/symbol/recorded_steps.h"

#include <algorithm>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/sparse_grad.h"
#include "cpp/autograd/tape.h"

namespace mxlite::symbol {
namespace {

using autograd::ArrayInfo;
using autograd::GradReq;
using autograd::ModeScope;
using Slot = graph::Route::Slot;
using Slots = std::vector<Slot>;

bool is_recorded(const NDArrayRef& array) { return autograd::needs_record({&array, 1}); }

NDArrayRef filled_like(const char* op, const NDArray& array) {
  return autograd::call_op(op, {}, {{"shape", array.shape()}, {"dtype", array.dtype()}},
                           array.device());
}

// Returns an array of zeros in the storage type of the leaf's gradient.
NDArrayRef no_gradient(const ArrayInfo& info, const NDArray& leaf) {
  if (info.stype == StorageType::kDefault) return filled_like("_zeros", leaf);
  return autograd::empty_sparse(info.stype, leaf.spec(), leaf.device());
}

// Returns the sum of the gradients that are not null, or null if all are null.
NDArrayRef sum(std::span<const NDArrayRef> gradients) {
  NDArrayRef total;
  for (const NDArrayRef& gradient : gradients)
    if (gradient) total = total ? autograd::add_gradients(total, gradient) : gradient;
  return total;
}

}  // namespace

class RecordedSteps::Forward final : public graph::Visitor<NDArrayRef> {
 public:
  Forward(RecordedSteps& owner, const Run& run, const Watch& watch)
      : owner_(owner), run_(run), watch_(watch) {}

  // Passes new variables as inputs to the node, so that it gets a separate tape.
  void before(size_t step, Arrays& inputs) override {
    const std::vector<int> written = owner_.listing_.nodes[index(step)]->states();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NDArrayRef array = inputs[i]->detached();
      const ArrayInfo* info = autograd::info_of(*inputs[i]);
      const bool is_asked = info && !info->node && info->req != GradReq::kNull;
      const bool is_leaf = !info || !info->node;
      const bool is_written = std::ranges::find(written, static_cast<int>(i)) != written.end();
      // Sparse data get gradients only if the user requests them.
      if (!is_written && is_floating(array->dtype()) &&
          (is_asked || !is_leaf || !array->is_sparse()))
        autograd::mark_variable(array, nullptr, GradReq::kWrite,
                                is_asked ? info->stype : StorageType::kDefault);
      inputs[i] = array;
    }
  }
  Arrays run(size_t step, const Arrays& inputs) override {
    return run_(owner_.forward_.nodes[step], inputs);
  }
  void after(size_t step, const Arrays& inputs, const Arrays& outputs) override {
    owner_.steps_.push_back({inputs, outputs});
    const ModeScope pause({.recording = false, .training = false});
    if (watch_) watch_(owner_.forward_.nodes[step], inputs, outputs);
  }

 private:
  size_t index(size_t step) const { return static_cast<size_t>(owner_.forward_.nodes[step]); }

  RecordedSteps& owner_;
  const Run& run_;
  const Watch& watch_;
};

// Visits the steps from the last to the first. The values of this walk are contributions to
// gradients: one for each head and one for each input of each step.
class RecordedSteps::Backward final : public graph::Visitor<NDArrayRef> {
 public:
  Backward(const RecordedSteps& owner, const Report& report) : owner_(owner), report_(report) {
    const graph::Graph& g = owner_.listing_.graph;
    const graph::ValueSlots& values = owner_.forward_.slots;
    std::vector<Slots> readers(values.size());
    for (const graph::ValueId head : g.outputs)
      readers[values.of(head)].push_back(route_.add_values());
    for (size_t step = owner_.steps_.size(); step-- > 0;) {
      const int32_t id = owner_.forward_.nodes[step];
      const graph::Node& node = g.node(id);
      Slots arriving, leaving;
      Counts counts;
      for (size_t k = 0; k < node.outputs.size(); ++k)
        take(readers[values.of({id, static_cast<int32_t>(k)})], arriving, counts);
      for (const graph::ValueId input : node.inputs) {
        leaving.push_back(route_.add_values());
        readers[values.of(input)].push_back(leaving.back());
      }
      route_.add_step(std::move(arriving), std::move(leaving));
      counts_.push_back(std::move(counts));
    }
    Slots results;
    for (const int32_t variable : g.inputs)
      take(readers[values.of({variable, 0})], results, leaf_counts_);
    route_.finish(std::move(results));
  }

  // Returns the gradients of the variables. A gradient is null if the heads do not depend on the
  // variable.
  Arrays walk(Arrays heads) {
    heads.resize(route_.num_values());  // heads are in the first slots
    return sums(graph::walk(route_, std::move(heads), *this), leaf_counts_);
  }

  Arrays run(size_t step, const Arrays& contributions) override {
    const size_t at = owner_.steps_.size() - 1 - step;
    const RecordedStep& done = owner_.steps_[at];
    const Node& node = *owner_.listing_.nodes[static_cast<size_t>(owner_.forward_.nodes[at])];
    Arrays heads, head_grads, variables, result(done.inputs.size());
    const Arrays arrived = sums(contributions, counts_[step]);
    for (size_t k = 0; k < arrived.size(); ++k) {
      if (!arrived[k] || !is_recorded(done.outputs[k])) continue;
      heads.push_back(done.outputs[k]);
      head_grads.push_back(arrived[k]);
    }
    std::ranges::copy_if(done.inputs, std::back_inserter(variables), is_recorded);
    if (heads.empty() || variables.empty()) return result;
    Arrays found = autograd::gradients(heads, head_grads, variables, {.retain_graph = true});
    for (size_t i = 0, next = 0; i < result.size(); ++i) {
      if (!is_recorded(done.inputs[i])) continue;
      result[i] = std::move(found[next++]);
      if (report_) report_(node, static_cast<int>(i), result[i]);
    }
    return result;
  }

 private:
  using Counts = std::vector<size_t>;  // number of contributions to each gradient

  static void take(const Slots& readers, Slots& slots, Counts& counts) {
    slots.insert(slots.end(), readers.begin(), readers.end());
    counts.push_back(readers.size());
  }
  static Arrays sums(const Arrays& contributions, const Counts& counts) {
    Arrays gradients;
    std::span<const NDArrayRef> rest = contributions;
    for (const size_t count : counts) {
      gradients.push_back(sum(rest.first(count)));
      rest = rest.subspan(count);
    }
    return gradients;
  }

  const RecordedSteps& owner_;
  const Report& report_;
  graph::Route route_;
  std::vector<Counts> counts_;  // for each step of this walk: counts for each output of the node
  Counts leaf_counts_;
};

RecordedSteps::RecordedSteps(Listing listing, Arrays leaves, const Run& run, const Watch& watch)
    : listing_(std::move(listing)), forward_(listing_.graph), leaves_(std::move(leaves)) {
  MX_ASSERT(leaves_.size() == listing_.graph.inputs.size());
  Arrays values(forward_.slots.size());
  for (size_t i = 0; i < leaves_.size(); ++i)
    values[forward_.slots.of({listing_.graph.inputs[i], 0})] = leaves_[i];
  const ModeScope record({.recording = true, .training = true});
  Forward forward(*this, run, watch);
  outputs_ = graph::walk(forward_.route, std::move(values), forward);
  for (NDArrayRef& output : outputs_) output = output->detached();
}

void RecordedSteps::backward(const Arrays& head_grads, const Report& report) const {
  MX_CHECK(head_grads.size() <= outputs_.size(),
           "backward: the number of head gradients must be at most the number of outputs, ",
           outputs_.size(), ", got ", head_grads.size());
  const ModeScope pause({.recording = false, .training = true});
  Arrays heads = head_grads;
  heads.resize(outputs_.size());
  for (size_t i = 0; i < heads.size(); ++i)
    if (!heads[i] && is_floating(outputs_[i]->dtype()))
      heads[i] = filled_like("_ones", *outputs_[i]);
  const Arrays gradients = Backward(*this, report).walk(std::move(heads));
  Arrays targets, values;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const ArrayInfo* info = autograd::info_of(*leaves_[i]);
    if (!info || info->req == GradReq::kNull) continue;
    if (!gradients[i] && info->req == GradReq::kAdd) continue;
    targets.push_back(leaves_[i]);
    values.push_back(gradients[i] ? gradients[i] : no_gradient(*info, *leaves_[i]));
  }
  if (!targets.empty()) autograd::backward(targets, values, {.retain_graph = true});
}

std::string gradient_name(const Node& node, int input) {
  return node.name() + "_backward_output" + (node.num_inputs() > 1 ? std::to_string(input) : "");
}

}  // namespace mxlite::symbol
