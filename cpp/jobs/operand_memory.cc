#include "cpp/jobs/operand_memory.h"

#include <cstring>

#include "cpp/core/accelerator.h"
#include "cpp/kvstore/comm/reduce.h"

namespace mxlite::jobs {

HostMemory::~HostMemory() {
  if (buffer_.data) cpu_allocator().free(buffer_);
}

void HostMemory::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void HostMemory::clear(void* data, size_t bytes) {
  if (bytes > 0) std::memset(data, 0, bytes);
}

void HostMemory::scale(void* data, int64_t count, DType dtype, double factor) {
  scale_buffer(data, count, dtype, factor);
}

std::byte* HostMemory::buffer(size_t bytes) {
  if (buffer_.bytes < bytes) {
    if (buffer_.data) cpu_allocator().free(buffer_);
    buffer_ = {};
    buffer_ = cpu_allocator().allocate(bytes);
  }
  return static_cast<std::byte*>(buffer_.data);
}

NDArrayRef HostMemory::allocate(const TensorSpec& spec) { return NDArray::empty(spec, Device{}); }

void GpuMemory::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) group_.stream().copy(to, from, bytes);
}

std::byte* GpuMemory::buffer(size_t bytes) {
  return static_cast<std::byte*>(group_.stream().scratch(bytes));
}

NDArrayRef GpuMemory::allocate(const TensorSpec& spec) {
  NDArrayRef array =
      NDArray::empty(spec, {DeviceType::kCUDA, group_.device()}, StreamKind::kCopyIn);
  wait_for_allocations(StreamKind::kCopyIn);
  return array;
}

void GpuMemory::wait_for_allocations(StreamKind kind) {
  Stream& stream = group_.stream();
  stream.enter();
  stream.wait_for(accelerator()->stream(group_.device(), kind));
}

}  // namespace mxlite::jobs
