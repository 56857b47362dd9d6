#include "cpp/kvstore/comm/device_reduce.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite {
namespace {

// Groups of this process, by their GPUs. The comm worker runs one task after the other, so two
// groups are never active at the same time, which NCCL does not allow; the lock is for engines
// that run tasks in their callers.
class Groups {
 public:
  template <class Fn>
  void with(const std::vector<int>& devices, Fn&& fn) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<DeviceGroup>& group = groups_[devices];
    if (!group) group = make_device_group(devices);
    try {
      fn(*group);
    } catch (...) {
      group.reset();  // a later call makes a new one
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::unique_ptr<DeviceGroup>> groups_;  // guarded by mutex_
};

Groups& groups() {
  static auto* const all = new Groups;  // leaked: the driver may end before static destructors
  return *all;
}

class ReduceTask final : public engine::Task {
 public:
  ReduceTask(std::span<const NDArrayRef> arrays, ReduceOp op)
      : Task("all_reduce_on_devices"), op_(op) {
    // Own handles: the caller's may refer to other memory before this runs.
    for (const NDArrayRef& a : arrays) arrays_.push_back(a->detached());
  }
  void run() override {
    const ProfileScope profile(name, ProfileKind::kComm);
    std::vector<int> devices;
    std::vector<DeviceBuffer> buffers;
    for (const NDArrayRef& a : arrays_) {
      devices.push_back(a->device().index);
      buffers.push_back({a->data(), a->data()});
    }
    groups().with(devices, [&](DeviceGroup& group) {
      group.all_reduce(buffers, arrays_[0]->size(), arrays_[0]->dtype(), op_);
      group.synchronize();
    });
  }
  void release_operands() noexcept override { arrays_.clear(); }
  void describe(std::string& out) const override {
    out += str(name, " of ", arrays_.size(), " arrays");
    if (!arrays_.empty()) out += str(" ", arrays_[0]->spec());
  }

 private:
  const ReduceOp op_;
  std::vector<NDArrayRef> arrays_;
};

}  // namespace

void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op) {
  MX_CHECK(!arrays.empty(), "all_reduce_on_devices: no arrays given, at least one expected");
  std::vector<engine::Var*> updates;
  std::vector<int> seen;
  for (const NDArrayRef& a : arrays) {
    MX_CHECK(!a->is_traced() && !a->is_sparse() && a->contiguous(),
             "all_reduce_on_devices: contiguous dense arrays expected");
    MX_CHECK(a->device().type == DeviceType::kCUDA, "all_reduce_on_devices: an array on ",
             a->device(), " given, arrays on GPUs expected");
    MX_CHECK_SHAPE(a->spec() == arrays[0]->spec(), "all_reduce_on_devices: arrays ",
                   arrays[0]->spec(), " and ", a->spec(), " given, equal ones expected");
    for (const int device : seen)
      MX_CHECK(device != a->device().index, "all_reduce_on_devices: two arrays on ", a->device(),
               " given, one for each GPU expected");
    seen.push_back(a->device().index);
    updates.push_back(&a->storage()->var());
  }
  if (arrays.size() == 1 || arrays[0]->size() == 0) return;
  MX_CHECK_KIND(has_device_groups(), ErrorKind::kNotSupported,
                "all_reduce_on_devices: the CUDA plug-in has no NCCL, build it with "
                "-DMXLITE_CUDA=ON");
  engine::Engine::get().push(
      make_ref<ReduceTask>(arrays, op), {{}, {}, updates},
      {.worker = engine::WorkerKind::kComm, .bytes = arrays[0]->spec().bytes() * arrays.size()});
}

}  // namespace mxlite
