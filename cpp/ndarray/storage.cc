#include "cpp/ndarray/storage.h"

#include <atomic>
#include <cstddef>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/engine/freeing_stream.h"
#include "cpp/ndarray/memory_profile.h"

namespace mxlite {
namespace {

constexpr size_t kMoreThanAnyMachine = size_t{1} << 42;  // in bytes; larger than the memory of any
                                                         // machine

std::atomic<void (*)()> reclaimer{nullptr};

// Pinned memory needs a GPU. Without a GPU, kPinned gets plain host memory.
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
    // Waits for pending tasks, because they release memory when they run. Does nothing within a
    // task.
    engine::Engine::get().drain();
    if (auto* reclaim = reclaimer.load()) reclaim();
  }
  return gpu.allocate(device.index, bytes, first_user);
}

}  // namespace

void set_memory_reclaimer(void (*reclaim)()) { reclaimer = reclaim; }

IntrusivePtr<Storage> Storage::allocate(Device device, size_t bytes, StreamKind first_user) {
  const bool on_gpu = device.type == DeviceType::kCUDA;
  const Block block = on_gpu ? allocate_on_gpu(device, bytes, first_user) : Block{nullptr, bytes};
  IntrusivePtr<Storage> storage(new Storage(device, block, nullptr));
  attribute_memory(device, storage.get(), bytes);
  if (!on_gpu) {
    if (bytes >= kMoreThanAnyMachine)
      storage->data();  // throws the error in the caller instead of
                        // a task
    return storage;
  }
  count_memory(storage.get());
  engine::Engine::get().allocated_on(storage->var_, worker_of(first_user), device.index);
  return storage;
}

IntrusivePtr<Storage> Storage::provided(Device device, size_t bytes,
                                        std::function<IntrusivePtr<Storage>()> provide) {
  IntrusivePtr<Storage> storage(new Storage(device, {nullptr, bytes}, nullptr));
  storage->provide_ = std::move(provide);
  return storage;
}

void* Storage::obtain() const {
  if (provide_) {
    whole_ = provide_();
    provide_ = nullptr;
    data_.store(whole_->data(), std::memory_order_release);
    return whole_->data();
  }
  // Without memory at this point, such a storage has 0 bytes.
  if (whole_ || release_ || device_.type == DeviceType::kCUDA) return nullptr;
  Allocator& allocator = host_allocator(device_.type);
  const Block block = allocator.allocate(bytes_);
  void* first = nullptr;
  // Two threads may allocate at the same time if both read an array that was never written.
  if (!data_.compare_exchange_strong(first, block.data, std::memory_order_acq_rel)) {
    allocator.free(block);
    return first;
  }
  is_new_.store(!engine::in_task(), std::memory_order_relaxed);
  count_memory(this);
  return block.data;
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
  const Block block{data_.load(std::memory_order_relaxed), bytes_};
  if (!release_) forget_memory(this);
  if (release_)
    release_();
  else if (whole_ || !block.data)
    return;
  else if (device_.type != DeviceType::kCUDA)
    host_allocator(device_.type).free(block);
  else if (!engine::in_forked_child())  // a forked child must not free the parent's GPU memory
    accelerator()->free(device_.index, block, engine::freeing_stream(var_));
}

}  // namespace mxlite
