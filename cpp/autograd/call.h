// Calls an operator on arrays: adds a node to the trace, or runs the operator and records it.
#pragma once
#include "cpp/ops/invoke.h"

namespace mxlite::autograd {

// Returns all outputs, including hidden outputs. Ignores options.training, because the thread's
// mode applies.
NDArrays call(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
              InvokeOptions options = {});

// Returns the inputs in the dtype that numpy mode prescribes for the call. Returns no arrays if all
// inputs already have this dtype or if no input is a numpy-mode array.
NDArrays promoted_inputs(const OpSchema& op, const void* params,
                         std::span<const NDArrayRef> inputs);

// Finds the operator by its name, calls it and returns its first output.
NDArrayRef call_op(const char* op, std::initializer_list<NDArrayRef> inputs, Attrs attrs = {},
                   Device device = {}, std::span<const NDArrayRef> out = {});

// Throws an error, after which the block runs operator by operator, if a scope inside the traced
// forward has changed the training mode. A graph has one training mode.
void check_traced_training(const std::string& op);

// Returns outputs of the current trace, without gradients if a scope inside the traced forward has
// stopped the recording (autograd.pause).
NDArrays without_gradient_if_paused(NDArrays outputs);

// Records `view` as the result of op(source) without running the operator, if such a call would be
// recorded.
void record_view(const OpSchema& op, const ParamsRef& params, const NDArrayRef& source,
                 const NDArrayRef& view);

// Observes every operator that a thread runs on arrays with data.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void called(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                      std::span<const NDArrayRef> outputs) = 0;
};
// Sets this thread's observer while the object exists. A null pointer removes the observer.
class ObserverScope {
 public:
  explicit ObserverScope(CallObserver* observer);
  ~ObserverScope();
  ObserverScope& operator=(ObserverScope&&) = delete;  // neither copied nor moved

 private:
  CallObserver* outer_;
};

// Throws if the array is part of a recorded computation and recording is on. Such an array must not
// be written in place.
void check_writable(const char* what, const NDArrayRef& array);

}  // namespace mxlite::autograd
