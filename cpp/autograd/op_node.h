// A recorded operator call. Backward runs the operator's gradient rule, and immediately runs each
// operator that the rule emits. With create_graph, these calls are recorded like all other calls.
#pragma once
#include "cpp/autograd/tape.h"

namespace mxlite::autograd {

class OpNode final : public TapeNode {
 public:
  OpNode(const OpSchema& op, ParamsRef params, bool training, std::span<const NDArrayRef> inputs,
         std::span<const NDArrayRef> outputs);

  const char* name() const override { return op_.name.c_str(); }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                   std::span<const uint8_t> needs) override;
  void release_saved() override;

  // Returns the node whose gradient rule this thread is running, or null.
  static const OpNode* in_backward();
  engine::Origin origin;  // the line of the call in the user's program

  const OpSchema& op() const { return op_; }
  const ParamsRef& params() const { return params_; }  // null after release_saved

 private:
  friend class EagerGradBuilder;
  static constexpr uint64_t kAnyVersion = ~uint64_t{0};
  struct Saved {
    NDArrayRef array;
    uint64_t version = 0;  // version of its storage at the time of recording
  };
  std::vector<NDArrayRef> zero_gradients(std::span<const uint8_t> needs) const;
  static Saved save(NDArrayRef array);
  const NDArrayRef& checked(const Saved& saved, const std::string& what) const;

  const OpSchema& op_;
  ParamsRef params_;
  bool training_;
  const OpSchema* gradient_of_;  // the operator in whose gradient rule this call was made, or null
  std::vector<Saved> saved_inputs_, saved_outputs_;
};

}  // namespace mxlite::autograd
