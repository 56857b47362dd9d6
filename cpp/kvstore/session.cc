#include "cpp/kvstore/session.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite {
namespace {

constexpr int kSpins = 1000;       // of polls before sleeping, while other ranks must answer
constexpr double kLook = 0.02;     // seconds asleep while something is awaited
constexpr double kIdleLook = 0.1;  // seconds asleep otherwise
constexpr int64_t kFuseBelow = int64_t{512} << 10;  // in shared memory, copying more costs more
constexpr double kLongestStall = 3600;
constexpr uint32_t kProtocol = 1;
constexpr size_t kNamesInWarning = 6;

uint64_t ns_since(Clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += str(text.empty() ? "" : ", ", r);
  return str(ranks.size() == 1 ? "rank " : "ranks ", text);
}

std::exception_ptr as_exception(const std::string& text) {
  return std::make_exception_ptr(Error(ErrorKind::kCommunicator, text));
}

}  // namespace

Session::Session(const WorldRequest& request, const RuntimeOptions& options, Timeline& timeline)
    : Session(make_world(request), options, timeline) {}

Session::Session(World world, const RuntimeOptions& options, Timeline& timeline)
    : rank(world.communicator->rank()),
      size(world.communicator->size()),
      topology(world.topology),
      backend(world.communicator->backend()),
      options_(options),
      timeline_(timeline),
      negotiator_(rank, size, static_cast<size_t>(options.cache_capacity)),
      executor_(timeline),
      autotuner_(options.autotune, options.settings),
      settings_(options.settings) {
  groups_[0] = std::move(world.communicator);
  check_versions();
  if (backend == "shm" || backend == "local") options_.settings.fuse_below = kFuseBelow;
  control_ = make_control(*groups_[0], [this] { return negotiator_.settings().cycle_ms; });
  negotiator_.propose(options_.settings);
  sets_[0] = negotiator_.members(0);
  for (const auto& ranks : options_.process_sets) {
    for (const int r : ranks)
      MX_CHECK(r >= 0 && r < size, "init: process set of rank ", r, " given, the job has ", size,
               " processes");
    MX_CHECK(!negotiator_.find_set(ranks), "init: the process set of ", ranks_text(ranks),
             " is given twice");
    const int number = negotiator_.add_set(ranks);
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    groups_[number] =
        groups_[0]->split(place == ranks.end() ? -1 : 0, static_cast<int>(place - ranks.begin()));
    sets_[number] = ranks;
  }
  if (rank != 0) return;
  if (!options_.timeline.empty())
    timeline_.start(options_.timeline, options_.timeline_marks_cycles);
  negotiator_.on_announce = [this](int from, const Request& r) {
    if (!timeline_.runs()) return;
    std::string activity = str("NEGOTIATE_", collective_name(r.kind));
    std::transform(activity.begin(), activity.end(), activity.begin(), ::toupper);
    if (negotiating_.insert(r.key()).second) timeline_.begin(r.name, activity);
    timeline_.instant(r.name, std::to_string(from));
  };
}

Session::~Session() {
  if (rank == 0) timeline_.stop();
}

// All ranks must speak the same protocol, or a rank of another version would misread frames.
void Session::check_versions() {
  struct Version {
    uint32_t protocol = kProtocol;
    char build[28] = {};
  } mine;
  std::strncpy(mine.build, options_.version.c_str(), sizeof mine.build - 1);
  std::vector<Version> all(static_cast<size_t>(size));
  groups_[0]->describe("versions");
  groups_[0]->all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  for (int r = 0; r < size; ++r) {
    const Version& theirs = all[static_cast<size_t>(r)];
    MX_CHECK_KIND(theirs.protocol == mine.protocol && !std::strcmp(theirs.build, mine.build),
                  ErrorKind::kCommunicator, "rank ", r, " runs mxlite ", theirs.build, ", rank ",
                  rank, " runs ", mine.build, ": all ranks need the same version");
  }
}

void Session::loop() noexcept {
  std::string reason;
  try {
    while (step()) {
    }
    return;
  } catch (const std::exception& e) {
    reason = e.what();
  }
  lost_ = true;
  for (auto& [set, group] : groups_)
    if (group) group->fail_all(reason);
  control_->fail_all(reason);
  end(reason);
}

