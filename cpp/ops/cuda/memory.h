// Copies and clears device memory, and divides the scratch block of a kernel call.
#pragma once
#include "cpp/ops/cuda/context.h"

namespace mxlite::cuda {

inline void copy_bytes(KernelContext& ctx, void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from)
    MX_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream(ctx)));
}
inline void zero_bytes(KernelContext& ctx, void* to, size_t bytes) {
  if (bytes > 0) MX_CUDA(cudaMemsetAsync(to, 0, bytes, stream(ctx)));
}

// Divides one scratch block into aligned parts: call add() for all parts, get the block, then call
// place().
class ScratchPlan {
 public:
  size_t add(size_t bytes) {
    const size_t at = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};
template <class T>
T* part(void* block, size_t at) {
  return reinterpret_cast<T*>(static_cast<char*>(block) + at);
}

}  // namespace mxlite::cuda
