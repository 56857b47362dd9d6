#include "cpp/jobs/job.h"

#include <immintrin.h>

#include <algorithm>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/engine/polling.h"
#include "cpp/jobs/stall_text.h"
#include "cpp/kvstore/comm/shm/channel.h"

namespace mxlite::jobs {
namespace {

constexpr int kSpins = 1000;  // polls before sleeping, while other ranks must answer
constexpr int kSpinsWhenShared = 20;
// Pause between rounds while the program polls: each round then serves several tensors.
constexpr double kBurstMs = 0.2;
constexpr double kLook = 0.02;                      // seconds asleep while something is awaited
constexpr double kIdleLook = 0.1;                   // seconds asleep otherwise
constexpr int64_t kFuseBelow = int64_t{512} << 10;  // in shared memory, copying larger ones costs
                                                    // more than it saves
constexpr size_t kAhead = 6;  // operations read ahead, because another core has written them

uint64_t ns_between(Clock::time_point begin, Clock::time_point end) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
}

uint64_t ns_since(Clock::time_point begin) { return ns_between(begin, Clock::now()); }

}  // namespace

Job::Job(const WorldRequest& request, const JobOptions& options, Timeline& timeline)
    : Job(make_world(request), options, timeline) {}

Job::Job(World world, const JobOptions& options, Timeline& timeline)
    : rank(world.communicator->rank()),
      size(world.communicator->size()),
      topology(world.topology),
      backend(world.communicator->backend()),
      options_(options),
      timeline_(timeline),
      negotiator_(rank, size, static_cast<size_t>(options.cache_capacity)),
      runner_(timeline),
      calls_(size,
             [this](int32_t set) {
               return negotiator_.has_set(set) ? &negotiator_.members(set) : nullptr;
             }),
      spins_(shm::cores_for_all(topology.local_size) ? kSpins : kSpinsWhenShared),
      settings_(options.settings) {
  groups_[0] = std::move(world.communicator);
  check_versions();
  check_process_sets();
  if (backend == "shm" || backend == "local") options_.settings.fuse_below = kFuseBelow;
  control_ = make_control(*groups_[0], [this] { return negotiator_.settings().cycle_ms; });
  negotiator_.propose(options_.settings);
  sets_[0] = negotiator_.members(0);
  slot_calls_->connect(*control_, shm::cores_for_all(topology.local_size));
  for (const auto& ranks : options_.process_sets) {
    for (const int r : ranks)
      MX_CHECK(r >= 0 && r < size, "process set of rank ", r, " given, the job has ", size,
               " processes");
    MX_CHECK(!negotiator_.find_set(ranks), "the process set of ", ranks_text(ranks),
             " is given twice");
    const int number = negotiator_.add_set(ranks);
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    groups_[number] =
        groups_[0]->split(place == ranks.end() ? -1 : 0, static_cast<int>(place - ranks.begin()));
    sets_[number] = ranks;
  }
  add_slots();
  if (rank != 0) return;
  if (!options_.timeline.empty())
    timeline_.start(options_.timeline, options_.timeline_marks_cycles);
  announced_ = [this](int from, const Request& r) {
    std::string activity = str("NEGOTIATE_", collective_name(r.kind));
    std::transform(activity.begin(), activity.end(), activity.begin(), ::toupper);
    if (negotiating_.insert(r.key()).second) timeline_.begin(r.name, activity);
    timeline_.instant(r.name, std::to_string(from));
  };
}

Job::~Job() {
  slot_calls_->close(communicator_error("the job has ended"));
  if (rank == 0) timeline_.stop();
}

void Job::loop() noexcept {
  try {
    while (step()) {
    }
  } catch (const std::exception& e) {
    lost_ = true;
    for (auto& [set, group] : groups_)
      if (group) group->fail_all(e.what());
    for (auto& [set, group] : gpu_groups_)
      if (group.communicator) group.communicator->fail_all(e.what());
    control_->fail_all(e.what());
    end(e.what());
  }
}

