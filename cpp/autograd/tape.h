// The tape of eager autograd. It has one node per recorded call, and arrays refer to the node that
// produced them.
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

  TapeNodeRef node;  // null for a variable
  int output = 0;
  NDArrayRef grad;  // null until backward or gradient_of creates it
  GradReq req = GradReq::kNull;
  StorageType stype = StorageType::kDefault;  // storage type of the gradient
  Device device;                              // device of a variable's gradient
  bool fresh = false;  // whether backward has stored a gradient since the last trainer step
};
using ArrayInfoRef = IntrusivePtr<ArrayInfo>;

inline ArrayInfo* info_of(const NDArray& a) { return static_cast<ArrayInfo*>(a.autograd().get()); }

// Returns a number that changes at every write to the array's memory.
inline uint64_t version_of(const NDArray& a) { return a.storage()->var().version(); }

class TapeNode : public RefCounted {
 public:
  TapeNode();
  ~TapeNode() override;

  virtual const char* name() const = 0;
  // Returns the gradients of the inputs. A gradient is null if `needs` is 0 or if no gradient
  // flows. output_grads has an element for each output, which is null if no gradient arrived.
  // Operators run in the current mode; with create_graph, they are recorded.
  virtual std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                           std::span<const uint8_t> needs) = 0;
  // Like backward, but for the last call on this node. May release saved values; it then sets
  // `released`. `into` has an entry for each input: an array to which the gradient may be written,
  // or null.
  virtual std::vector<NDArrayRef> last_backward(std::span<const NDArrayRef> output_grads,
                                                std::span<const uint8_t> needs,
                                                std::span<const NDArrayRef> into) {
    (void)into;
    return backward(output_grads, needs);
  }
  // Returns the inputs in the order in which backward has computed their gradients, or an empty
  // list if it computes all of them in one call. Call after backward.
  virtual std::vector<size_t> gradient_order() const { return {}; }
  // Frees values saved for backward. A later backward through this node throws an error.
  virtual void release_saved() = 0;
  // Returns whether this node is a checkpoint. For checkpoints, backward calls run_again instead of
  // `backward`.
  virtual bool runs_again() const { return false; }
  // Computes and records the outputs again, and returns them.
  virtual NDArrays run_again() { return {}; }
  // Returns whether backward accepts sparse output gradients. Otherwise the caller makes them
  // dense.
  virtual bool takes_sparse() const { return false; }

  // Links inputs and outputs to this node. Arrays without history count as constants.
  void connect(std::span<const NDArrayRef> node_inputs, std::span<const NDArrayRef> node_outputs);
  void connect(std::vector<ArrayInfoRef> links, std::span<const NDArrayRef> node_outputs);

  // Returns a number above the sequence numbers of all existing nodes.
  static uint64_t next_sequence();
  uint64_t sequence() const { return sequence_; }
  const std::vector<ArrayInfoRef>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& output_specs() const { return output_specs_; }
  Device device() const { return device_; }
  bool released = false;

 private:
  uint64_t sequence_;                 // creation order; above the numbers of the nodes that
                                      // computed its inputs
  std::vector<ArrayInfoRef> inputs_;  // null for a constant
  std::vector<TensorSpec> output_specs_;
  Device device_;
};

// Returns whether a call on these inputs would be recorded.
bool needs_record(std::span<const NDArrayRef> inputs);

// Makes the array a variable. If `grad` is null, `stype` is the storage type of the gradient that
// is created later.
void mark_variable(const NDArrayRef& array, const NDArrayRef& grad, GradReq req,
                   StorageType stype = StorageType::kDefault);

// Returns the gradient array of a variable, creating it with zeros if necessary. Returns null for
// other arrays.
NDArrayRef gradient_of(const NDArray& array);

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool training = true;
  bool partial = false;  // set by gradients(): treats the variables as leaves
};
// Writes or adds gradients to the gradient arrays of the variables.
void backward(std::span<const NDArrayRef> heads, std::span<const NDArrayRef> head_grads,
              const BackwardOptions& options);
// Returns the gradients of heads with respect to `variables` instead of storing them. A gradient is
// zero if the heads do not depend on the variable.
std::vector<NDArrayRef> gradients(std::span<const NDArrayRef> heads,
                                  std::span<const NDArrayRef> head_grads,
                                  std::span<const NDArrayRef> variables,
                                  const BackwardOptions& options);

}  // namespace mxlite::autograd
