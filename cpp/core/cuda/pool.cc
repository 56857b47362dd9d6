#include "cpp/core/cuda/pool.h"

#include <algorithm>
#include <cstdint>

#include "cpp/base/env.h"
#include "cpp/core/cuda/check.h"

namespace mxlite::cuda {
namespace {

// Enables access from all devices that support peer access to this device, so that copies need no
// staging buffer.
void allow_peers(cudaMemPool_t pool, int device) {
  int count = 0;
  MX_CUDA(cudaGetDeviceCount(&count));
  for (int peer = 0; peer < count; ++peer) {
    int reachable = 0;
    if (peer != device) MX_CUDA(cudaDeviceCanAccessPeer(&reachable, peer, device));
    if (!reachable) continue;
    cudaMemAccessDesc access{};
    access.location = {cudaMemLocationTypeDevice, {peer}};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    MX_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  }
}

}  // namespace

MemoryPool::MemoryPool(int device)
    : device_(device), limit_(static_cast<size_t>(env_int("MXLITE_GPU_MEMORY_LIMIT", 0))) {
  const DeviceGuard guard(device_);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {device}};
  MX_CUDA(cudaMemPoolCreate(&pool_, &properties));
  uint64_t keep = UINT64_MAX;  // otherwise, synchronizing would return memory to the driver
  MX_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  // Disables the reuse of memory for which one stream must wait for another stream, because such
  // waits keep copies from overlapping with kernels.
  int no = 0;
  MX_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &no));
  allow_peers(pool_, device);
}

MemoryPool::~MemoryPool() {
  const DeviceGuard guard(device_, std::nothrow);
  MX_CUDA_NOEXCEPT(cudaMemPoolDestroy(pool_));
}

Block MemoryPool::allocate(size_t asked, cudaStream_t stream, std::span<const cudaStream_t> frees) {
  const size_t bytes = std::max<size_t>(asked, 1);
  const DeviceGuard guard(device_);  // any thread may allocate, so the device must be set
  const auto fits = [&] {
    return limit_ == 0 || attribute(cudaMemPoolAttrUsedMemCurrent) + bytes <= limit_;
  };
  void* data = nullptr;
  for (const bool last_try : {false, true}) {
    if (fits()) {
      const cudaError_t status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream);
      if (status == cudaSuccess) return {data, asked};
      cudaGetLastError();
      if (status != cudaErrorMemoryAllocation) throw_cuda_error(status, "cudaMallocFromPoolAsync");
    }
    if (last_try) break;
    for (const cudaStream_t one : frees) MX_CUDA(cudaStreamSynchronize(one));
    release_cached();
  }
  throw_out_of_memory(asked);
}

void MemoryPool::free(Block block, cudaStream_t stream) noexcept {
  const DeviceGuard guard(device_, std::nothrow);
  MX_CUDA_NOEXCEPT(cudaFreeAsync(block.data, stream));
}

void MemoryPool::release_cached() {
  const DeviceGuard guard(device_);
  MX_CUDA(cudaMemPoolTrimTo(pool_, 0));
}

size_t MemoryPool::attribute(cudaMemPoolAttr which) const {
  const DeviceGuard guard(device_);
  uint64_t value = 0;
  MX_CUDA(cudaMemPoolGetAttribute(pool_, which, &value));
  return value;
}

MemoryStats MemoryPool::stats() const {
  MemoryStats s;
  s.in_use = attribute(cudaMemPoolAttrUsedMemCurrent);
  s.cached = attribute(cudaMemPoolAttrReservedMemCurrent) - s.in_use;
  s.peak = attribute(cudaMemPoolAttrUsedMemHigh);
  s.limit = limit_;
  return s;
}

void MemoryPool::throw_out_of_memory(size_t asked) const {
  const MemoryStats s = stats();
  size_t free = 0, total = 0;
  const DeviceGuard guard(device_);
  MX_CUDA(cudaMemGetInfo(&free, &total));
  fail(ErrorKind::kOutOfMemory, "out of memory on gpu(", device_, "): ", asked,
       " bytes requested, ", s.in_use, " in use, ", s.cached, " cached, limit ",
       limit_ ? limit_ : total, ", ", free, " free on the device");
}

}  // namespace mxlite::cuda
