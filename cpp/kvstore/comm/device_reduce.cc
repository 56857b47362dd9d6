#include "cpp/kvstore/comm/device_reduce.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/collective_worker.h"
#include "cpp/kvstore/comm/collective_watch.h"
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite {
namespace {

// Groups of this process; the key is the list of their GPUs. The engine runs the sums one after the
// other. The lock is needed for engines that run tasks in the calling thread.
class Groups {
 public:
  void with(const std::vector<int>& devices, auto&& fn) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<DeviceGroup>& group = groups_[devices];
    if (!group) group = make_device_group(devices);
    try {
      fn(group);
    } catch (...) {
      group.reset();  // a later call creates a new group
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<DeviceGroup>> groups_;  // guarded by mutex_
};

// State that all sums share. It is leaked, because the CUDA driver may shut down before static
// destructors run.
struct Shared {
  Groups groups;
  CollectiveWatch watch;
  // Every sum writes this variable, so that all GPUs get the sums in push order. Otherwise two sums
  // could wait for each other.
  engine::Var order;
};
Shared& shared() {
  static auto* const instance = new Shared;
  return *instance;
}

MarkedStream& collective_stream(int device) {
  return static_cast<MarkedStream&>(
      require_accelerator("all_reduce_on_devices", device).stream(device, kCollectiveStream));
}

// A task of the collective stream of the first GPU. The streams of the other GPUs begin when the
// first stream has waited for all inputs, and the first stream ends after them. The engine can
// therefore order the sum by the first stream alone. The host waits for nothing.
class ReduceTask final : public engine::Task {
 public:
  ReduceTask(std::vector<DeviceOperand> operands, ReduceOp op)
      : Task("all_reduce_on_devices"), op_(op), operands_(std::move(operands)) {}
  void run() override {
    const ProfileScope profile(name, ProfileKind::kComm);
    std::vector<int> devices;
    std::vector<DeviceBuffer> buffers;
    std::vector<MarkedStream*> streams;
    for (const DeviceOperand& o : operands_) {
      devices.push_back(o.input->device().index);
      streams.push_back(&collective_stream(devices.back()));
      buffers.push_back({o.input->data(), o.output->data(), streams.back()});
    }
    MarkedStream& first = *streams[0];
    const std::span others = std::span(streams).subspan(1);
    for (MarkedStream* const other : others) other->wait_for(first);
    std::shared_ptr<MarkedStream::Mark> begin = first.mark();
    shared().groups.with(devices, [&](const std::shared_ptr<DeviceGroup>& group) {
      const NDArray& array = *operands_[0].input;
      group->all_reduce(buffers, array.size(), array.dtype(), op_);
      for (MarkedStream* const other : others) first.wait_for(*other);
      shared().watch.add({group, &first, std::move(begin), first.mark(), {}});
    });
  }
  void release_operands() noexcept override { operands_.clear(); }
  void describe(std::string& out) const override {
    out += str(name, " of ", operands_.size(), " arrays");
    if (!operands_.empty()) out += str(" ", operands_[0].input->spec());
  }

 private:
  const ReduceOp op_;
  std::vector<DeviceOperand> operands_;
};

// Throws unless NCCL can sum the arrays. The arrays must be on different GPUs and have the same
// size and dtype.
void check_operands(std::span<const DeviceOperand> operands) {
  MX_CHECK(!operands.empty(),
           "all_reduce_on_devices: the number of arrays must be at least 1, got 0");
  const NDArray& first = *operands[0].input;
  std::vector<int> seen;
  for (const auto& [a, output] : operands) {
    MX_CHECK(!a->is_traced() && !a->is_sparse() && a->contiguous(),
             "all_reduce_on_devices: arrays must be contiguous and dense");
    MX_CHECK(a->device().type == DeviceType::kCUDA,
             "all_reduce_on_devices: arrays must be on GPUs, got an array on ", a->device());
    MX_CHECK_SHAPE(a->spec() == first.spec(),
                   "all_reduce_on_devices: arrays must have the same shape and dtype, got ",
                   first.spec(), " and ", a->spec());
    MX_ASSERT(output->spec() == a->spec() && output->device() == a->device());
    for (const int device : seen)
      MX_CHECK(device != a->device().index,
               "all_reduce_on_devices: each GPU must have one array, got two arrays on ",
               a->device());
    seen.push_back(a->device().index);
  }
}

}  // namespace

void all_reduce_on_devices(std::vector<DeviceOperand> operands, ReduceOp op,
                           const engine::Access& access) {
  check_operands(operands);
  const NDArray& first = *operands[0].input;
  if (first.size() == 0 || (operands.size() == 1 && operands[0].input == operands[0].output))
    return;
  MX_CHECK_KIND(has_device_groups(), ErrorKind::kNotSupported,
                "all_reduce_on_devices: the CUDA plug-in must contain NCCL; build it with "
                "-DMXLITE_CUDA=ON");
  size_t bytes = 0;
  for (const DeviceOperand& o : operands) bytes += o.output->storage()->take_new_bytes();
  const int device = first.device().index;
  std::vector<engine::Var*> updates(access.updates.begin(), access.updates.end());
  updates.push_back(&shared().order);
  engine::Engine::get().push(
      make_ref<ReduceTask>(std::move(operands), op), {access.reads, access.overwrites, updates},
      {.worker = engine::kCollectiveWorker, .device = device, .bytes = bytes});
}

void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op) {
  std::vector<engine::Var*> updates;
  std::vector<DeviceOperand> operands;
  for (const NDArrayRef& a : arrays) {
    updates.push_back(&a->storage()->var());
    // Copies the handle, because other memory may be assigned to the caller's handle before the
    // task runs.
    const NDArrayRef own = a->detached();
    operands.push_back({own, own});
  }
  all_reduce_on_devices(std::move(operands), op, {{}, {}, updates});
}

}  // namespace mxlite
