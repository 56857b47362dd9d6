#include "cpp/autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>

#include "cpp/autograd/mode.h"

namespace mxlite::autograd {
namespace {

std::atomic<uint64_t> sequence_counter{1};

// Drops links in a loop over a list. If every node's destructor destroyed the node before it, a
// long chain (a recurrent net over 10,000 steps) would overflow the stack.
void drop(std::vector<ArrayInfoRef> links) {
  thread_local std::vector<ArrayInfoRef>* pending = nullptr;
  if (pending) {
    try {
      std::move(links.begin(), links.end(), std::back_inserter(*pending));
    } catch (const std::bad_alloc&) {  // without memory, the remaining links are dropped when
                                       // this call ends
    }
    return;
  }
  pending = &links;
  while (!links.empty()) {
    ArrayInfoRef last = std::move(links.back());
    links.pop_back();
  }
  pending = nullptr;
}

// Returns the history of an array. Returns null for constants and for arrays whose history backward
// has freed. Therefore a state that is carried from one recording to the next needs no detach, as
// in 1.x.
ArrayInfo* live_info(const NDArrayRef& a) {
  ArrayInfo* const info = a ? info_of(*a) : nullptr;
  return info && info->node && info->node->released ? nullptr : info;
}

}  // namespace

TapeNode::TapeNode() : sequence_(sequence_counter.fetch_add(1, std::memory_order_relaxed)) {}

uint64_t TapeNode::next_sequence() { return sequence_counter.load(std::memory_order_relaxed); }

TapeNode::~TapeNode() { drop(std::move(inputs_)); }

void TapeNode::connect(std::span<const NDArrayRef> node_inputs,
                       std::span<const NDArrayRef> node_outputs) {
  std::vector<ArrayInfoRef> links;
  links.reserve(node_inputs.size());
  for (const NDArrayRef& a : node_inputs) links.emplace_back(live_info(a));
  connect(std::move(links), node_outputs);
}

void TapeNode::connect(std::vector<ArrayInfoRef> links, std::span<const NDArrayRef> node_outputs) {
  inputs_ = std::move(links);
  for (size_t i = 0; i < node_outputs.size(); ++i) {
    output_specs_.push_back(node_outputs[i]->spec());
    node_outputs[i]->set_autograd(make_ref<ArrayInfo>(TapeNodeRef(this), static_cast<int>(i)));
  }
  if (!node_outputs.empty()) device_ = node_outputs[0]->device();
}

bool needs_record(std::span<const NDArrayRef> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const NDArrayRef& a) {
    const ArrayInfo* const info = live_info(a);
    return info && (info->node || info->req != GradReq::kNull);
  });
}

void mark_variable(const NDArrayRef& array, const NDArrayRef& grad, GradReq req,
                   StorageType stype) {
  if (grad) {
    MX_CHECK_SHAPE(grad->shape() == array->shape(),
                   "mark_variables: the gradient must have the variable's shape ", array->shape(),
                   ", got ", grad->shape());
    MX_CHECK_DTYPE(grad->dtype() == array->dtype(),
                   "mark_variables: the gradient must have the variable's dtype ", array->dtype(),
                   ", got ", grad->dtype());
  }
  array->set_autograd(
      make_ref<ArrayInfo>(grad, req, grad ? storage_type(*grad) : stype, array->device()));
}

}  // namespace mxlite::autograd
