// Visits the nodes of the tape from the heads to earlier calls and accumulates gradients.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "cpp/autograd/call.h"
#include "cpp/autograd/gradient_order.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/sparse_grad.h"
#include "cpp/autograd/tape.h"
#include "cpp/ops/amp.h"

namespace mxlite::autograd {
namespace {

NDArrayRef filled(const char* op, const TensorSpec& spec, Device device) {
  return call_op(op, {}, {{"shape", spec.shape}, {"dtype", spec.dtype}}, device);
}

class BackwardWalk {
 public:
  explicit BackwardWalk(const BackwardOptions& options) : options_(options) {}

  void add_head(const NDArrayRef& head, NDArrayRef grad) {
    const ArrayInfo* info = info_of(*head);
    MX_CHECK(info && (info->node || info->req != GradReq::kNull), "backward: the head of shape ",
             head->shape(),
             " was not computed from a variable inside autograd.record(); call attach_grad on an "
             "input and compute it while recording");
    if (grad) {
      MX_CHECK_SHAPE(grad->shape().size() == head->shape().size(),
                     "backward: the head gradient must have as many elements as the head of shape ",
                     head->shape(), ", got shape ", grad->shape());
      MX_CHECK_DTYPE(grad->dtype() == head->dtype(),
                     "backward: the head gradient must have the head's dtype ", head->dtype(),
                     ", got ", grad->dtype());
      // As in 1.x, the gradient may have another shape of the same size, because scripts pass
      // columns for rows.
      if (grad->shape() != head->shape())
        grad = call_op("_reshape_to", {grad}, {{"shape", head->shape()}}, head->device());
    } else {
      grad = filled("_ones", head->spec(), head->device());
    }
    arrive(ArrayInfoRef(info_of(*head)), std::move(grad));
  }

  // Stores the gradient of a value that is not a variable.
  void want(const ArrayInfo& info) {
    if (info.node) wanted_[info.node.get()].resize(info.node->output_specs().size());
  }

  void run_all() {
    while (!ready_.empty()) {
      TapeNodeRef node = ready_.top().node;
      ready_.pop();
      step(*node);
      if (!options_.create_graph && node->sequence() >= first_own_)
        release(*node);
      else
        visited_.push_back(std::move(node));
    }
  }

  NDArrayRef leaf_grad(ArrayInfo* leaf) const {
    const auto it = leaves_.find(leaf);
    return it == leaves_.end() ? nullptr : it->second.grad;
  }
  NDArrayRef value_grad(const TapeNode* node, int output) const {
    const auto& kept = options_.partial ? grads_ : wanted_;
    const auto it = kept.find(node);
    return it == kept.end() ? nullptr : it->second[static_cast<size_t>(output)];
  }

  void store_into_variables() {
    for (auto& [leaf, arrived] : leaves_) {
      if (leaf->req == GradReq::kNull) continue;
      NDArrayRef value = std::move(arrived.grad);
      leaf->fresh = true;
      if (value && value == leaf->grad) continue;  // the node has written it in place
      if (!value) {
        clear(*leaf);
        continue;
      }
      if (leaf->stype != StorageType::kDefault) {
        const ModeScope quiet({false, options_.training});
        store_sparse(*leaf, value,
                     value->use_count() == 1 && !options_.retain_graph && !options_.create_graph);
        continue;
      }
      if (value->is_sparse()) value = densified(value);
      // If no other handle refers to this array, it becomes the gradient without a copy.
      const bool own = value->use_count() == 1 && value->contiguous() && value->offset() == 0 &&
                       !options_.retain_graph && !options_.create_graph;
      if (!leaf->grad) {
        const bool keep = own && value->device() == leaf->device;
        leaf->grad = keep ? value : NDArray::empty(value->spec(), leaf->device);
        if (!keep) copy_to(value, leaf->grad);
      } else if (leaf->req == GradReq::kAdd) {
        const NDArrayRef out[] = {leaf->grad};
        ModeScope quiet({false, options_.training});
        call_op("elemwise_add", {leaf->grad, value}, {}, {}, out);
      } else if (own && value->device() == leaf->grad->device()) {
        leaf->grad->assign_handle(*value);
      } else {
        copy_to(value, leaf->grad);
      }
      if (options_.create_graph) leaf->grad->set_autograd(value->autograd());
    }
    if (notes_order()) note_order();
  }

