// The tape of eager autograd: one node per recorded call, linked from the arrays it produced.
#pragma once
#include <vector>

#include "cpp/ndarray/sparse.h"
#include "cpp/ops/invoke.h"

namespace mxlite::autograd {

class TapeNode;
using TapeNodeRef = IntrusivePtr<TapeNode>;

enum class GradReq : uint8_t { kNull, kWrite, kAdd };

// What an array knows of autograd: the node that produced it, or (a variable) its gradient array.
class ArrayInfo final : public AutogradInfo {
 public:
  ArrayInfo(TapeNodeRef n, int i) : node(std::move(n)), output(i) {}
  ArrayInfo(NDArrayRef g, GradReq r, StorageType s = StorageType::kDefault, Device d = {})
      : grad(std::move(g)), req(r), stype(s), device(d) {}

  TapeNodeRef node;  // null: a variable
  int output = 0;
  NDArrayRef grad;  // of a variable: null until backward or the user asks for it (gradient_of)
  GradReq req = GradReq::kNull;
  StorageType stype = StorageType::kDefault;  // of the gradient
  Device device;                              // of a variable: where backward puts the gradient
  bool fresh = false;  // backward stored a gradient since the last step of a trainer
  // Versions of a variable's memory that only set_data made one from another; none: from > to.
  uint64_t renewed_from = 1, renewed_to = 0;
  bool is_note = false;  // of a constant: only the versions count
};
using ArrayInfoRef = IntrusivePtr<ArrayInfo>;

inline ArrayInfo* info_of(const NDArray& a) { return static_cast<ArrayInfo*>(a.autograd().get()); }

// Note [Renewed state]: layers (of spectral normalization) keep a state in a parameter and write
// the next one with set_data before backward has read this one. As in 1.x backward takes the new
// value. All other writes between recording and backward are errors.
inline uint64_t version_of(const NDArray& a) { return a.storage()->var().version(); }
// The array had the version `before` and was then written by set_data.
void note_renewal(NDArray& a, uint64_t before);
// May backward read the array, which was recorded with this version?
bool is_readable(const NDArray& a, uint64_t recorded);

class TapeNode : public RefCounted {
 public:
  TapeNode();
  ~TapeNode() override;

  virtual const char* name() const = 0;
  // Gradients of the inputs, null where needs is 0 or nothing flows. output_grads has an entry per
  // output, null where no gradient arrived. Runs ops in the current mode (recording: create_graph).
  virtual std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                           std::span<const uint8_t> needs) = 0;
  // The same when nothing runs through this node again: it may give up what it saved (`released` is
  // true then). into: by input, an array that may become the gradient, or null.
  virtual std::vector<NDArrayRef> last_backward(std::span<const NDArrayRef> output_grads,
                                                std::span<const uint8_t> needs,
                                                std::span<const NDArrayRef> into) {
    (void)into;
    return backward(output_grads, needs);
  }
  // Frees what was saved for backward; a later backward through this node is an error.
  virtual void release_saved() = 0;
  // Does backward take sparse output gradients? Otherwise they are made dense before.
  virtual bool takes_sparse() const { return false; }

  // Links inputs (arrays without history count as constants) and outputs.
  void connect(std::span<const NDArrayRef> node_inputs, std::span<const NDArrayRef> node_outputs);

  uint64_t sequence() const { return sequence_; }
  const std::vector<ArrayInfoRef>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& output_specs() const { return output_specs_; }
  Device device() const { return device_; }
  bool released = false;

 private:
  uint64_t sequence_;                 // of creation: inputs of a node always have smaller ones
  std::vector<ArrayInfoRef> inputs_;  // null: a constant
  std::vector<TensorSpec> output_specs_;
  Device device_;
};

// Would a call on these inputs be recorded?
bool needs_record(std::span<const NDArrayRef> inputs);

// stype: of a gradient that is not given.
void mark_variable(const NDArrayRef& array, const NDArrayRef& grad, GradReq req,
                   StorageType stype = StorageType::kDefault);

// The gradient array of a variable, made of zeros if there is none yet; null for other arrays.
NDArrayRef gradient_of(const NDArray& array);

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool training = true;
  bool partial = false;  // gradients(): stop at the variables, as if they had no history
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