bool Session::step() {
  const uint32_t seen = control_->rings();
  if (!round_open_) {
    const auto begin = Clock::now();
    std::vector<const Request*> news = take_news();
    uint8_t flags = give_up_ ? kStalled : 0;
    {
      std::lock_guard lock(mutex_);
      if (stop_requested_) flags |= kShutdown;
    }
    const bool something = !news.empty() || flags != 0;
    if ((something && may_begin_round()) || control_->wanted()) {
      std::vector<std::byte> frame = negotiator_.make_frame(std::move(news), flags);
      if (timeline_.runs()) timeline_.cycle();
      round_began_ = Clock::now();
      control_->post(std::move(frame));
      round_open_ = true;
      std::lock_guard lock(mutex_);
      stats_.negotiation_ns += ns_since(begin);
    } else if (!news.empty()) {
      held_ = std::move(news);
    }
  }
  if (round_open_) {
    bool ready = control_->ready();
    for (int i = 0; i < kSpins && !ready; ++i) {
      _mm_pause();
      ready = control_->ready();
    }
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

bool Session::may_begin_round() const {
  if (!options_.wait_for_cycle && !autotuning()) return true;
  const double ms = static_cast<double>(ns_since(round_began_)) * 1e-6;
  return ms >= negotiator_.settings().cycle_ms;
}

void Session::sleep(uint32_t seen) {
  double seconds = pending_.empty() && !round_open_ ? kIdleLook : kLook;
  if (!held_.empty()) seconds = std::min(seconds, negotiator_.settings().cycle_ms * 1e-3);
  control_->sleep(seen, seconds);
  if (ns_since(looked_) > static_cast<uint64_t>(kLook * 1e9)) {
    looked_ = Clock::now();
    control_->look();
  }
}

std::vector<const Request*> Session::take_news() {
  std::vector<OperationRef> fresh = std::move(next_);
  next_.clear();
  {
    std::lock_guard lock(mutex_);
    fresh.insert(fresh.end(), inbox_.begin(), inbox_.end());
    inbox_.clear();
  }
  std::vector<const Request*> news = std::move(held_);
  held_.clear();
  news.reserve(news.size() + fresh.size());
  for (OperationRef& operation : fresh) {
    const auto [place, unused] = pending_.try_emplace(operation->request.key(), operation);
    if (!unused && operation->queues) {
      queued_[std::string(place->first)].push_back(std::move(operation));
      continue;
    }
    if (!unused) {
      tell(*operation,
           str(collective_name(operation->request.kind), ": the tensor '", operation->request.name,
               "' has the same name as another tensor that is currently being processed on rank ",
               rank, "; give each its own name, or wait for the first"));
      continue;
    }
    news.push_back(&operation->request);
  }
  return news;
}

void Session::process() {
  round_open_ = false;
  const auto begin = Clock::now();
  Negotiator::Outcome outcome = negotiator_.process(control_->take());
  {
    std::lock_guard lock(mutex_);
    stats_.negotiation_ns += ns_since(begin);
    ++stats_.rounds;
    stats_.cache_hits = negotiator_.cache_hits();
    settings_ = negotiator_.settings();
  }
  int64_t bytes = 0;
  for (const Response& response : outcome.responses) {
    carry_out(response);
    for (const ResponseEntry& entry : response.entries)
      bytes += static_cast<int64_t>(entry.first().bytes());
  }
  if (autotuning() && bytes > 0) {
    const double seconds = static_cast<double>(ns_since(last_traffic_)) * 1e-9;
    last_traffic_ = Clock::now();
    if (rank == 0)
      if (const auto settings = autotuner_.record(bytes, seconds)) {
        NegotiationSettings next = *settings;
        next.fuse_below = options_.settings.fuse_below;
        negotiator_.propose(next);
      }
  }
  if (outcome.stalled) {
    std::string text =
        "rank 0 has given up waiting (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, "
        "MXLITE_COMM_TIMEOUT):";
    for (const Stall& stall : negotiator_.stalls(0))
      text += str(" '", stall.name, "' misses ", ranks_text(stall.missing), " since ",
                  static_cast<int64_t>(stall.seconds), " s;");
    text.back() = '.';
    stalled_ = true;
    return end(text);
  }
  if (!outcome.shutdown.empty())
    end(str("the job has been shut down by ", ranks_text(outcome.shutdown),
            ": it has ended or has called shutdown(), and takes part in no further operation"));
}

void Session::carry_out(const Response& response) {
  const auto taken_up = Clock::now();
  std::vector<OperationRef> operations;
  operations.reserve(response.entries.size());
  for (const ResponseEntry& entry : response.entries) {
    const std::string& key = entry.first().key();
    if (!negotiating_.empty() && negotiating_.erase(key) > 0) timeline_.end(entry.first().name);
    const auto found = pending_.find(key);
    if (found == pending_.end()) continue;
    operations.push_back(std::move(found->second));
    pending_.erase(found);
    if (queued_.empty()) continue;
    if (const auto waiting = queued_.find(key); waiting != queued_.end()) {
      next_.push_back(std::move(waiting->second.front()));
      waiting->second.pop_front();
      if (waiting->second.empty()) queued_.erase(waiting);
    }
  }
  const auto group = groups_.find(response.set);
  if (operations.empty()) return;  // another set's
  if (!response.error.empty()) {
    for (const auto& o : operations) tell(*o, response.error);
    return;
  }
  MX_ASSERT(operations.size() == response.entries.size() && group != groups_.end());
  const auto begin = Clock::now();
  const auto bookkeeping = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin - taken_up).count());
  if (response.kind == CollectiveKind::kAddSet || response.kind == CollectiveKind::kRemoveSet) {
    change_sets(response, *operations[0]);
  } else {
    try {
      executor_.run(response, operations, *group->second, negotiator_.members(response.set));
    } catch (const std::exception& e) {
      for (const auto& o : operations) tell(*o, e.what());
      throw;
    }
  }
  for (const auto& o : operations) tell(*o, {});
  std::lock_guard lock(mutex_);
  ++stats_.responses;
  stats_.tensors += operations.size();
  for (const auto& o : operations) stats_.bytes += o->request.bytes();
  stats_.negotiation_ns += bookkeeping;
  stats_.collective_ns += ns_since(begin);
}

