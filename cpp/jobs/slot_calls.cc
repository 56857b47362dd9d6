#include "cpp/jobs/slot_calls.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "cpp/core/profile_hooks.h"
#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/reduce.h"

namespace mxlite::jobs {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kSpin = microseconds(50);
constexpr auto kSpinWhenShared =
    microseconds(2);  // shorter with more ranks than cores, because another rank may need this core
constexpr auto kAnnounceAfter = milliseconds(20);
constexpr size_t kFirstRoom = 16;  // number of calls for which the first call reserves memory
constexpr int kPolls = 16;         // checks in a call of poll, which take about a microsecond

// The object is leaked, because a worker may poll while the process ends.
struct Current {
  std::mutex mutex;
  std::weak_ptr<SlotCalls> calls;  // guarded by mutex
};
Current& current() {
  static Current& instance = *new Current;
  return instance;
}

bool has_slots(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return true;
    case CollectiveKind::kBarrier:
    case CollectiveKind::kAddSet:
    case CollectiveKind::kRemoveSet:
    case CollectiveKind::kMessage:
      break;
  }
  return false;
}

// Computes this rank's result. May change the pointers in `inputs`. `place` and `root` are the
// indices of this rank and of the root in the process set.
void compute(const Request& request, std::span<const void*> inputs, size_t place, size_t root,
             void* output) {
  const int64_t count = request.elements();
  if (count == 0) return;
  const size_t ranks = inputs.size(), bytes = request.bytes(), block = bytes / ranks;
  auto* out = static_cast<std::byte*>(output);
  const auto part = [&](size_t r, size_t index) {
    return static_cast<const std::byte*>(inputs[r]) + index * block;
  };
  switch (request.kind) {
    case CollectiveKind::kReduce:
      if (place != root) {
        std::memset(out, 0, bytes);
        return;
      }
      [[fallthrough]];
    case CollectiveKind::kAllReduce:
      reduce_buffers(inputs, out, count, request.dtype, request.op);
      return scale_buffer(out, count, request.dtype, request.postscale);
    case CollectiveKind::kReduceScatter: {
      for (size_t r = 0; r < ranks; ++r) inputs[r] = part(r, place);
      const int64_t mine = count / static_cast<int64_t>(ranks);
      reduce_buffers(inputs, out, mine, request.dtype, request.op);
      return scale_buffer(out, mine, request.dtype, request.postscale);
    }
    case CollectiveKind::kBroadcast:
      std::memcpy(out, inputs[root], bytes);
      return;
    case CollectiveKind::kAllGather:
      for (size_t r = 0; r < ranks; ++r) std::memcpy(out + r * bytes, inputs[r], bytes);
      return;
    default:  // kAllToAll
      for (size_t r = 0; r < ranks; ++r) std::memcpy(out + r * block, part(r, place), block);
  }
}

}  // namespace

void SlotCalls::set_current(const std::shared_ptr<SlotCalls>& calls) {
  const std::lock_guard lock(current().mutex);
  current().calls = calls;
}

bool SlotCalls::poll_current(bool idle) {
  if (all_waiting_.load(std::memory_order_relaxed) == 0) return false;
  // In a forked child, the calls belong to the parent, whose threads may have held the locks during
  // the fork.
  if (engine::in_forked_child()) return false;
  std::shared_ptr<SlotCalls> calls;
  {
    const std::lock_guard lock(current().mutex);
    calls = current().calls.lock();
  }
  return calls && calls->poll(idle);
}

void SlotCalls::connect(ControlChannel& control, bool cores_for_all) {
  control_ = &control;
  spin_ = cores_for_all ? kSpin : kSpinWhenShared;
}

void SlotCalls::add_group(int set, Communicator& group, const std::vector<int>& ranks) {
  if (!control_->rings_others()) return;
  std::unique_ptr<shm::SlotRing> slots = shm::SlotRing::make(group);
  if (!slots) return;
  const std::lock_guard lock(mutex_);
  inputs_.reserve(ranks.size());
  groups_[set] = Group{std::move(slots), ranks};
}

