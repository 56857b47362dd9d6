#include "cpp/kvstore/comm/shm/channel.h"

#include <immintrin.h>
#include <sched.h>
#include <signal.h>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"

namespace mxlite::shm {
namespace {

constexpr int kSpins = 2000;  // polls before sleeping, which take some hundred microseconds
// Number of polls after which the rank yields its core between polls.
constexpr int kSpinsWithoutYielding = 200;
constexpr int kSpinsWhenShared = 20;  // used if ranks outnumber cores, because a peer may need this
                                      // core
constexpr double kLook = 0.02;        // seconds of sleep between checks for dead ranks

// Compares steps by their difference, because step numbers wrap around.
bool reached(uint32_t step, uint32_t wanted) { return static_cast<int32_t>(step - wanted) >= 0; }

}  // namespace

bool cores_for_all(int ranks) {
  cpu_set_t mask;
  const int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return ranks <= cores;
}

Channel::Channel(std::shared_ptr<SharedSegment> segment, int rank, std::vector<int> members)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(static_cast<int>(segment_->header().ranks)),
      members_(std::move(members)),
      buffer_bytes_(segment_->buffer_bytes()),
      spins_(cores_for_all(size_) ? kSpins : kSpinsWhenShared),
      membership_(segment_, rank) {}

void Channel::begin(const Operation& operation) {
  ++operation_number_;
  first_step_ = step_ + 1;
  operation_ = operation;
  checked_ = 0;
  segment_->rank(rank_).progress.signature[operation_number_ % kSignatures].store(
      signature_of(operation), std::memory_order_relaxed);
  if (const auto failure = segment_->failure()) mxlite::fail(ErrorKind::kCommunicator, *failure);
}

int Channel::acquire() {
  const int buffer = next_buffer_;
  next_buffer_ = (next_buffer_ + 1) % kBuffers;
  wait_all(free_at_[static_cast<size_t>(buffer)]);
  return buffer;
}

uint32_t Channel::publish() {
  Progress& progress = segment_->rank(rank_).progress;
  // Sequential consistency is needed: either a rank sees the step before it sleeps, or this rank
  // sees that the other rank sleeps.
  progress.step.store(++step_, std::memory_order_seq_cst);
  if (progress.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(progress.step);
  return step_;
}

void Channel::wait(int r, uint32_t step) {
  if (r == rank_) return;
  const auto& word = segment_->rank(r).progress.step;
  bool come = false;
  for (int i = 0; i < spins_ && !come; ++i) {
    come = reached(word.load(std::memory_order_acquire), step);
    if (come) break;
    if (i < kSpinsWithoutYielding)
      _mm_pause();
    else
      sched_yield();
  }
  if (!come) wait_slowly(r, step);
  // Ignores earlier steps, because they belong to the previous operation, for which `acquire`
  // waits.
  if (reached(step, first_step_) && operation_number_ > 0) check_signature(r);
}

bool Channel::come(int r, uint32_t step) const {
  return r == rank_ ||
         reached(segment_->rank(r).progress.step.load(std::memory_order_acquire), step);
}

void Channel::look() {
  if (const auto failure = segment_->failure()) mxlite::fail(ErrorKind::kCommunicator, *failure);
  check_life(/*r=*/-1, step_);
}

void Channel::wait_slowly(int r, uint32_t step) {
  Progress& progress = segment_->rank(r).progress;
  const Deadline deadline(comm_timeout());
  for (;;) {
    progress.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = progress.step.load(std::memory_order_seq_cst);
    const bool come = reached(seen, step);
    if (!come) futex_wait(progress.step, seen, kLook);
    progress.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (come || reached(progress.step.load(std::memory_order_acquire), step)) return;
    if (const auto failure = segment_->failure()) mxlite::fail(ErrorKind::kCommunicator, *failure);
    check_life(r, step);
    if (deadline.over())
      fail(str("waited ", comm_timeout(), " s (MXLITE_COMM_TIMEOUT) for rank ", name_of(r), ": ",
               life_text(segment_->rank(r))));
  }
}

void Channel::check_life(int r, uint32_t step) {
  // Checks all ranks, because rank r may be waiting for a lost rank.
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    const RankState& state = segment_->rank(other);
    const Life life = life_of(state);
    if (life == Life::kAlive) continue;
    // A rank that has left normally has published its steps of all earlier operations.
    if (life == Life::kLeft && (other != r || reached(state.progress.step.load(), step))) continue;
    fail(str("rank ", name_of(other), " is lost: ", life_text(state)));
  }
}

void Channel::check_signature(int r) {
  const uint64_t bit = uint64_t{1} << (r % 64);
  if (size_ <= 64 && (checked_ & bit)) return;
  const uint64_t theirs =
      segment_->rank(r).progress.signature[operation_number_ % kSignatures].load(
          std::memory_order_relaxed);
  if (theirs == signature_of(operation_)) {
    checked_ |= bit;
    return;
  }
  fail(str("ranks disagree: rank ", name_of(rank_), " calls ",
           signature_text(signature_of(operation_)), ", rank ", name_of(r), " calls ",
           signature_text(theirs)));
}

std::string Channel::operation_text() const {
  std::string text = str("rank ", name_of(rank_));
  if (members_.empty()) text += str(" of ", size_);
  if (operation_number_ == 0) return text;
  text += str(": ", collective_call_name(operation_.call), " number ", operation_number_);
  if (!what_.empty()) text += str(" (", what_, ")");
  return text;
}

void Channel::fail(const std::string& reason) {
  const std::string text = str(operation_text(), ": ", reason);
  segment_->fail_all(text.c_str());
  // Another rank may have reported a failure first.
  mxlite::fail(ErrorKind::kCommunicator, segment_->failure().value_or(text));
}

void Channel::end_hung_ranks() noexcept {
  segment_->rank(rank_).rebuilding.store(1);
  const Deadline deadline(comm_timeout());
  for (int r = 0; r < size_; ++r) {
    RankState& state = segment_->rank(r);
    while (r != rank_ && !state.rebuilding.load()) {
      const Life life = life_of(state);
      const bool known = state.namespace_.load() == pid_namespace() && state.process.load() > 0;
      if (life == Life::kDead || !known) break;
      if (life == Life::kSilent || deadline.over()) {
        kill(static_cast<pid_t>(state.process.load()), SIGKILL);
        break;
      }
      futex_wait(state.rebuilding, 0, kLook);
    }
  }
}

void Channel::wait_arrival() {
  Header& header = segment_->header();
  const Deadline deadline(comm_timeout());
  while (header.arrived.load() < header.ranks) {
    if (const auto failure = segment_->failure()) mxlite::fail(ErrorKind::kCommunicator, *failure);
    if (deadline.over())
      fail(str("only ", header.arrived.load(), " of ", header.ranks,
               " ranks have joined the shared memory in ", comm_timeout(), " s"));
    for (int r = 0; r < size_; ++r) {
      const RankState& state = segment_->rank(r);
      if (r != rank_ && life_of(state) == Life::kDead)
        fail(str("rank ", name_of(r), " is lost: ", life_text(state)));
    }
    futex_wait(header.arrived, header.arrived.load(), kLook);
  }
}

}  // namespace mxlite::shm