void Session::change_sets(const Response& response, NamedOperation& operation) {
  if (response.kind == CollectiveKind::kRemoveSet) {
    const int number = static_cast<int>(operation.request.splits[0]);
    groups_.erase(number);
    std::lock_guard lock(mutex_);
    sets_.erase(number);
    return;
  }
  const std::vector<int> ranks(operation.request.splits.begin(), operation.request.splits.end());
  const int number = *negotiator_.find_set(ranks);
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  groups_[0]->describe(operation.request.name);
  groups_[number] =
      groups_[0]->split(place == ranks.end() ? -1 : 0, static_cast<int>(place - ranks.begin()));
  operation.set_number = number;
  std::lock_guard lock(mutex_);
  sets_[number] = ranks;
}

void Session::check_stalls() {
  if (rank != 0 || pending_.empty() || ns_since(stalls_checked_) < uint64_t{1000000000} / 2) return;
  stalls_checked_ = Clock::now();
  double limit = options_.stall_shutdown;
  if (limit <= options_.stall_warning)
    limit = env_string("MXLITE_COMM_TIMEOUT", "").empty() ? kLongestStall : comm_timeout();
  if (!negotiator_.stalls(limit).empty()) give_up_ = true;
  if (options_.stall_warning <= 0 || ns_since(stalls_warned_) < options_.stall_warning * 1e9)
    return;
  const std::vector<Stall> stalls = negotiator_.stalls(options_.stall_warning);
  if (stalls.empty()) return;
  stalls_warned_ = Clock::now();
  std::map<int, std::vector<std::string>> by_rank;
  for (const Stall& stall : stalls)
    for (const int r : stall.missing) by_rank[r].push_back(stall.name);
  std::string text = str(
      "mxlite: one or more tensors were submitted by some ranks and are awaited from others for "
      "more than ",
      options_.stall_warning,
      " seconds. Maybe the ranks do not call the same operations, or a rank works or sleeps for "
      "long.\nStalled ranks:");
  for (const auto& [r, names] : by_rank) {
    text += str("\n", r, ": [");
    for (size_t i = 0; i < names.size() && i < kNamesInWarning; ++i)
      text += str(i ? ", " : "", names[i]);
    text += names.size() > kNamesInWarning ? " ...]" : "]";
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Session::submit(std::vector<OperationRef> operations) {
  std::string reason;
  {
    std::lock_guard lock(mutex_);
    if (!ended_) {
      inbox_.insert(inbox_.end(), operations.begin(), operations.end());
      control_->ring();
      return;
    }
    reason = reason_;
  }
  for (const auto& o : operations) tell(*o, reason);
}

void Session::request_stop() {
  std::lock_guard lock(mutex_);
  stop_requested_ = true;
  control_->ring();
}

void Session::abort(const std::string& reason) noexcept {
  control_->fail_all(reason);
  control_->ring();
}

bool Session::lost() {
  std::lock_guard lock(mutex_);
  return ended_ && (lost_ || stalled_);
}

bool Session::ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

void Session::end(const std::string& reason) {
  std::vector<OperationRef> left;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    reason_ = reason;
    left.swap(inbox_);
  }
  for (const auto& [key, operation] : pending_) left.push_back(operation);
  for (const auto& [key, operations] : queued_)
    left.insert(left.end(), operations.begin(), operations.end());
  left.insert(left.end(), next_.begin(), next_.end());
  pending_.clear();
  queued_.clear();
  next_.clear();
  for (const auto& o : left) tell(*o, reason);
}

void Session::tell(NamedOperation& operation, const std::string& error) {
  auto done = std::move(operation.done);
  operation.done = nullptr;
  if (done) done(error.empty() ? nullptr : as_exception(error));
}

std::vector<int> Session::set_members(int set) {
  std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  MX_CHECK(found != sets_.end(), "process set ", set, " does not exist");
  return found->second;
}

RuntimeStats Session::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

NegotiationSettings Session::settings() {
  std::lock_guard lock(mutex_);
  return settings_;
}

}  // namespace mxlite
