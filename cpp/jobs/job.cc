#include "cpp/jobs/job.h"

#include <immintrin.h>

#include <algorithm>

#include "cpp/base/error.h"
#include "cpp/engine/polling.h"
#include "cpp/kvstore/comm/shm/channel.h"

namespace mxlite::jobs {
namespace {

constexpr int kSpins = 1000;  // number of polls before sleeping while other ranks must answer
constexpr int kSpinsWhenShared = 20;
// Pause in ms between rounds while the program polls, so that each round serves several tensors.
constexpr double kBurstMs = 0.2;
constexpr double kLook = 0.02;     // seconds of sleep while operations are pending
constexpr double kIdleLook = 0.1;  // seconds of sleep otherwise
constexpr size_t kAhead = 6;       // operations to prefetch, because another core has written them
enum FrameFlags : uint8_t { kShutdown = 1, kStalled = 2, kLeaving = 4 };

uint64_t ns_since(Clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

}  // namespace

Job::Job(World world, const JobOptions& given, Timeline& timeline, const MakeNegotiation& make)
    : rank(world.communicator->rank()),
      size(world.communicator->size()),
      topology(world.topology),
      backend(world.communicator->backend()),
      options(agree(given, *world.communicator)),
      sets_(std::move(world.communicator)),
      timeline_(timeline),
      control_(make_control(sets_.group(0), options.settings.cycle_ms)),
      runner_(sets_, *control_, timeline),
      ordered_(sets_, runner_, options.settings),
      spins_(shm::cores_for_all(topology.local_size) ? kSpins : kSpinsWhenShared) {
  negotiation_ = make(*this);
  ordered_.add_slots(*control_, shm::cores_for_all(topology.local_size));
  if (rank == 0 && !options.timeline.empty())
    timeline_.start(options.timeline, options.timeline_marks_cycles);
}

Job::~Job() {
  ordered_.slots().close(communicator_error("the job has ended"));
  if (rank == 0) timeline_.stop();
}

void Job::loop() noexcept {
  try {
    while (step()) {
    }
  } catch (const std::exception& e) {
    lost_ = true;
    for (const auto& [number, set] : sets_.by_number())
      if (set.group) set.group->fail_all(e.what());
    runner_.fail_all(e.what());
    control_->fail_all(e.what());
    end(e.what());
  }
}

bool Job::step() {
  const uint32_t seen = control_->rings();
  ordered_.attend_slots();
  if (!round_open_) begin_round();
  bool ready = round_open_ && control_->ready();
  if (round_open_) {
    // Polls repeatedly only once per round, because other ranks ring this rank when they begin the
    // round.
    for (int i = spun_ ? spins_ : 0; i < spins_ && !ready; ++i) {
      _mm_pause();
      ready = control_->ready();
    }
    spun_ = true;
  }
  if (ready) {
    process();
  } else {
    check_stalls();
    sleep(seen);
  }
  std::lock_guard lock(mutex_);
  return !ended_;
}

void Job::begin_round() {
  const auto begin = Clock::now();
  take_news();
  uint8_t flags = give_up_ ? kStalled : 0;
  {
    std::lock_guard lock(mutex_);
    if (stop_requested_) flags |= kShutdown;
    if (leave_requested_ && !leave_announced_) flags |= kLeaving;
  }
  const bool has_news = negotiation_->has_news() || ordered_.has_news();
  const bool something = has_news || flags != 0 || ordered_.may_lack_left();
  const bool begins = (something && seconds_to_next_round() <= 0) || control_->wanted();
  if (begins) {
    FrameWriter frame;
    frame.number(flags);
    ordered_.write(frame);
    frame.bytes(negotiation_->make_frame());
    if (timeline_.runs()) timeline_.cycle();
    round_began_ = Clock::now();
    control_->post(frame.take());
    spun_ = false;
    leave_announced_ |= (flags & kLeaving) != 0;
    round_open_ = true;
  }
  if (!begins && !has_news) return;
  std::lock_guard lock(mutex_);
  needs_rings_ = false;
  stats_.negotiation_ns += ns_since(begin);
}

double Job::seconds_to_next_round() const {
  double ms = burst_ ? kBurstMs : 0;
  if (options.wait_for_cycle) ms = options.settings.cycle_ms;
  return ms * 1e-3 - static_cast<double>(ns_since(round_began_)) * 1e-9;
}

void Job::sleep(uint32_t seen) {
  const bool awaits = negotiation_->is_busy() || ordered_.is_busy() || round_open_ ||
                      ordered_.slots().used() || runner_.gpus_busy();
  double seconds = awaits ? kLook : kIdleLook;
  if (negotiation_->has_news() || ordered_.has_news() || ordered_.may_lack_left())
    seconds = std::min(seconds, std::max(0.0, seconds_to_next_round()));
  control_->sleep(seen, seconds);
  if (ns_since(looked_) > static_cast<uint64_t>(kLook * 1e9)) {
    looked_ = Clock::now();
    control_->look();
    runner_.look_at_gpus();
  }
}

void Job::take_news() {
  fresh_.clear();
  {
    std::lock_guard lock(mutex_);
    fresh_.swap(inbox_);
  }
  for (size_t i = 0; i < fresh_.size(); ++i) {
    if (i + kAhead < fresh_.size()) __builtin_prefetch(fresh_[i + kAhead].get());
    if (fresh_[i]->number != 0)
      ordered_.announce(fresh_[i]);
    else
      negotiation_->take(fresh_[i]);
  }
  fresh_.clear();
}

void Job::process() {
  const auto begin = Clock::now();
  std::vector<std::vector<std::byte>> frames = control_->take();
  std::vector<int> shutdown, leaving;
  for (int r = 0; r < size; ++r) {
    std::vector<std::byte>& bytes = frames[static_cast<size_t>(r)];
    FrameReader frame(bytes, kNegotiationFrame);
    const auto flags = frame.number<uint8_t>();
    if (flags & kShutdown) shutdown.push_back(r);
    if (flags & kLeaving) leaving.push_back(r);
    stalled_ |= (flags & kStalled) != 0;
    ordered_.read(r, frame);
    std::vector<std::byte> negotiated(frame.left());
    frame.bytes(negotiated.data(), negotiated.size());
    bytes = std::move(negotiated);
  }
  negotiation_->read(frames);
  {
    std::lock_guard lock(mutex_);
    round_open_ = false;
    needs_rings_ = true;
    burst_ = !inbox_.empty();
    stats_.negotiation_ns += ns_since(begin);
    ++stats_.rounds;
    stats_.cache_hits = negotiation_->cache_hits();
  }
  const bool negotiated = negotiation_->carry_out();
  const bool ordered = ordered_.carry_out();
  if (negotiated || ordered) {
    std::lock_guard lock(mutex_);
    last_operation_ = Clock::now();
  }
  if (stalled_) return give_up();
  end_if_left(std::move(shutdown), leaving);
}

void Job::add_set(int number, const std::vector<int>& ranks) {
  sets_.add(number, ranks);
  // Process sets that the constructor adds get slots later, when all of them have communicators.
  if (const ProcessSet* set = sets_.find_with_group(number); set && negotiation_)
    ordered_.slots().add_group(number, *set->group, ranks);
}

void Job::remove_set(int number) {
  runner_.remove_set(number);
  sets_.remove(number);
  ordered_.remove_set(number);
}

void Job::submit(std::vector<OperationRef> operations) {
  // Slots are not used after ranks have left, because ranks that leave wait only while they see
  // negotiations. Slots are not used with a timeline either, because it shows only operations of
  // the comm thread.
  const bool uses_slots = operations.size() == 1 && operations[0]->number != 0 &&
                          !ranks_have_left_.load(std::memory_order_relaxed) && !timeline_.runs();
  if (uses_slots && ordered_.slots().take(operations[0])) {
    // A worker of the engine polls after the task anyway. Any other thread has to poll here.
    if (!engine::on_polling_worker()) ordered_.slots().poll_briefly();
    return;
  }
  std::exception_ptr cause;
  {
    std::lock_guard lock(mutex_);
    if (!ended_) {
      inbox_.insert(inbox_.end(), std::move_iterator(operations.begin()),
                    std::move_iterator(operations.end()));
      if (needs_rings_) control_->ring();
      return;
    }
    cause = cause_;
  }
  notify(operations, cause);
}

Device Job::place_of(Device device, DType dtype) {
  if (device.type != DeviceType::kCUDA) return device;
  if (!travels_through_nccl(device, dtype)) return {DeviceType::kPinned, 0};
  return {DeviceType::kCUDA, runner_.choose_gpu(device.index)};
}

JobStats Job::stats() {
  const SlotCalls::Counts slots = ordered_.slots().counts();
  const OperationRunner::Counts& run = runner_.counts();
  std::lock_guard lock(mutex_);
  JobStats all = stats_;
  all.responses = run.calls + slots.calls;
  all.tensors = run.tensors + slots.calls;
  all.bytes = run.bytes + slots.bytes;
  all.nccl_tensors = run.nccl_tensors;
  all.collective_ns = run.collective_ns;
  return all;
}

}  // namespace mxlite::jobs
