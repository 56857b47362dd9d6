#include "cpp/ndarray/storage.h"

#include "cpp/base/error.h"

namespace mxlite {

IntrusivePtr<Storage> Storage::allocate(Device device, size_t bytes) {
  MX_CHECK_KIND(device.type != DeviceType::kCUDA, ErrorKind::kDevice, device,
                " asked for, but this build has MXLITE_CUDA=OFF; see mx.runtime.Features()");
  return IntrusivePtr<Storage>(new Storage(device, cpu_allocator().allocate(bytes), nullptr));
}

IntrusivePtr<Storage> Storage::wrap(Device device, void* data, size_t bytes,
                                    std::function<void()> release) {
  return IntrusivePtr<Storage>(new Storage(device, {data, bytes}, std::move(release)));
}

Storage::~Storage() {
  if (release_)
    release_();
  else
    cpu_allocator().free(block_);
}

}  // namespace mxlite