bool Job::step() {
  const uint32_t seen = control_->rings();
  attend_slot_calls();
  if (!round_open_) begin_round();
  if (round_open_) {
    bool ready = control_->ready();
    // Waits once per round: the other ranks ring when they have arrived.
    for (int i = spun_ ? spins_ : 0; i < spins_ && !ready; ++i) {
      _mm_pause();
      ready = control_->ready();
    }
    spun_ = true;
    if (ready) {
      process();
      std::lock_guard lock(mutex_);
      return !ended_;
    }
  }
  check_stalls();
  sleep(seen);
  std::lock_guard lock(mutex_);
  return !ended_;
}

void Job::begin_round() {
  const auto begin = Clock::now();
  std::vector<const SharedRequest*> news = take_news();
  uint8_t flags = give_up_ ? kStalled : 0;
  {
    std::lock_guard lock(mutex_);
    if (stop_requested_) flags |= kShutdown;
    if (leave_requested_ && !leave_announced_) flags |= kLeaving;
  }
  const bool has_news = !news.empty() || calls_.has_news();
  const bool something = has_news || flags != 0 || !lacks_left_.empty();
  if ((something && seconds_to_next_round() <= 0) || control_->wanted()) {
    const std::vector<std::byte> named = negotiator_.make_frame(std::move(news), flags);
    FrameWriter frame;
    calls_.write(frame);
    frame.bytes(named);
    if (timeline_.runs()) timeline_.cycle();
    round_began_ = Clock::now();
    control_->post(frame.take());
    spun_ = false;
    leave_announced_ |= (flags & kLeaving) != 0;
    std::lock_guard lock(mutex_);
    round_open_ = true;
    needs_rings_ = false;
    stats_.negotiation_ns += ns_since(begin);
  } else if (has_news) {
    held_ = std::move(news);
    std::lock_guard lock(mutex_);
    needs_rings_ = false;
    stats_.negotiation_ns += ns_since(begin);
  }
}

double Job::seconds_to_next_round() const {
  double ms = burst_ ? kBurstMs : 0;
  if (options_.wait_for_cycle) ms = negotiator_.settings().cycle_ms;
  return ms * 1e-3 - static_cast<double>(ns_since(round_began_)) * 1e-9;
}

void Job::sleep(uint32_t seen) {
  const bool awaits =
      open_ > 0 || !ordered_.empty() || round_open_ || slot_calls_->used() || gpus_busy();
  double seconds = awaits ? kLook : kIdleLook;
  if (!held_.empty() || calls_.has_news() || !lacks_left_.empty())
    seconds = std::min(seconds, std::max(0.0, seconds_to_next_round()));
  control_->sleep(seen, seconds);
  if (ns_since(looked_) > static_cast<uint64_t>(kLook * 1e9)) {
    looked_ = Clock::now();
    control_->look();
    look_at_gpus();
  }
}

std::vector<const SharedRequest*> Job::take_news() {
  fresh_.clear();
  fresh_.swap(next_);
  {
    std::lock_guard lock(mutex_);
    if (fresh_.empty())
      fresh_.swap(inbox_);
    else
      fresh_.insert(fresh_.end(), inbox_.begin(), inbox_.end());
    inbox_.clear();
  }
  std::vector<const SharedRequest*> news = std::move(held_);
  held_.clear();
  news.reserve(news.size() + fresh_.size());
  for (size_t i = 0; i < fresh_.size(); ++i) {
    if (i + kAhead < fresh_.size()) __builtin_prefetch(fresh_[i + kAhead].get());
    OperationRef& operation = fresh_[i];
    if (operation->number != 0) {
      announce_call(operation);
      continue;
    }
    const SharedRequest* asked = operation->asked.get();
    if (open(operation)) {
      news.push_back(asked);
    } else if (operation->queues) {
      queued_[operation->request().key()].push_back(std::move(operation));
    } else {
      const std::string error = str(
          collective_name(operation->request().kind), ": the tensor '", operation->request().name,
          "' has the same name as another tensor that is currently being processed on rank ", rank,
          "; give each its own name, or wait for the first");
      notify({&operation, 1}, communicator_error(error.c_str()));
    }
  }
  fresh_.clear();
  return news;
}