SlotCalls::Removed SlotCalls::remove_group(int set) {
  Removed removed;
  std::vector<OperationRef> done;
  {
    const std::unique_lock lock(mutex_);
    removed.incomplete.reserve(list_.size());  // the code below must not fail
    complete(lock, /*announced_too=*/true, done, &removed.announced);
    std::erase_if(list_, [&](WaitingOperation& one) {
      if (one.operation->channel.set != set) return false;
      removed.incomplete.push_back(std::move(one.operation));
      return true;
    });
    list_has_changed(lock);
    groups_.erase(set);
  }
  notify(done, nullptr);
  return removed;
}

void SlotCalls::close(const std::exception_ptr& cause) noexcept {
  std::vector<WaitingOperation> left;
  std::vector<OperationRef> done, announced;
  {
    const std::unique_lock lock(mutex_);
    try {
      complete(lock, /*announced_too=*/true, done, &announced);
    } catch (const std::bad_alloc&) {
      // If completing fails, no call has been completed, so the owners of complete calls also get
      // the cause.
    }
    left.swap(list_);
    list_has_changed(lock);
    groups_.clear();
  }
  notify(done, nullptr);
  for (const WaitingOperation& one : left) notify({&one.operation, 1}, cause);
}

bool SlotCalls::suits(const Operation& operation, const shm::SlotRing& slots) {
  const Request& request = operation.request();
  return request.same_shapes && request.failure.empty() && request.device < 0 &&
         request.prescale == 1 && !operation.channel.is_message() && has_slots(request.kind) &&
         operation.asked->bytes <= slots.max_bytes();
}

bool SlotCalls::take(const OperationRef& operation) {
  std::vector<OperationRef> done;
  {
    const std::unique_lock lock(mutex_);
    const auto found = groups_.find(operation->channel.set);
    if (found == groups_.end() || !suits(*operation, *found->second.slots)) return false;
    Group& group = found->second;
    const uint64_t hash = operation->asked->hash();
    // Reserves memory first, because the call must not fail after its input is visible in a slot.
    if (list_.size() == list_.capacity()) list_.reserve(std::max(kFirstRoom, 2 * list_.size()));
    done.reserve(list_.size() + 1);
    if (!group.slots->show(operation->number, hash, operation->input->data(),
                           operation->asked->bytes))
      return false;
    for (const int r : group.ranks)
      if (r != group.ranks[static_cast<size_t>(group.slots->rank())]) control_->ring_if_awaiting(r);
    const Clock::time_point now = Clock::now();
    list_.push_back({operation, &group, now, false});
    list_has_changed(lock);
    // Ends the comm thread's long sleep, because after the first call the thread must check calls
    // more often.
    if (!used()) {
      used_.store(true);
      control_->ring();
    }
    spin_until_ = now + spin_;
    complete(lock, /*announced_too=*/false, done, nullptr);
    if (wakes_.load() && !list_.empty()) control_->ring();
  }
  notify(done, nullptr);
  return true;
}

void SlotCalls::complete(const std::unique_lock<std::mutex>& lock, bool announced_too,
                         std::vector<OperationRef>& done,
                         std::vector<OperationRef>* done_announced) {
  done.reserve(list_.size());  // the code below must not fail
  if (done_announced) done_announced->reserve(list_.size());
  std::erase_if(list_, [&](WaitingOperation& one) {
    if (one.announced && !announced_too) return false;
    Operation& operation = *one.operation;
    switch (one.group->slots->state(operation.number, operation.asked->hash())) {
      case shm::SlotRing::State::kIncomplete:
        return false;
      case shm::SlotRing::State::kDifferent:
        if (!one.announced && !differs_) {
          differs_ = true;
          control_->ring();
        }
        return false;
      case shm::SlotRing::State::kComplete:
        break;
    }
    carry_out(operation, *one.group);
    if (one.announced) done_announced->push_back(one.operation);
    done.push_back(std::move(one.operation));
    return true;
  });
  if (done.empty()) return;
  list_has_changed(lock);
  spin_until_ = Clock::now() + spin_;
}

void SlotCalls::list_has_changed(const std::unique_lock<std::mutex>& lock) {
  const size_t waiting = list_.size();
  all_waiting_ += waiting - waiting_.exchange(waiting);
  if (list_.empty()) ask_for_rings(lock, false);
}

