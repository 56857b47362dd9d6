// The tape of eager autograd: one node per recorded call, linked from the arrays it produced.
#pragma once
#include <vector>

#include "cpp/ndarray/sparse.h"
#include "cpp/ops/invoke.h"

namespace mxlite::autograd {

class TapeNode;
using TapeNodeRef = IntrusivePtr<TapeNode>;

enum class GradReq : uint8_t { kNull, kWrite, kAdd };

// Autograd data of an array: the node that produced it, or (for a variable) its gradient array.
class ArrayInfo final : public AutogradInfo {
 public:
  ArrayInfo(TapeNodeRef n, int i) : node(std::move(n)), output(i) {}
  ArrayInfo(NDArrayRef g, GradReq r, StorageType s = StorageType::kDefault, Device d = {})
      : grad(std::move(g)), req(r), stype(s), device(d) {}

  TapeNodeRef node;  // null: a variable
  int output = 0;
  NDArrayRef grad;  // null until backward or the user needs it (gradient_of)
  GradReq req = GradReq::kNull;
  StorageType stype = StorageType::kDefault;  // storage type of the gradient
  Device device;                              // where backward puts a variable's gradient
  bool fresh = false;  // backward stored a gradient since the last step of a trainer
};
using ArrayInfoRef = IntrusivePtr<ArrayInfo>;

inline ArrayInfo* info_of(const NDArray& a) { return static_cast<ArrayInfo*>(a.autograd().get()); }

// Returns a number that every write to the array's memory changes.
inline uint64_t version_of(const NDArray& a) { return a.storage()->var().version(); }

class TapeNode : public RefCounted {
 public:
  TapeNode();
  ~TapeNode() override;

  virtual const char* name() const = 0;
  // Returns gradients of the inputs, null if needs is 0 or no gradient flows. output_grads: one per
  // output, null where no gradient arrived. Runs ops in the current mode (recording: create_graph).
  virtual std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                           std::span<const uint8_t> needs) = 0;
  // Like backward, for the last run through this node: it may release saved values (then sets
  // `released`). into: by input, an array that may become the gradient, or null.
  virtual std::vector<NDArrayRef> last_backward(std::span<const NDArrayRef> output_grads,
                                                std::span<const uint8_t> needs,
                                                std::span<const NDArrayRef> into) {
    (void)into;
    return backward(output_grads, needs);
  }
  // Returns the positions of the inputs in the order in which backward made their gradients, where
  // it makes them one after the other; empty: all at once. Call after backward.
  virtual std::vector<size_t> gradient_order() const { return {}; }
  // Frees values saved for backward; a later backward through this node is an error.
  virtual void release_saved() = 0;
  // Returns whether backward continues into the tape of another run instead of this node.
  virtual bool runs_again() const { return false; }
  // Returns outputs that were computed and recorded again.
  virtual NDArrays run_again() { return {}; }
  // Returns whether backward takes sparse output gradients; otherwise they are made dense.
  virtual bool takes_sparse() const { return false; }

  // Links inputs (arrays without history count as constants) and outputs.
  void connect(std::span<const NDArrayRef> node_inputs, std::span<const NDArrayRef> node_outputs);
  void connect(std::vector<ArrayInfoRef> links, std::span<const NDArrayRef> node_outputs);

  // Returns a number above those of all nodes made so far.
  static uint64_t next_sequence();
  uint64_t sequence() const { return sequence_; }
  const std::vector<ArrayInfoRef>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& output_specs() const { return output_specs_; }
  Device device() const { return device_; }
  bool released = false;

 private:
  uint64_t sequence_;                 // creation order: inputs always have smaller ones
  std::vector<ArrayInfoRef> inputs_;  // null: a constant
  std::vector<TensorSpec> output_specs_;
  Device device_;
};

// Returns whether a call on these inputs would be recorded.
bool needs_record(std::span<const NDArrayRef> inputs);

// stype: storage type of a gradient that is not given.
void mark_variable(const NDArrayRef& array, const NDArrayRef& grad, GradReq req,
                   StorageType stype = StorageType::kDefault);

// Returns the gradient array of a variable, made of zeros if needed; null for other arrays.
NDArrayRef gradient_of(const NDArray& array);

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool training = true;
  bool partial = false;  // gradients(): treat the variables as leaves
};
// Adds or writes gradients into the variables' grad arrays.
void backward(std::span<const NDArrayRef> heads, std::span<const NDArrayRef> head_grads,
              const BackwardOptions& options);
// Returns gradients of heads with respect to variables instead (zeros where unconnected).
std::vector<NDArrayRef> gradients(std::span<const NDArrayRef> heads,
                                  std::span<const NDArrayRef> head_grads,
                                  std::span<const NDArrayRef> variables,
                                  const BackwardOptions& options);

}  // namespace mxlite::autograd
