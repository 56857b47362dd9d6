#include "cpp/core/cuda/pinned.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>

#include "cpp/core/cuda/check.h"

namespace mxlite::cuda {
namespace {

constexpr size_t kSmallest = 4096;

size_t size_class(size_t bytes) { return std::bit_ceil(std::max(bytes, kSmallest)); }

void* lock_pages(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaSuccess) return data;
  if (status != cudaErrorMemoryAllocation) throw_cuda_error(status, "cudaHostAlloc");
  cudaGetLastError();
  return nullptr;
}

}  // namespace

void PinnedAllocator::use_device(int device) {
  const std::lock_guard lock(mutex_);
  if (!has_device_) device_ = device;
  has_device_ = true;
}

Block PinnedAllocator::allocate(size_t asked) {
  const size_t bytes = size_class(asked);
  std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  void* data = nullptr;
  if (auto it = cached_.find(bytes); it != cached_.end() && !it->second.empty()) {
    data = it->second.back();
    it->second.pop_back();
    stats_.cached -= bytes;
  } else {
    data = lock_pages(bytes);
  }
  if (!data) {
    for (auto& [size, blocks] : cached_)
      for (void* block : blocks) MX_CUDA(cudaFreeHost(block));
    cached_.clear();
    stats_.cached = 0;
    data = lock_pages(bytes);
  }
  MX_CHECK_KIND(data, ErrorKind::kOutOfMemory, "out of page-locked memory: ", asked,
                " bytes requested, ", stats_.in_use, " in use, ", stats_.cached,
                " cached, limit of the machine");
  stats_.in_use += bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return {data, asked};
}

void PinnedAllocator::free(Block block) noexcept {
  const size_t bytes = size_class(block.bytes);
  std::lock_guard lock(mutex_);
  cached_[bytes].push_back(block.data);
  stats_.in_use -= bytes;
  stats_.cached += bytes;
}

void PinnedAllocator::release_cached() {
  std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  for (auto& [size, blocks] : cached_)
    for (void* block : blocks) MX_CUDA_NOEXCEPT(cudaFreeHost(block));
  cached_.clear();
  stats_.cached = 0;
}

MemoryStats PinnedAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace mxlite::cuda
