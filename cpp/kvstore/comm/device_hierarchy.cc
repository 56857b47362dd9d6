#include "cpp/kvstore/comm/device_hierarchy.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);

size_t sum_of(std::span<const size_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), size_t{0});
}

class HierarchicalDeviceCommunicator final : public DeviceCommunicator {
 public:
  explicit HierarchicalDeviceCommunicator(DeviceHierarchy h)
      : h_(std::move(h)), backend_(str("nccl+", h_.all->backend())) {}

  int rank() const override { return h_.all->rank(); }
  int size() const override { return h_.all->size(); }
  const char* backend() const override { return backend_.c_str(); }
  int device() const override { return h_.gpus->device(); }
  Stream& stream() override { return h_.gpus->stream(); }
  void describe(std::string what) override {
    h_.gpus->describe(what);
    if (h_.cross) h_.cross->describe(what);
    h_.all->describe(std::move(what));
  }
  void scale(void* data, int64_t count, DType dtype, double factor) override {
    h_.gpus->scale(data, count, dtype, factor);
  }
  void combine(void* data, const void* other, int64_t count, DType dtype, ReduceOp op) override {
    h_.gpus->combine(data, other, count, dtype, op);
  }
  void clear(void* data, size_t bytes) override { h_.gpus->clear(data, bytes); }
  void when_done(DoneFn done) override { h_.gpus->when_done(std::move(done)); }
  bool busy() override { return h_.gpus->busy(); }
  void look() override { h_.gpus->look(); }
  void fail_all(const char* reason) noexcept override {
    h_.gpus->fail_all(reason);
    if (h_.cross) h_.cross->fail_all(reason);
    h_.all->fail_all(reason);
  }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    const size_t width = dtype_size(dtype);
    if (!h_.even) {
      h_.gpus->all_reduce(input, output, count, dtype, op);
      if (h_.cross) reduce_between_hosts(output, count, dtype, op);
      return h_.gpus->broadcast(output, static_cast<size_t>(count) * width, 0);
    }
    const int64_t ranks = h_.gpus->size(), part = (count + ranks - 1) / ranks;
    std::vector<int64_t> counts;
    std::vector<size_t> bytes;
    for (int64_t r = 0; r < ranks; ++r) {
      counts.push_back(std::min(count, part * (r + 1)) - std::min(count, part * r));
      bytes.push_back(static_cast<size_t>(counts.back()) * width);
    }
    const int64_t mine = h_.gpus->rank();
    auto* const place =
        static_cast<std::byte*>(output) + static_cast<size_t>(std::min(count, part * mine)) * width;
    h_.gpus->reduce_scatter(input, place, counts, dtype, op);
    reduce_between_hosts(place, counts[static_cast<size_t>(mine)], dtype, op);
    h_.gpus->all_gather(place, output, bytes);
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    const size_t width = dtype_size(dtype);
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const auto own = static_cast<size_t>(counts[static_cast<size_t>(rank())]);
    staged(
        input, static_cast<size_t>(total) * width, output, own * width,
        [&](std::byte* in, std::byte* out) { h_.all->reduce_scatter(in, out, counts, dtype, op); });
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    staged(input, bytes[static_cast<size_t>(rank())], output, sum_of(bytes),
           [&](std::byte* in, std::byte* out) { h_.all->all_gather(in, out, bytes); });
  }
  void broadcast(void* data, size_t bytes, int root) override {
    MX_CHECK(root >= 0 && root < size(), "broadcast: root must be a rank below ", size(), ", got ",
             root);
    staged(data, rank() == root ? bytes : 0, data, rank() == root ? 0 : bytes,
           [&](std::byte* in, std::byte* out) {
             h_.all->broadcast(rank() == root ? in : out, bytes, root);
           });
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    staged(input, sum_of(send), output, sum_of(receive),
           [&](std::byte* in, std::byte* out) { h_.all->all_to_all(in, send, out, receive); });
  }
  void barrier() override {
    wait_for_gpu();
    h_.all->barrier();
  }
  std::unique_ptr<Communicator> split(int, int) override {
    // Jobs do not use split. Instead, they create the GPU communicator of a process set from the
    // processes of the set.
    fail(ErrorKind::kNotSupported, backend_,
         ": split must not be called for a communicator of GPUs");
  }

 private:
  // Replaces the data on the GPU by its reduction over the hosts.
  void reduce_between_hosts(void* data, int64_t count, DType dtype, ReduceOp op) {
    const size_t bytes = static_cast<size_t>(count) * dtype_size(dtype);
    if (bytes == 0) return;
    if (h_.direct) return reduce_on_gpus(data, count, dtype, op);
    staged(data, bytes, data, bytes,
           [&](std::byte* in, std::byte* out) { h_.cross->all_reduce(in, out, count, dtype, op); });
  }

  // Reduces over the hosts without host memory. Each host gets its share of the data from all
  // hosts, and its GPU reduces the received data in the order of hosts. Then all hosts get the
  // result. Uses only all_to_all, because Open MPI lacks GPU support in non-blocking reductions.
  void reduce_on_gpus(void* data, int64_t count, DType dtype, ReduceOp op) {
    const size_t width = dtype_size(dtype);
    const int64_t hosts = h_.cross->size(), share = (count + hosts - 1) / hosts;
    std::vector<size_t> shares;
    for (int64_t h = 0; h < hosts; ++h)
      shares.push_back(
          static_cast<size_t>(std::min(count, share * (h + 1)) - std::min(count, share * h)) *
          width);
    const size_t mine = shares[static_cast<size_t>(h_.cross->rank())];
    const std::vector<size_t> each(shares.size(), mine);
    // The data may be scratch memory of the stream, so the copies use separate memory.
    std::byte* const copies = memory_on(*h_.direct, copies_, mine * shares.size());
    wait_for_gpu();
    h_.cross->all_to_all(data, shares, copies, each);
    const auto copy = [&](size_t h) { return copies + h * mine; };
    for (size_t h = 1; h < shares.size(); ++h)
      combine(copy(0), copy(h), static_cast<int64_t>(mine / width), dtype, op);
    if (mine > 0)
      for (size_t h = 1; h < shares.size(); ++h) stream().copy(copy(h), copy(0), mine);
    wait_for_gpu();
    h_.cross->all_to_all(copies, each, data, shares);
  }

  // Copies the input to page-locked memory, calls fn(in, out) with page-locked addresses, and
  // copies `out` to the output. All copies run in the stream's order.
  void staged(const void* input, size_t input_bytes, void* output, size_t output_bytes, auto&& fn) {
    const Device host{DeviceType::kPinned, 0};
    std::byte* const in = memory_on(host, input_, input_bytes);
    std::byte* const out = memory_on(host, output_, output_bytes);
    if (input_bytes > 0) stream().copy(in, input, input_bytes);
    wait_for_gpu();  // also waits for the copies of the previous call
    fn(in, out);
    if (output_bytes > 0) stream().copy(output, out, output_bytes);
  }

  // Returns the address of `memory`. If the array is too small, replaces it by a larger array.
  std::byte* memory_on(Device device, NDArrayRef& memory, size_t bytes) {
    if (!memory || static_cast<size_t>(memory->size()) < bytes) {
      if (memory) wait_for_gpu();  // a copy may still use the old memory
      const TensorSpec spec{{static_cast<int64_t>(std::max(bytes, size_t{1}))}, DType::kUInt8};
      memory = NDArray::empty(spec, device, StreamKind::kCopyIn);
      if (device.type == DeviceType::kCUDA)
        accelerator()->stream(device.index, StreamKind::kCopyIn).synchronize();
    }
    return static_cast<std::byte*>(memory->data());
  }

  // Waits until the GPU has done all submitted work. Throws if a rank is lost.
  void wait_for_gpu() {
    std::mutex mutex;
    std::optional<std::exception_ptr> outcome;  // guarded by mutex
    h_.gpus->when_done([&](std::exception_ptr error) {
      std::lock_guard lock(mutex);
      outcome = std::move(error);
    });
    for (bool looks = true;;) {
      {
        std::lock_guard lock(mutex);
        if (outcome) break;
      }
      try {
        if (looks && h_.check_others) h_.check_others();
        if (looks) h_.gpus->look();
      } catch (const std::exception& e) {
        fail_all(e.what());  // aborts the work, so that the outcome is set soon
        looks = false;
      }
      std::this_thread::sleep_for(kPause);
    }
    if (*outcome) std::rethrow_exception(*outcome);
  }

  // input_ and output_ are in page-locked memory, and copies_ is GPU memory for reduce_on_gpus.
  // They are declared before h_, whose destructor waits for copies that use them.
  NDArrayRef input_, output_, copies_;
  DeviceHierarchy h_;
  const std::string backend_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_device_hierarchy(DeviceHierarchy hierarchy) {
  return std::make_unique<HierarchicalDeviceCommunicator>(std::move(hierarchy));
}

}  // namespace mxlite
