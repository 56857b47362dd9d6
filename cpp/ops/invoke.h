// Runs an operator on arrays: checks and infers shapes on the caller's thread, then pushes one task
// to the engine. Does not depend on autograd, traces or Python.
#pragma once
#include <span>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

using NDArrays = SmallVector<NDArrayRef, 4>;

struct InvokeOptions {
  Device device;  // used when there are no inputs
  bool training = false;
  std::span<const NDArrayRef> out = {};  // arrays for the outputs (`out=`); empty: allocate
  engine::Origin origin = {};
};

// Returns all outputs, including hidden ones.
NDArrays invoke(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
                const InvokeOptions& options);

// Infers output specs; adds the op's name and the input shapes to errors.
Specs infer_outputs(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs);

// Returns how many random counters a call uses; 0 if it draws no numbers (Dropout in inference).
uint64_t count_random(const OpSchema& op, const void* params, std::span<const TensorSpec> outputs,
                      bool training);

// Copies values between any strides and devices, and converts the dtype. Writes to dst's memory.
void copy_to(const NDArrayRef& src, const NDArrayRef& dst);
NDArrayRef copy_to_device(const NDArrayRef& src, Device device);  // returns a new contiguous array
NDArrayRef contiguous(const NDArrayRef& array);
// Waits for an array and returns its values as a contiguous array in host memory.
NDArrayRef on_host(const NDArrayRef& array);

}  // namespace mxlite
