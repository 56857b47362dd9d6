// Finds the first operator that outputs NaN or clips an index (autograd.detect_anomaly). While the
// detection is on, blocks and executors run eagerly, and every call waits for its outputs and
// checks them.
#pragma once
#include <atomic>
#include <span>

#include "cpp/engine/task.h"
#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::autograd {

inline std::atomic<bool> anomaly_checks{false};

// Origin of a call. For calls inside a gradient rule, also contains the operator whose gradient the
// rule computes.
struct CallPlace {
  engine::Origin origin;
  const OpSchema* gradient_of = nullptr;
  engine::Origin forward;
};

// Throws an error that names `op` if an output contains NaN or if the call has clipped an index.
void check_anomaly(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                   std::span<const NDArrayRef> outputs, const CallPlace& place);

}  // namespace mxlite::autograd