bool Job::open(OperationRef& operation) {
  const SharedRequest& asked = *operation->asked;
  const CacheNumber number = negotiator_.number_of(asked);
  if (!pending_.empty() && pending_.count(asked.terms.key()) > 0) return false;
  if (number.index == kNoNumber) {
    const auto place = pending_.try_emplace(asked.terms.key(), nullptr).first;
    place->second.swap(operation);
  } else {
    if (known_.size() <= number.index) known_.resize(number.index + 1);
    Known& place = known_[number.index];
    if (place.operation) return false;
    place.stamp = number.stamp;
    place.operation.swap(operation);
  }
  ++open_;
  return true;
}

OperationRef Job::close(const ResponseEntry& entry) {
  const uint32_t index = entry.number.index;
  OperationRef operation;
  if (index < known_.size() && known_[index].operation &&
      known_[index].stamp == entry.number.stamp) {
    operation.swap(known_[index].operation);
  } else {
    const auto found = pending_.find(entry.first().key());
    if (found == pending_.end()) return nullptr;
    operation.swap(found->second);
    pending_.erase(found);
  }
  --open_;
  return operation;
}

// Their operations are not done: from now on they are found by name.
void Job::forget(const std::vector<uint32_t>& numbers) {
  for (const uint32_t index : numbers) {
    if (index >= known_.size() || !known_[index].operation) continue;
    OperationRef& operation = known_[index].operation;
    pending_.try_emplace(operation->request().key(), nullptr).first->second.swap(operation);
  }
}

void Job::process() {
  const auto begin = Clock::now();
  const bool marks = rank == 0 && timeline_.runs();
  std::vector<std::vector<std::byte>> frames = control_->take();
  for (size_t r = 0; r < frames.size(); ++r) {
    FrameReader frame(frames[r], kNegotiationFrame);
    calls_.read(static_cast<int>(r), frame);
    std::vector<std::byte> named(frame.left());
    frame.bytes(named.data(), named.size());
    frames[r] = std::move(named);
  }
  Negotiator::Outcome outcome = negotiator_.process(frames, marks ? &announced_ : nullptr);
  forget(outcome.forgotten);
  {
    std::lock_guard lock(mutex_);
    round_open_ = false;
    needs_rings_ = true;
    burst_ = !inbox_.empty();
    stats_.negotiation_ns += ns_since(begin);
    ++stats_.rounds;
    stats_.cache_hits = negotiator_.cache_hits();
    settings_ = negotiator_.settings();
  }
  for (const Response& response : outcome.responses) carry_out(response);
  carry_out_calls();
  slot_calls_->wake_for_calls(calls_.has_waiting());
  if (!outcome.responses.empty()) {
    std::lock_guard lock(mutex_);
    last_operation_ = Clock::now();
  }
  if (outcome.stalled) {
    stalled_ = true;
    return end(given_up_text(stalls(0)).c_str());
  }
  end_if_left(std::move(outcome.shutdown), outcome.leaving);
}