  void release() {
    if (options_.retain_graph || options_.create_graph) return;
    for (const TapeNodeRef& node : visited_) release(*node);
  }

 private:
  struct QueuedNode {
    TapeNodeRef node;
    bool operator<(const QueuedNode& o) const { return node->sequence() < o.node->sequence(); }
  };
  struct Arrived {
    ArrayInfoRef keep;
    NDArrayRef grad;
    uint64_t last = 0;  // number of the last contribution to the gradient
  };

  void note_order() const {
    std::vector<std::pair<uint64_t, NDArrayRef>> made;
    for (const auto& [leaf, arrived] : leaves_)
      if (leaf->grad && leaf->req != GradReq::kNull) made.emplace_back(arrived.last, leaf->grad);
    std::sort(made.begin(), made.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<NDArrayRef> gradients;
    for (auto& [last, gradient] : made) gradients.push_back(std::move(gradient));
    note_gradients(gradients);
  }

  // Numbers the variables to whose gradients this node has contributed.
  void number_contributions(const TapeNode& node) {
    const auto number = [&](size_t i) {
      const ArrayInfoRef& in = node.inputs()[i];
      if (!in || in->node) return;
      if (const auto leaf = leaves_.find(in.get()); leaf != leaves_.end())
        leaf->second.last = ++contributions_;
    };
    const std::vector<size_t> order = node.gradient_order();
    for (size_t i = 0; order.empty() && i < node.inputs().size(); ++i) number(i);
    for (const size_t i : order) number(i);
  }

  static void release(TapeNode& node) {
    node.release_saved();
    node.released = true;
  }

  // Runs the body of a checkpoint again and continues with the nodes that this run records. These
  // nodes come next, because they are the latest nodes. See Note [Checkpoints].
  void enter(TapeNode& node, std::vector<NDArrayRef> output_grads) {
    const NDArrays outputs = node.run_again();
    for (size_t i = 0; i < outputs.size(); ++i) {
      ArrayInfo* const info = info_of(*outputs[i]);
      if (output_grads[i] && info && (info->node || info->req != GradReq::kNull))
        arrive(ArrayInfoRef(info), std::move(output_grads[i]));
    }
  }

  // Sets the gradient of a variable to 0 if a call used the variable but the heads do not depend on
  // it.
  void clear(ArrayInfo& leaf) const {
    if (!leaf.grad || leaf.req != GradReq::kWrite) return;
    const ModeScope quiet({false, options_.training});
    if (leaf.stype != StorageType::kDefault) {
      store_sparse(leaf, empty_sparse(leaf.stype, leaf.grad->spec(), leaf.grad->device()), true);
      return;
    }
    const NDArrayRef out[] = {leaf.grad};
    call_op("_zeros", {}, {{"shape", leaf.grad->shape()}, {"dtype", leaf.grad->dtype()}},
            leaf.grad->device(), out);
  }

  // Notes the variables that a value depends on whose gradient does not arrive. Their gradients
  // become 0 unless others arrive.
  void note_variables(const ArrayInfoRef& value) {
    std::vector<ArrayInfoRef> pending = {value};
    while (!pending.empty()) {
      const ArrayInfoRef info = std::move(pending.back());
      pending.pop_back();
      if (!info->node) {
        if (info->req != GradReq::kNull) leaves_[info.get()].keep = info;
      } else if (without_gradient_.insert(info->node.get()).second) {
        for (const ArrayInfoRef& in : info->node->inputs())
          if (in) pending.push_back(in);
      }
    }
  }

  void arrive(const ArrayInfoRef& info, NDArrayRef grad) {
    if (!info->node) {
      if (info->req == GradReq::kNull) return;
      Arrived& slot = leaves_[info.get()];
      slot.keep = info;
      accumulate(slot.grad, std::move(grad));
      return;
    }
    auto [it, first] = grads_.try_emplace(info->node.get());
    if (first) {
      it->second.resize(info->node->output_specs().size());
      if (!options_.partial || !wanted_.count(info->node.get())) ready_.push({info->node});
    }
    accumulate(it->second[static_cast<size_t>(info->output)], std::move(grad));
  }

  static void accumulate(NDArrayRef& slot, NDArrayRef grad) {
    slot = slot ? add_gradients(slot, grad) : std::move(grad);
  }

  void step(TapeNode& node) {
    MX_CHECK_KIND(!node.released, ErrorKind::kError, "backward: the graph through ", node.name(),
                  " was freed by an earlier backward; pass retain_graph=True to the first one");
    std::vector<NDArrayRef> output_grads = std::move(grads_[&node]);
    grads_.erase(&node);
    if (const auto it = wanted_.find(&node); it != wanted_.end()) it->second = output_grads;
    if (node.runs_again()) {
      try {
        enter(node, std::move(output_grads));
      } catch (Error& error) {
        error.add_context(str("in the gradient of ", node.name()));
        throw;
      }
      return;
    }
    std::vector<uint8_t> needs;
    for (const ArrayInfoRef& in : node.inputs())
      needs.push_back(in && (in->node || in->req != GradReq::kNull));
    if (!node.takes_sparse())
      for (NDArrayRef& grad : output_grads)
        if (grad && grad->is_sparse()) grad = densified(grad);
    std::vector<NDArrayRef> input_grads;
    try {
      const bool once = !options_.retain_graph && !options_.create_graph;
      input_grads = once ? node.last_backward(output_grads, needs, places_for(node))
                         : node.backward(output_grads, needs);
    } catch (Error& error) {
      error.add_context(str("in the gradient of ", node.name()));
      throw;
    }
    output_grads.clear();
    for (size_t i = 0; i < input_grads.size(); ++i) {
      if (!needs[i]) continue;
      const ArrayInfoRef& in = node.inputs()[i];
      if (input_grads[i]) {
        arrive(in, std::move(input_grads[i]));
      } else {
        note_variables(in);
      }
    }
    if (notes_order()) number_contributions(node);
  }

  // Returns an array for each input: the gradient array of the variable if the node may write into
  // this array, otherwise null.
  std::vector<NDArrayRef> places_for(const TapeNode& node) const {
    std::vector<NDArrayRef> places(node.inputs().size());
    if (options_.partial) return places;
    for (size_t i = 0; i < places.size(); ++i) {
      const ArrayInfoRef& in = node.inputs()[i];
      if (!in || in->node || in->req != GradReq::kWrite || in->stype != StorageType::kDefault ||
          !in->grad || in->grad->is_sparse() || !in->grad->contiguous() || leaves_.count(in.get()))
        continue;
      const auto same = [&](const NDArrayRef& a) {
        return a && a->storage() == in->grad->storage();
      };
      if (std::none_of(places.begin(), places.end(), same)) places[i] = in->grad;
    }
    return places;
  }

  BackwardOptions options_;
  const uint64_t first_own_ = TapeNode::next_sequence();  // first node that this backward pass
                                                          // records again
  std::priority_queue<QueuedNode> ready_;
  std::unordered_map<const TapeNode*, std::vector<NDArrayRef>> grads_, wanted_;
  std::unordered_map<ArrayInfo*, Arrived> leaves_;
  std::unordered_set<const TapeNode*> without_gradient_;  // visited by note_variables
  std::vector<TapeNodeRef> visited_;
  uint64_t contributions_ = 0;  // counted only if notes_order()
};

void start(BackwardWalk& walk, std::span<const NDArrayRef> heads,
           std::span<const NDArrayRef> head_grads) {
  MX_CHECK(!heads.empty(), "backward: the number of heads must be at least 1, got 0");
  MX_CHECK(head_grads.empty() || head_grads.size() == heads.size(),
           "backward: the number of head gradients must equal the number of heads, ", heads.size(),
           ", got ", head_grads.size());
  for (size_t i = 0; i < heads.size(); ++i)
    walk.add_head(heads[i], head_grads.empty() ? nullptr : head_grads[i]);
  walk.run_all();
}

// Returns the array on `device`. Records the copy if recording is on.
NDArrayRef moved(const NDArrayRef& array, Device device) {
  if (array->is_sparse() || array->device() == device) return array;
  const NDArrayRef out[] = {NDArray::empty(array->spec(), device)};
  return call_op("_copyto", {array}, {}, {}, out);
}

}  // namespace

NDArrayRef gradient_of(const NDArray& array) {
  ArrayInfo* info = info_of(array);
  if (!info || info->node) return nullptr;
  if (!info->grad) {
    ModeScope quiet({false, mode.training});
    info->grad = info->stype == StorageType::kDefault
                     ? filled("_zeros", array.spec(), array.device())
                     : empty_sparse(info->stype, array.spec(), array.device());
  }
  if (array.is_numpy()) info->grad->set_numpy(true);
  return info->grad;
}

void backward(std::span<const NDArrayRef> heads, std::span<const NDArrayRef> head_grads,
              const BackwardOptions& options) {
  ModeScope scope({options.create_graph, options.training});
  const amp::Pause no_amp;  // gradient rules already emit their final dtypes
  BackwardWalk walk(options);
  start(walk, heads, head_grads);
  walk.store_into_variables();
  walk.release();
}

std::vector<NDArrayRef> gradients(std::span<const NDArrayRef> heads,
                                  std::span<const NDArrayRef> head_grads,
                                  std::span<const NDArrayRef> variables,
                                  const BackwardOptions& options) {
  ModeScope scope({options.create_graph, options.training});
  const amp::Pause no_amp;  // gradient rules already emit their final dtypes
  BackwardWalk walk(options);
  for (const NDArrayRef& v : variables) {
    const ArrayInfo* info = info_of(*v);
    MX_CHECK(info, "grad: a variable of shape ", v->shape(),
             " is not part of the recorded computation; call attach_grad on it first");
    walk.want(*info);
  }
  start(walk, heads, head_grads);
  std::vector<NDArrayRef> result;
  // The memory of the caller's arrays. Gradients must not overwrite it.
  std::unordered_set<const Storage*> taken;
  for (const NDArrayRef& grad : head_grads)
    if (grad && !grad->is_sparse()) taken.insert(grad->storage().get());
  for (const NDArrayRef& v : variables) {
    ArrayInfo* info = info_of(*v);
    NDArrayRef grad =
        info->node ? walk.value_grad(info->node.get(), info->output) : walk.leaf_grad(info);
    if (grad && info->stype == StorageType::kDefault) grad = densified(grad);
    if (grad && !grad->is_sparse() && info->stype != StorageType::kDefault)
      grad = make_sparse_from_dense(info->stype, grad);
    if (!grad && info->stype != StorageType::kDefault)
      grad = empty_sparse(info->stype, v->spec(), v->device());
    grad = grad ? moved(grad, v->device()) : filled("_zeros", v->spec(), v->device());
    if (!grad->is_sparse() && !taken.insert(grad->storage().get()).second)
      grad = call_op("_copy", {grad}, {}, grad->device());
    if (v->is_numpy()) grad->set_numpy(true);
    result.push_back(std::move(grad));
  }
  walk.release();
  return result;
}

}  // namespace mxlite::autograd
