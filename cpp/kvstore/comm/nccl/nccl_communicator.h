// The NCCL backend of communicators between processes.
#pragma once
#include <nccl.h>

#include <memory>
#include <string>

#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite::nccl {

// Functions of the CUDA runtime that communicators use. Tests replace the implementation.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual std::string physical_id(int device) = 0;
  virtual std::unique_ptr<Stream> make_stream(int device) = 0;
  virtual cudaStream_t raw(Stream& stream) = 0;
  // Makes the GPU the current device of the calling thread.
  virtual void use(int device) = 0;
  virtual void scale(Stream& stream, void* data, int64_t count, DType dtype, double factor) = 0;
  virtual void combine(Stream& stream, void* data, const void* other, int64_t count, DType dtype,
                       ReduceOp op) = 0;
  virtual void clear(Stream& stream, void* data, size_t bytes) = 0;
};
// Returns the runtime of the CUDA library.
Runtime& cuda_runtime();

// Both objects must exist until the process ends.
std::unique_ptr<DeviceBackend> make_nccl_backend(Runtime& runtime);

}  // namespace mxlite::nccl
