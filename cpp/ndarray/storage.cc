#include "cpp/ndarray/storage.h"

#include <atomic>
#include <cstddef>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/engine/freeing_stream.h"
#include "cpp/ndarray/memory_profile.h"

namespace mxlite {
namespace {

std::atomic<void (*)()> reclaimer{nullptr};

// Page-locked where there is a GPU, plain memory elsewhere.
Allocator& host_allocator(DeviceType type) {
  if (type == DeviceType::kPinned)
    if (Accelerator* a = accelerator()) return a->pinned();
  return cpu_allocator();
}

engine::WorkerKind worker_of(StreamKind kind) {
  return static_cast<engine::WorkerKind>(static_cast<int>(engine::WorkerKind::kCompute) +
                                         static_cast<int>(kind));
}

Block allocate_on_gpu(Device device, size_t bytes, StreamKind first_user) {
  MX_CHECK_KIND(!engine::in_forked_child(), ErrorKind::kDevice, device,
                " cannot be used in a forked process: CUDA does not survive fork; start workers ",
                "with multiprocessing_context='spawn'");
  Accelerator& gpu = require_accelerator("array", device.index);
  try {
    return gpu.allocate(device.index, bytes, first_user);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    // Tasks that wait to be issued hold memory that they will release. A task cannot wait for them.
    engine::Engine::get().drain();
    if (auto* reclaim = reclaimer.load()) reclaim();
  }
  return gpu.allocate(device.index, bytes, first_user);
}

}  // namespace

void set_memory_reclaimer(void (*reclaim)()) { reclaimer = reclaim; }

IntrusivePtr<Storage> Storage::allocate(Device device, size_t bytes, StreamKind first_user) {
  if (device.type != DeviceType::kCUDA) {
    IntrusivePtr<Storage> storage(
        new Storage(device, host_allocator(device.type).allocate(bytes), nullptr));
    attribute_memory(device, storage->data(), bytes);
    return storage;
  }
  const Block block = allocate_on_gpu(device, bytes, first_user);
  IntrusivePtr<Storage> storage(new Storage(device, block, nullptr));
  attribute_memory(device, block.data, bytes);
  engine::Engine::get().allocated_on(storage->var_, worker_of(first_user), device.index);
  return storage;
}

IntrusivePtr<Storage> Storage::wrap(Device device, void* data, size_t bytes,
                                    std::function<void()> release) {
  return IntrusivePtr<Storage>(new Storage(device, {data, bytes}, std::move(release)));
}

IntrusivePtr<Storage> Storage::part_of(const IntrusivePtr<Storage>& whole, size_t offset,
                                       size_t bytes) {
  MX_ASSERT(offset + bytes <= whole->bytes());
  const Block block{static_cast<std::byte*>(whole->data()) + offset, bytes};
  IntrusivePtr<Storage> part(new Storage(whole->device(), block, nullptr));
  part->whole_ = whole;
  return part;
}

Storage::~Storage() {
  if (whole_) return;
  if (!release_) forget_memory(block_.data);
  if (release_)
    release_();
  else if (device_.type != DeviceType::kCUDA)
    host_allocator(device_.type).free(block_);
  else if (!engine::in_forked_child())  // a child leaves the parent's memory alone
    accelerator()->free(device_.index, block_, engine::freeing_stream(var_));
}

}  // namespace mxlite
