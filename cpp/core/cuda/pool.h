// Device memory of one GPU: a memory pool of the driver, whose blocks are reused in stream order.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "cpp/core/allocator.h"

namespace mxlite::cuda {

class MemoryPool {
 public:
  explicit MemoryPool(int device);
  ~MemoryPool();
  MemoryPool& operator=(MemoryPool&&) = delete;  // neither copied nor moved

  // Allocates memory for work submitted to `stream` from now on. If memory is short, drops the
  // cache, waits for pending frees in the streams `frees`, and retries once.
  Block allocate(size_t bytes, cudaStream_t stream, std::span<const cudaStream_t> frees);
  // Frees memory. Work that follows the work already submitted to `stream` may reuse it.
  void free(Block block, cudaStream_t stream) noexcept;
  void release_cached();
  MemoryStats stats() const;
  cudaMemPool_t raw() const { return pool_; }

 private:
  size_t attribute(cudaMemPoolAttr which) const;
  [[noreturn]] void throw_out_of_memory(size_t asked) const;

  const int device_;
  const size_t limit_;  // 0 means all memory of the device
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace mxlite::cuda
