// Memory that holds the arrays of operations. It is either host memory or the memory of one GPU.
#pragma once
#include "cpp/core/allocator.h"
#include "cpp/kvstore/comm/device_communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::jobs {

// Each function takes effect in the order of the collectives that use the memory.
class OperandMemory {
 public:
  virtual ~OperandMemory() = default;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* data, size_t bytes) = 0;
  // Multiplies values by a factor, like scale_buffer.
  virtual void scale(void* data, int64_t count, DType dtype, double factor) = 0;
  // Returns memory that is valid until the next call.
  virtual std::byte* buffer(size_t bytes) = 0;
  virtual NDArrayRef allocate(const TensorSpec& spec) = 0;
  virtual bool on_gpu() const = 0;
};

class HostMemory final : public OperandMemory {
 public:
  HostMemory() = default;
  ~HostMemory() override;
  HostMemory& operator=(HostMemory&&) = delete;  // neither copied nor moved

  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* data, size_t bytes) override;
  void scale(void* data, int64_t count, DType dtype, double factor) override;
  std::byte* buffer(size_t bytes) override;
  NDArrayRef allocate(const TensorSpec& spec) override;
  bool on_gpu() const override { return false; }

 private:
  Block buffer_;
};

// Submits all work to the stream of an NCCL communicator.
class GpuMemory final : public OperandMemory {
 public:
  explicit GpuMemory(DeviceCommunicator& group) : group_(group) {}

  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* data, size_t bytes) override { group_.clear(data, bytes); }
  void scale(void* data, int64_t count, DType dtype, double factor) override {
    group_.scale(data, count, dtype, factor);
  }
  std::byte* buffer(size_t bytes) override;
  NDArrayRef allocate(const TensorSpec& spec) override;
  bool on_gpu() const override { return true; }
  // Makes the group's stream wait for stream `kind`. Memory that has not been written was allocated
  // for that stream.
  void wait_for_allocations(StreamKind kind);

 private:
  DeviceCommunicator& group_;
};

}  // namespace mxlite::jobs
