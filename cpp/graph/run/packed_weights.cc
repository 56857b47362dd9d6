#include "cpp/graph/run/packed_weights.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "cpp/core/cpu/large_blocks.h"
#include "cpp/core/device_timer.h"
#include "cpp/core/host_memory.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/blocking.h"
#include "cpp/ops/invoke.h"
#include "cpp/ops/tensor/cast.h"

namespace mxlite::graph {
namespace {

struct Registry {
  // `update` holds this lock until it has pushed the tasks that compute missing values, because
  // other threads push tasks that read values marked as computed. Destructors must not take the
  // lock, because a push may wait for workers, and workers destroy executables.
  std::mutex update_mutex;
  std::mutex mutex;
  // guarded by `mutex`; the key is the packing's hash
  std::unordered_multimap<size_t, std::weak_ptr<PackedWeights>> known;
};

Registry& registry() {
  static auto* const instance = new Registry;  // leaked: executables may outlive static objects
  return *instance;
}

std::atomic<size_t> bytes_in_use{0};

// Allocates memory that is later returned to the system and not cached, because weights of other
// networks have other sizes.
StorageRef allocate(Device device, size_t bytes) {
  if (!is_host_memory(device)) return Storage::allocate(device, bytes);
  const Block block = cpu_allocator().allocate(bytes);
  return Storage::wrap(device, block.data, bytes, [block] { discard(block); });
}

// Memory of the values that one update computes. The values are adjacent, so that they fill huge
// pages, for which most single weights are too small. Huge pages reduce TLB misses in convolutions,
// which read a weight once.
class Memory {
 public:
  explicit Memory(Device device) : device_(device) {}

  void expect(size_t bytes) { expected_ += rounded(bytes); }
  // Returns memory for one value. Call `expect` for all values before the first call of `take`.
  StorageRef take(size_t bytes) {
    if (!is_host_memory(device_) || expected_ < kHugePage) return allocate(device_, bytes);
    if (!whole_) whole_ = allocate(device_, expected_);
    std::byte* const data = static_cast<std::byte*>(whole_->data()) + used_;
    used_ += rounded(bytes);
    MX_ASSERT(used_ <= expected_);
    return Storage::wrap(device_, data, bytes, [whole = whole_] {});
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr size_t kAlignment = 256;
  static size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const Device device_;
  size_t expected_ = 0, used_ = 0;
  StorageRef whole_;
};

const NDArray& array_of(const Packing& packing, std::span<const NDArrayRef> parameters, size_t i) {
  return *parameters[static_cast<size_t>(packing.parameters[i])];
}

SourceVersion version_of(const NDArray& a) {
  return {a.storage(), a.offset(), a.strides(), a.storage()->var().version()};
}

}  // namespace

class PackedWeights::Task final : public engine::Task {
 public:
  explicit Task(std::shared_ptr<Arena> arena)
      : engine::Task("pack_parameters"), arena_(std::move(arena)) {}

  void add(const PackedWeights& values, std::span<const NDArrayRef> parameters) {
    Run one{values.packing_, values.memory_, {}};
    for (size_t i = 0; i < one.packing->parameters.size(); ++i) {
      const NDArrayRef& a = parameters[static_cast<size_t>(one.packing->parameters[i])];
      one.parameters.push_back(contiguous(a));
      reads_.push_back(&one.parameters.back()->storage()->var());
    }
    writes_.push_back(&one.memory->var());
    runs_.push_back(std::move(one));
  }
  bool empty() const { return runs_.empty(); }
  const std::vector<engine::Var*>& reads() const { return reads_; }
  const std::vector<engine::Var*>& writes() const { return writes_; }

  void run() override {
    std::vector<TensorRef> from, to;
    for (const Run& one : runs_) {
      if (one.packing->conversions.empty()) run(one);
      for (const Conversion& c : one.packing->conversions) {
        const Strides plain = contiguous_strides(c.shape);
        from.push_back({one.parameters[static_cast<size_t>(c.parameter)]->data(), c.shape,
                        c.strides, c.from, c.strides == plain});
        to.push_back(
            {static_cast<std::byte*>(one.memory->data()) + c.offset, c.shape, plain, c.to, true});
      }
    }
    if (!to.empty()) convert(from, to);
  }
  void release_operands() noexcept override { runs_.clear(); }

 private:
  struct Run {
    std::shared_ptr<const Packing> packing;
    StorageRef memory;
    std::vector<NDArrayRef> parameters;
  };
  void run(const Run& one) const {
    const Program& p = one.packing->program;
    const Slots& slots = one.packing->slots;
    Arena::Use memory(*arena_, p.arena_bytes + p.scratch_bytes);
    std::vector<void*> bases(slots.count, nullptr);
    bases[Slots::kArena] = memory.data();
    bases[Slots::kScratch] = memory.data() + p.arena_bytes;
    for (size_t i = 0; i < one.parameters.size(); ++i)
      bases[slots.parameters + i] = one.parameters[i]->data();
    for (size_t i = 0; i < p.constants.size(); ++i)
      bases[slots.constants + i] = p.constants[i]->data();
    bases[slots.packed] = one.memory->data();
    one.packing->steps.run(bases, {}, {.stream = engine::current_stream()});
  }

