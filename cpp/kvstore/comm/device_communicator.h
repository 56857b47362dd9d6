// Collectives on GPU memory between processes. Every process takes part with one GPU. The
// collectives use NCCL, which is part of the CUDA plug-in.
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

// A collective submits work to the communicator's stream and returns. Its inputs must already be
// computed. Its buffers may be reused after the work has finished (see when_done). All functions
// must be called on one thread. After a failure, every function throws the reason of the failure.
class DeviceCommunicator : public Communicator {
 public:
  virtual int device() const = 0;  // index of this process's GPU
  // Returns the collectives' stream. Copies and scratch memory on this stream are ordered with the
  // collectives.
  virtual Stream& stream() = 0;
  // Like scale_buffer, in the stream's order.
  virtual void scale(void* data, int64_t count, DType dtype, double factor) = 0;
  // Computes data = data op other in the stream's order. Combines float16 and bfloat16 in float32.
  virtual void combine(void* data, const void* other, int64_t count, DType dtype, ReduceOp op) = 0;
  // Fills bytes with zeros, in the stream's order.
  virtual void clear(void* data, size_t bytes) = 0;

  // Calls `done` on another thread once the GPU has done all work that was submitted so far. If the
  // communicator has failed meanwhile, `done` gets the error. `done` must not throw.
  using DoneFn = std::function<void(std::exception_ptr error)>;
  virtual void when_done(DoneFn done) = 0;
  // Returns whether submitted work is still in flight.
  virtual bool busy() = 0;
  // Throws if NCCL has found an error or if the oldest work takes longer than MXLITE_COMM_TIMEOUT.
  virtual void look() = 0;
};

// Describes how one process joins a communicator.
struct DeviceRank {
  int rank = 0, size = 1, device = 0;
  // The ranks of the members in the job, for error texts.
  std::span<const int> members;
  // Called while this process waits for other ranks. Throws if a rank is lost.
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
  virtual int version() = 0;  // 22809 means version 2.28.9
  // Returns an id of a GPU that is the same in all processes of its host.
  virtual std::string physical_id(int device) = 0;
  virtual UniqueId make_id() = 0;
  // Collective over the ranks that have the id. Throws after MXLITE_COMM_TIMEOUT.
  virtual std::unique_ptr<DeviceCommunicator> join(const UniqueId& id, const DeviceRank& me) = 0;
};

// The plug-in calls this function when it is loaded. The object must exist until the process ends.
void set_device_backend(DeviceBackend* backend);
// Returns null if the machine has no GPU or the plug-in has no NCCL.
DeviceBackend* device_backend();

// Returns whether NCCL transfers arrays of this device and dtype between processes. Arrays on the
// CPU and 16-bit integers are transferred through host memory. All other arrays are, too, if NCCL
// is missing or MXLITE_NCCL is 0. No other function decides this.
bool travels_through_nccl(Device device, DType dtype);

// Collective over `processes`. Returns null on every rank and sets `problem` to the reason if the
// ranks have different versions of NCCL, if two ranks use the same GPU, or if a rank cannot join.
// Throws if a rank is lost. me.rank and me.size refer to `processes`.
std::unique_ptr<DeviceCommunicator> make_device_communicator(Communicator& processes,
                                                             const DeviceRank& me,
                                                             std::string& problem);

}  // namespace mxlite
