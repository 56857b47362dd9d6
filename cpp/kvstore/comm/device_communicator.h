// Collectives between processes on the memory of GPUs: every process takes part with one GPU. NCCL
// does the work; it is part of the CUDA plug-in.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/error.h"
#include "cpp/core/stream.h"
#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// A collective submits work to the communicator's stream and returns. Its inputs must be computed;
// its buffers may be used again once the work is done (when_done). All functions must be called on
// one thread. After a failure every function throws its reason.
class DeviceCommunicator : public Communicator {
 public:
  virtual int device() const = 0;  // index of this process's GPU
  // Carries copies, and gives scratch memory, in order with the collectives.
  virtual Stream& stream() = 0;
  // Like scale_buffer, in the stream's order.
  virtual void scale(void* data, int64_t count, DType dtype, double factor) = 0;
  // data = data op other, in the stream's order; halves in float32.
  virtual void combine(void* data, const void* other, int64_t count, DType dtype, ReduceOp op) = 0;
  // Fills bytes with zeros, in the stream's order.
  virtual void clear(void* data, size_t bytes) = 0;

  // Calls `done` on another thread once the GPU has done all work that was submitted so far; with
  // an error if the communicator has failed meanwhile. `done` must not throw.
  using DoneFn = std::function<void(std::exception_ptr error)>;
  virtual void when_done(DoneFn done) = 0;
  // Returns whether work was submitted that is not done.
  virtual bool busy() = 0;
  // Throws if NCCL has found an error, or if the oldest work has not been done for
  // MXLITE_COMM_TIMEOUT.
  virtual void look() = 0;
};

// Describes how one process joins a communicator.
struct DeviceRank {
  int rank = 0, size = 1, device = 0;
  // The ranks of the members in the job, for the text of errors.
  std::span<const int> members;
  // Called while this process waits for the others; throws if one of them is lost.
  std::function<void()> check_others;
};

// Implemented by the CUDA plug-in.
class DeviceBackend {
 public:
  static constexpr size_t kIdBytes = 128;
  struct UniqueId {
    char bytes[kIdBytes] = {};
  };

  virtual ~DeviceBackend() = default;
  virtual int version() = 0;  // 22809 is 2.28.9
  // Identifies a GPU among those of its host, whatever number it has in this process.
  virtual std::string physical_id(int device) = 0;
  virtual UniqueId make_id() = 0;
  // Collective over the ranks that have the id. Throws after MXLITE_COMM_TIMEOUT.
  virtual std::unique_ptr<DeviceCommunicator> join(const UniqueId& id, const DeviceRank& me) = 0;
};

// Called by the plug-in when it is loaded; the object must live until the process ends.
void set_device_backend(DeviceBackend* backend);
// Returns null without a GPU or without NCCL.
DeviceBackend* device_backend();

// Returns whether arrays on this device travel between processes through NCCL. Others travel
// through host memory: those of the CPU, those of 16-bit integers, and all if there is no NCCL or
// MXLITE_NCCL is 0. This is the only place that decides it.
bool travels_through_nccl(Device device, DType dtype);

// Collective over `processes`. Returns null, and why in `problem`, on every rank if the ranks have
// different versions of NCCL, if two of them use the same GPU, or if one cannot join. Throws if a
// rank is lost. me.rank and me.size are those of `processes`.
std::unique_ptr<DeviceCommunicator> make_device_communicator(Communicator& processes,
                                                             const DeviceRank& me,
                                                             std::string& problem);

}  // namespace mxlite
