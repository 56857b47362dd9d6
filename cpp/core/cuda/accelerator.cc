#include "cpp/core/cuda/accelerator.h"

#include <algorithm>

#include "cpp/core/collective_stream.h"
#include "cpp/core/cuda/architectures.h"
#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/driver_problem.h"

namespace mxlite::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  MX_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

std::string architecture(int device) {
  return str(attribute(cudaDevAttrComputeCapabilityMajor, device), '.',
             attribute(cudaDevAttrComputeCapabilityMinor, device));
}

std::string name_of(int device) {
  cudaDeviceProp properties;
  MX_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

// Checks the device before the pool and the streams are created, so that an unusable device gets
// neither.
int checked(int device) {
  const DeviceGuard guard(device);
  MX_CHECK_KIND(runs_on_current_device(), ErrorKind::kDevice,
                architecture_problem(device, name_of(device), architecture(device),
                                     compiled_architectures()));
  MX_CHECK_KIND(attribute(cudaDevAttrMemoryPoolsSupported, device), ErrorKind::kDevice, "gpu(",
                device, "), an ", name_of(device), ", has no memory pools (its driver is too old, ",
                "or the GPU is shared by a virtual machine monitor)");
  return device;
}

}  // namespace

CudaAccelerator::State::State(int device)
    : pool(checked(device)),
      streams{CudaStream(device, pool.raw()), CudaStream(device, pool.raw()),
              CudaStream(device, pool.raw())},
      collectives(device, pool.raw()) {}

CudaAccelerator::CudaAccelerator(int count) {
  for (int i = 0; i < count; ++i) devices_.push_back(std::make_unique<LazyDevice>());
}

CudaAccelerator::State& CudaAccelerator::get(int device) const {
  LazyDevice& entry = *devices_.at(static_cast<size_t>(device));
  std::call_once(entry.once, [&] {
    entry.state = std::make_unique<State>(device);
    pinned_.use_device(device);
  });
  return *entry.state;
}

AcceleratorInfo CudaAccelerator::info(int device) const {
  return {name_of(device), architecture(device), attribute(cudaDevAttrMultiProcessorCount, device)};
}

CudaStream& CudaAccelerator::cuda_stream(int device, StreamKind kind) {
  State& state = get(device);
  return kind == kCollectiveStream ? state.collectives : state.streams[static_cast<size_t>(kind)];
}

Block CudaAccelerator::allocate(int device, size_t bytes, StreamKind first_user) {
  State& s = get(device);
  std::array<cudaStream_t, kNumStreamKinds> frees;
  std::transform(s.streams.begin(), s.streams.end(), frees.begin(),
                 [](const CudaStream& stream) { return stream.raw(); });
  return s.pool.allocate(bytes, frees[static_cast<size_t>(first_user)], frees);
}

void CudaAccelerator::free(int device, Block block, StreamKind stream) noexcept {
  State& s = get(device);
  s.pool.free(block, s.streams[static_cast<size_t>(stream)].raw());
}

void CudaAccelerator::release_cached(int device) {
  synchronize(device);  // memory that was freed in stream order enters the cache during this call
  get(device).pool.release_cached();
}

MemoryStats CudaAccelerator::stats(int device) const { return get(device).pool.stats(); }

DeviceMemory CudaAccelerator::memory(int device) {
  const DeviceGuard guard(device);
  DeviceMemory m;
  MX_CUDA(cudaMemGetInfo(&m.free, &m.total));
  return m;
}

void CudaAccelerator::synchronize(int device) {
  const DeviceGuard guard(device);
  MX_CUDA(cudaDeviceSynchronize());
}

}  // namespace mxlite::cuda