void SlotCalls::carry_out(Operation& operation, Group& group) {
  const Request& request = operation.request();
  const ProfileScope profile(collective_name(request.kind), ProfileKind::kComm);
  inputs_.resize(group.ranks.size());
  for (size_t r = 0; r < inputs_.size(); ++r)
    inputs_[r] = group.slots->input(static_cast<int>(r), operation.number);
  const auto root = std::find(group.ranks.begin(), group.ranks.end(), request.root);
  compute(request, inputs_, static_cast<size_t>(group.slots->rank()),
          static_cast<size_t>(root - group.ranks.begin()), operation.output->data());
  group.slots->finish(operation.number);
  ++counts_.calls;
  counts_.bytes += operation.asked->bytes;
}

void SlotCalls::ask_for_rings(const std::unique_lock<std::mutex>&, bool ask) {
  if (asks_for_rings_ != ask) control_->await_rings(ask);
  asks_for_rings_ = ask;
}

// Asks for rings before it checks the slots. Thus either this rank sees the other rank's input, or
// the other rank sees that it must ring.
void SlotCalls::leave_to_comm_thread(const std::unique_lock<std::mutex>& lock,
                                     std::vector<OperationRef>& done) {
  ask_for_rings(lock, !list_.empty());
  complete(lock, /*announced_too=*/false, done, nullptr);
}

void SlotCalls::poll_briefly() {
  const Clock::time_point until = Clock::now() + spin_;
  while (poll(/*idle=*/true)) {
    if (Clock::now() < until) continue;
    std::vector<OperationRef> done;
    {
      const std::unique_lock lock(mutex_);
      leave_to_comm_thread(lock, done);
    }
    return notify(done, nullptr);
  }
}

bool SlotCalls::poll(bool idle) {
  if (!waiting()) return false;
  std::vector<OperationRef> done;
  bool again = idle;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      if (!idle) return false;
      lock.lock();  // sleeps, because the thread that holds the lock may need this core
    }
    for (int i = 0; i < (idle ? kPolls : 1) && done.empty(); ++i) {
      if (i > 0) _mm_pause();
      complete(lock, /*announced_too=*/false, done, nullptr);
    }
    if (idle && done.empty() && Clock::now() >= spin_until_) {
      leave_to_comm_thread(lock, done);
      again = false;
    }
  }
  notify(done, nullptr);
  if (again && done.empty()) sched_yield();  // another thread of this process may need the core
  return again;
}

std::vector<OperationRef> SlotCalls::complete_all() {
  std::vector<OperationRef> done, announced;
  {
    const std::unique_lock lock(mutex_);
    complete(lock, /*announced_too=*/true, done, &announced);
  }
  notify(done, nullptr);
  return announced;
}

std::vector<OperationRef> SlotCalls::take_overdue(
    const std::function<bool(const Operation&)>& is_announced) {
  std::vector<OperationRef> overdue;
  const std::unique_lock lock(mutex_);
  differs_ = false;
  const Clock::time_point now = Clock::now();
  for (WaitingOperation& one : list_) {
    if (one.announced) continue;
    const Operation& operation = *one.operation;
    const shm::SlotRing::State state =
        one.group->slots->state(operation.number, operation.asked->hash());
    if (state == shm::SlotRing::State::kComplete)
      continue;  // a complete call must not be
                 // announced
    if (state == shm::SlotRing::State::kIncomplete && now - one.since < kAnnounceAfter &&
        !is_announced(operation))
      continue;
    one.announced = true;
    overdue.push_back(one.operation);
  }
  if (!overdue.empty()) ask_for_rings(lock, true);
  return overdue;
}

void SlotCalls::drop(const Operation& operation) {
  if (!waiting()) return;
  const std::unique_lock lock(mutex_);
  std::erase_if(list_,
                [&](const WaitingOperation& one) { return one.operation.get() == &operation; });
  list_has_changed(lock);
}

void SlotCalls::finish(const CallChannel& channel, uint64_t number) {
  if (channel.is_message()) return;
  const std::lock_guard lock(mutex_);
  if (const auto group = groups_.find(channel.set); group != groups_.end())
    group->second.slots->finish(number);
}

SlotCalls::Counts SlotCalls::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mxlite::jobs