  // The operator's kernel copies each input into its output, in few launches.
  void convert(std::span<const TensorRef> from, std::span<const TensorRef> to) const {
    static const OpSchema& op = ops().get("amp_multicast");
    KernelContext context{runs_[0].memory->device(), false, {}, engine::current_stream(), nullptr};
    ProfileScope profile(op.name.c_str());
    DeviceScope device_profile(context.stream, op.name.c_str());
    set_launching_operator(op.name.c_str());
    const AmpMulticastParams params{static_cast<int>(to.size()), false};
    op.kernels[DeviceType::kCUDA].front().run(context, &params, from, to);
  }

  const std::shared_ptr<Arena> arena_;
  std::vector<Run> runs_;
  std::vector<engine::Var*> reads_, writes_;
};

PackedWeights::PackedWeights(std::shared_ptr<const Packing> packing, StorageRef memory,
                             std::vector<SourceVersion> sources)
    : packing_(std::move(packing)),
      device_(memory->device()),
      memory_(std::move(memory)),
      sources_(std::move(sources)) {
  bytes_in_use += memory_->bytes();
}

PackedWeights::~PackedWeights() {
  bytes_in_use -= memory_->bytes();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto [begin, end] = r.known.equal_range(packing_->hash);
  for (auto it = begin; it != end;) it = it->second.expired() ? r.known.erase(it) : std::next(it);
}

size_t PackedWeights::total_bytes() { return bytes_in_use; }

bool PackedWeights::Use::is_current(std::span<const NDArrayRef> parameters) const {
  if (!values) return false;
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i].is_current(array_of(*packing, parameters, i))) return false;
  return true;
}

bool PackedWeights::is_for(const Packing& packing, std::span<const NDArrayRef> parameters,
                           Device device) const {
  if (!(device_ == device)) return false;
  for (size_t i = 0; i < sources_.size(); ++i)
    if (!sources_[i].same_array(array_of(packing, parameters, i))) return false;
  return packing_.get() == &packing || same_packing(*packing_, packing);
}

std::shared_ptr<PackedWeights> PackedWeights::find(const Use& use,
                                                   std::span<const NDArrayRef> parameters,
                                                   Device device) {
  if (use.values && use.values->is_for(*use.packing, parameters, device)) return use.values;
  Registry& r = registry();
  std::vector<std::shared_ptr<PackedWeights>> candidates;  // destroyed at the end of this function
                                                           // unless an executable uses them
  {
    std::lock_guard lock(r.mutex);
    const auto [begin, end] = r.known.equal_range(use.packing->hash);
    for (auto it = begin; it != end; ++it)
      if (auto values = it->second.lock()) candidates.push_back(std::move(values));
  }
  for (auto& values : candidates)
    if (values->is_for(*use.packing, parameters, device)) return values;
  return nullptr;
}

std::shared_ptr<PackedWeights> PackedWeights::make(const Use& use,
                                                   std::span<const NDArrayRef> parameters,
                                                   StorageRef memory) {
  std::vector<SourceVersion> sources;
  for (size_t i = 0; i < use.packing->parameters.size(); ++i)
    sources.push_back(version_of(array_of(*use.packing, parameters, i)));
  std::shared_ptr<PackedWeights> values(
      new PackedWeights(use.packing, std::move(memory), std::move(sources)));
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.known.emplace(use.packing->hash, values);
  return values;
}

void PackedWeights::update(std::span<Use> uses, std::span<const NDArrayRef> parameters,
                           Device device, const engine::PushOptions& options,
                           const std::shared_ptr<Arena>& arena) {
  auto* const task = new Task(arena);
  engine::TaskRef task_ref(task);
  struct Found {
    Use* use;
    std::shared_ptr<PackedWeights> values;
  };
  std::vector<Found> found;  // applied to `uses` after the push, because the push may throw
  const auto lock = engine::lock_without_gil(registry().update_mutex);
  Memory memory(device);
  for (Use& use : uses) {
    if (use.is_current(parameters)) continue;
    found.push_back({&use, find(use, parameters, device)});
    if (!found.back().values) memory.expect(use.packing->program.packed_bytes);
  }
  for (Found& each : found) {
    const Use& use = *each.use;
    // An earlier iteration of this loop may have created the values, because two layers may share a
    // weight.
    if (!each.values) each.values = find(use, parameters, device);
    if (!each.values)
      each.values = make(use, parameters, memory.take(use.packing->program.packed_bytes));
    PackedWeights& values = *each.values;
    for (size_t i = 0; i < values.sources_.size(); ++i) {
      const NDArray& a = array_of(*use.packing, parameters, i);
      values.computed_ &= values.sources_[i].is_current(a);
      values.sources_[i] = version_of(a);
    }
    if (!values.computed_) task->add(values, parameters);
  }
  if (!task->empty()) {
    const std::vector<engine::Var*> reads = task->reads(), writes = task->writes();
    engine::Engine::get().push(std::move(task_ref), {reads, writes, {}}, options);
  }
  for (auto& [use, values] : found) {
    values->computed_ = true;
    use->packing = values->packing_;  // uses the equal packing of another executable, so that both
                                      // share it
    use->seen = values->sources_;
    use->values = std::move(values);
  }
}

}  // namespace mxlite::graph