void Job::carry_out(const Response& response) {
  const auto taken_up = Clock::now();
  std::vector<OperationRef>& operations = operations_;
  operations.clear();
  operations.reserve(response.entries.size());  // reserved before operations are closed, so none is
                                                // lost
  for (const ResponseEntry& entry : response.entries) {
    if (!negotiating_.empty() && negotiating_.erase(entry.first().key()) > 0)
      timeline_.end(entry.first().name);
    OperationRef operation = close(entry);
    if (!operation) continue;
    operations.push_back(std::move(operation));
    if (queued_.empty()) continue;
    if (const auto waiting = queued_.find(entry.first().key()); waiting != queued_.end()) {
      next_.push_back(std::move(waiting->second.front()));
      waiting->second.pop_front();
      if (waiting->second.empty()) queued_.erase(waiting);
    }
  }
  const auto group = groups_.find(response.set);
  if (operations.empty()) return;  // the response is for another set
  if (!response.error.empty()) {
    notify(operations, communicator_error(response.error.c_str()));
    return operations.clear();
  }
  MX_ASSERT(operations.size() == response.entries.size() && group != groups_.end());
  {
    std::lock_guard lock(mutex_);
    stats_.negotiation_ns += ns_since(taken_up);
  }
  if (response.kind != CollectiveKind::kAddSet && response.kind != CollectiveKind::kRemoveSet)
    return run_operations(operations, *response.entries[0].requests);
  change_sets(response, *operations[0]);
  notify(operations, nullptr);
  operations.clear();
}

void Job::change_sets(const Response& response, Operation& operation) {
  if (response.kind == CollectiveKind::kRemoveSet) {
    const int number = static_cast<int>(operation.request().splits[0]);
    gpu_groups_.erase(number);
    groups_.erase(number);
    fail_calls_of(number);
    std::lock_guard lock(mutex_);
    sets_.erase(number);
    return;
  }
  const std::vector<int> ranks(operation.request().splits.begin(),
                               operation.request().splits.end());
  const int number = *negotiator_.find_set(ranks);
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  groups_[0]->describe(operation.request().name);
  groups_[number] =
      groups_[0]->split(place == ranks.end() ? -1 : 0, static_cast<int>(place - ranks.begin()));
  if (groups_[number]) slot_calls_->add_group(number, *groups_[number], ranks);
  operation.set_number = number;
  std::lock_guard lock(mutex_);
  sets_[number] = ranks;
}

void Job::submit(std::vector<OperationRef> operations) {
  if (operations.size() == 1 && operations[0]->number != 0 && uses_slots() &&
      slot_calls_->take(operations[0])) {
    // The worker of the engine polls after the task; any other thread continues with its program.
    if (!engine::on_polling_worker()) slot_calls_->poll_briefly();
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

void Job::abort(const char* reason) noexcept {
  control_->fail_all(reason);
  control_->ring();
}

bool Job::lost() {
  std::lock_guard lock(mutex_);
  return ended_ && (lost_ || stalled_);
}

bool Job::ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

void Job::end(const char* reason) noexcept {
  const std::exception_ptr cause = communicator_error(reason);
  std::vector<OperationRef> inbox;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    cause_ = cause;
    inbox.swap(inbox_);
    given_up_ended_.notify_all();
  }
  slot_calls_->close(cause);  // first: calls of ordered_ may be complete in slots
  // After an error in the middle of a step, some operations are only in fresh_ and operations_.
  for (const auto* operations : {&inbox, &fresh_, &operations_, &next_}) notify(*operations, cause);
  for (const Known& known : known_) notify({&known.operation, 1}, cause);
  for (const auto& [key, operation] : pending_) notify({&operation, 1}, cause);
  for (const auto& [key, operations] : queued_)
    for (const OperationRef& operation : operations) notify({&operation, 1}, cause);
  for (const auto& [key, operation] : ordered_) notify({&operation, 1}, cause);
  fresh_.clear();
  operations_.clear();
  next_.clear();
  known_.clear();
  pending_.clear();
  queued_.clear();
  ordered_.clear();
  open_ = 0;
}

std::vector<int> Job::set_members(int set) {
  std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  MX_CHECK(found != sets_.end(), "process set ", set, " does not exist");
  return found->second;
}

JobStats Job::stats() {
  const SlotCalls::Counts slots = slot_calls_->counts();
  std::lock_guard lock(mutex_);
  JobStats all = stats_;
  all.responses += slots.calls;
  all.tensors += slots.calls;
  all.bytes += slots.bytes;
  return all;
}

JobSettings Job::settings() {
  std::lock_guard lock(mutex_);
  return settings_;
}

}  // namespace mxlite::jobs
