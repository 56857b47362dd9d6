#include "cpp/autograd/checkpoint.h"

#include <algorithm>
#include <unordered_set>

#include "cpp/autograd/mode.h"
#include "cpp/autograd/overwritten.h"
#include "cpp/autograd/tape.h"
#include "cpp/core/random_log.h"
#include "cpp/graph/host_op.h"
#include "cpp/ops/amp.h"

namespace mxlite::autograd {
namespace {

using Arrays = std::vector<NDArrayRef>;

bool has(const Arrays& arrays, const NDArrayRef& array) {
  return std::any_of(arrays.begin(), arrays.end(),
                     [&](const NDArrayRef& a) { return a->storage() == array->storage(); });
}

Arrays copies_of(const Arrays& arrays) {
  Arrays copies;
  for (const NDArrayRef& a : arrays) {
    copies.push_back(NDArray::empty(a->spec(), a->device()));
    copy_to(a, copies.back());
  }
  return copies;
}

void write(const Arrays& values, const Arrays& states) {
  for (size_t i = 0; i < states.size(); ++i) copy_to(values[i], states[i]);
}

// Sets states to the values that they had before the first run, until `restore` is called.
class EarlierStates {
 public:
  EarlierStates(const Arrays& states, const Arrays& earlier)
      : states_(states), current_(copies_of(states)) {
    write(earlier, states_);
  }
  // This function is separate from the destructor, because it may throw and destructors must not
  // throw.
  void restore() { write(current_, states_); }

 private:
  const Arrays& states_;
  Arrays current_;
};

// Returns the values that `outputs` depend on and that were computed outside of the body:
// variables, and outputs of nodes with sequence numbers below `first`.
std::vector<ArrayInfoRef> links_to_outside(std::span<const NDArrayRef> outputs, uint64_t first) {
  std::vector<ArrayInfoRef> links;
  std::unordered_set<const void*> seen;
  std::vector<const TapeNode*> pending;
  const auto visit = [&](const ArrayInfoRef& info) {
    if (!info || (!info->node && info->req == GradReq::kNull)) return;
    if (info->node && info->node->sequence() >= first) {
      if (seen.insert(info->node.get()).second) pending.push_back(info->node.get());
    } else if (seen.insert(info.get()).second) {
      links.push_back(info);
    }
  };
  for (const NDArrayRef& a : outputs) visit(ArrayInfoRef(info_of(*a)));
  while (!pending.empty()) {
    const TapeNode* node = pending.back();
    pending.pop_back();
    for (const ArrayInfoRef& in : node->inputs()) visit(in);
  }
  return links;
}

class CheckpointNode final : public TapeNode {
 public:
  CheckpointNode(CheckpointedCall call, RandomLog random, Arrays earlier, bool training)
      : call_(std::move(call)),
        random_(std::move(random)),
        earlier_states_(std::move(earlier)),
        training_(training) {
    for (const NDArrayRef& a : call_.inputs) links_of_inputs_.emplace_back(info_of(*a));
    for (const Arrays* list : {&call_.inputs, &call_.watched})
      for (const NDArrayRef& a : *list) versions_.push_back(version_of(*a));
  }

  const char* name() const override { return call_.name.c_str(); }
  bool runs_again() const override { return true; }

  NDArrays run_again() override {
    check_versions();
    for (const ArrayInfoRef& in : inputs())
      MX_CHECK_KIND(!in || !in->node || !in->node->released, ErrorKind::kError,
                    "backward: the graph before ", call_.name,
                    " was freed by an earlier backward; pass retain_graph=True to the first one");
    // Passes new handles, because the caller may have changed the history of the original ones.
    Arrays arguments;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      const NDArrayRef handle = call_.inputs[i]->detached();
      if (links_of_inputs_[i]) handle->set_autograd(links_of_inputs_[i]);
      arguments.push_back(handle);
    }
    const ModeScope scope({true, training_});
    const amp::Resume casts;
    const RandomLogReplay same_numbers(random_);
    EarlierStates states(call_.states, earlier_states_);
    NDArrays outputs;
    try {
      outputs = call_.body(arguments);
    } catch (...) {
      states.restore();
      throw;
    }
    states.restore();
    MX_CHECK_KIND(
        same_numbers.is_used_up(), ErrorKind::kError, call_.name,
        ": forward runs again for backward and must draw as many random numbers as the "
        "first time, got fewer random numbers; call the same operators in the same order");
    MX_CHECK_KIND(outputs.size() == output_specs().size(), ErrorKind::kError, call_.name,
                  ": forward runs again for backward and must return the same number of arrays as "
                  "the first time, ",
                  output_specs().size(), ", got ", outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      MX_CHECK_SHAPE(outputs[i]->spec() == output_specs()[i], call_.name,
                     ": forward runs again for backward, and output ", i, " must be ",
                     output_specs()[i], " as the first time, got ", outputs[i]->spec());
    return outputs;
  }

  Arrays backward(std::span<const NDArrayRef>, std::span<const uint8_t>) override {
    fail(ErrorKind::kError, call_.name,
         ": backward of a checkpoint must not be called, because its forward is recorded again");
  }

  void release_saved() override {
    call_.body = nullptr;
    call_.inputs.clear();
    call_.watched.clear();
    call_.states.clear();
    links_of_inputs_.clear();
    earlier_states_.clear();
  }

 private:
  void check_versions() const {
    size_t k = 0;
    for (const Arrays* list : {&call_.inputs, &call_.watched})
      for (const NDArrayRef& a : *list) {
        const uint64_t version = versions_[k++];
        if (!has(call_.states, a))
          check_version(*a, version, [&] { return "an operand of " + call_.name; });
      }
  }

  CheckpointedCall call_;
  RandomLog random_;
  Arrays earlier_states_;
  std::vector<ArrayInfoRef> links_of_inputs_;
  std::vector<uint64_t> versions_;  // versions of the inputs, then of the watched arrays
  bool training_;
};

// A checkpoint whose function was traced inside a hybridized forward.
class TracedCheckpoint final : public graph::HostOp {
 public:
  TracedCheckpoint(std::string name, TracedFunctionRef function)
      : name_(std::move(name)), function_(std::move(function)) {}

  Specs infer(std::span<const TensorSpec>) const override {
    return Specs(function_->outputs().begin(), function_->outputs().end());
  }

  bool writes(int input) const override {
    return function_->writes_import(static_cast<size_t>(input));
  }

  NDArrays call(std::span<const NDArrayRef> inputs) const override {
    CheckpointedCall checkpointed;
    checkpointed.name = name_;
    checkpointed.inputs.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (function_->writes_import(i)) checkpointed.states.push_back(inputs[i]);
    checkpointed.body = [function = function_](std::span<const NDArrayRef> arrays) {
      return (*function)({}, arrays);
    };
    return checkpoint(std::move(checkpointed));
  }

 private:
  std::string name_;
  TracedFunctionRef function_;
};

}  // namespace

NDArrays checkpoint(CheckpointedCall call) {
  if (!mode.recording) return call.body(call.inputs);
  std::vector<uint64_t> versions;
  for (const NDArrayRef& a : call.watched) versions.push_back(version_of(*a));
  std::vector<uint64_t> state_versions;
  for (const NDArrayRef& a : call.states) state_versions.push_back(version_of(*a));
  Arrays earlier = copies_of(call.states);
  const uint64_t first = TapeNode::next_sequence();
  RandomLog random;
  NDArrays outputs;
  {
    RandomLogScope scope(random);
    outputs = call.body(call.inputs);
  }
  for (size_t i = 0; i < call.watched.size(); ++i)
    MX_CHECK_KIND(version_of(*call.watched[i]) == versions[i], ErrorKind::kNotSupported, call.name,
                  ": forward of a checkpoint must not write differentiable parameters, got a "
                  "write to a parameter of shape ",
                  call.watched[i]->shape(), "; declare the parameter with differentiable=False");
  const std::vector<ArrayInfoRef> links = links_to_outside(outputs, first);
  if (links.empty()) return outputs;
  for (size_t i = call.states.size(); i-- > 0;) {
    if (version_of(*call.states[i]) != state_versions[i]) continue;
    const auto at = static_cast<ptrdiff_t>(i);
    // The body did not write this state, so a later write to it must be reported.
    call.watched.push_back(call.states[i]);
    call.states.erase(call.states.begin() + at);
    earlier.erase(earlier.begin() + at);
  }
  NDArrays results;
  for (const NDArrayRef& a : outputs) results.push_back(a->detached());
  outputs.clear();
  auto node = make_ref<CheckpointNode>(std::move(call), std::move(random), std::move(earlier),
                                       mode.training);
  node->connect(links, results);
  return results;
}

NDArrays traced_checkpoint(const std::string& name, TracedFunctionRef function) {
  const Arrays inputs = function->imports();
  return graph::call_host_op("_checkpoint",
                             make_ref<const TracedCheckpoint>(name, std::move(function)), inputs);
}

}  // namespace mxlite::autograd
