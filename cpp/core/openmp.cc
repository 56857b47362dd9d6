// Note [Regions of threads]
// A region has a number of shares. Its body runs once for each share, and get_thread_num() is the
// index of the share. The thread that begins the region runs share 0, and threads of its team claim
// the other shares. Then the thread that began the region runs all unclaimed shares. On a busy
// machine, a thread that has no core therefore delays the region only if the thread lost its core
// during a share. In contrast, libgomp, OpenMP's library of GCC, waits for all of its threads.
//
// Shares may wait for each other (in wait_at_barrier and at spinning barriers within oneDNN's
// kernels). Therefore a team has a thread for every share.
//
// Note [Subnormal numbers in regions]
// Threads of a region that run_region begins flush subnormal numbers if and only if the thread that
// begins the region flushes them. oneDNN calls begin_region, and its kernels must flush. Therefore
// helping threads flush subnormal numbers between regions, and run_body sets and restores the flags
// of each thread.
#include "cpp/core/openmp.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <thread>

#include "cpp/base/small_vector.h"
#include "cpp/core/subnormals.h"
#include "cpp/core/threads.h"

namespace mxlite::openmp {
namespace {

// Increased in the child of a fork, which does not have the threads of any team.
std::atomic<int> process_generation{0};

void pause_core() {
#ifdef __SSE2__
  _mm_pause();
#endif
}

// A counter for which threads wait by polling first and sleeping afterwards. std::atomic::wait is
// not used, because it yields the core to other programs before it sleeps.
class Counter {
 public:
  uint32_t load() const { return value_.load(std::memory_order_acquire); }
  void set(uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  uint32_t add(int change) { return value_.fetch_add(static_cast<uint32_t>(change)) + change; }
  // Wakes up to `count` threads that sleep in wait_while().
  void wake(int count) {
    if (sleepers_.load() > 0) futex(FUTEX_WAKE_PRIVATE, static_cast<uint32_t>(count));
  }
  // Returns when the value differs from `old`.
  void wait_while(uint32_t old) {
    const int64_t polls = thread_polls();
    for (int64_t i = 0; i < polls; ++i) {
      if (load() != old) return;
      pause_core();
    }
    sleepers_.fetch_add(1);
    while (load() == old) futex(FUTEX_WAIT_PRIVATE, old);
    sleepers_.fetch_sub(1);
  }

 private:
  void futex(int operation, uint32_t value) {
    syscall(SYS_futex, &value_, operation, value, nullptr, nullptr, 0);
  }
  std::atomic<uint32_t> value_{0};
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<int> sleepers_{0};
};

// The threads that help one thread to run a region, and this region.
class Team {
 public:
  // Begins a region and returns its number of shares, which is smaller than `wanted` if the system
  // has no more threads.
  unsigned begin(Body body, void* data, unsigned wanted);
  // Runs the unclaimed shares and waits for the other shares.
  void end();
  void wait_at_barrier();

  bool belongs_to_this_process() const { return generation_ == process_generation.load(); }
  // Ends the threads. They keep the team alive until they have ended.
  void stop();
  static void add_threads(const std::shared_ptr<Team>& team, unsigned wanted);

 private:
  // Shares that are not claimed are [next, count).
  struct alignas(uint32_t) Claims {
    uint16_t next = 0, count = 0;
  };
  static_assert(std::atomic<Claims>::is_always_lock_free);

  void serve();
  void run_unclaimed();

  const int generation_ = process_generation.load();
  unsigned helpers_ = 0;
  Body body_ = nullptr;  // valid for a thread that has claimed a share
  void* data_ = nullptr;
  alignas(64) std::atomic<Claims> claims_{};
  alignas(64) Counter round_;  // number of regions begun, plus 1 after `stop`
  std::atomic<bool> stopped_{false};
  alignas(64) Counter unfinished_;  // number of unfinished shares, without share 0
  alignas(64) std::atomic<uint32_t> arrived_{0};
  Counter barrier_round_;
};

// The share that a thread runs now.
struct Share {
  Team* team = nullptr;
  unsigned index = 0, count = 1;
  struct {
    long start, end, step, chunk;
    long received;  // number of blocks that this share has received
  } loop{};         // the loop with schedule(static) that the share executes
};

struct ThreadState {
  Share share;
  SmallVector<Share, 4> outer;  // shares inside which regions of one share were begun
  std::shared_ptr<Team> team;
  int max_threads = 0;  // argument of omp_set_num_threads; 0 means cpu_threads()

  ~ThreadState() {
    if (team && team->belongs_to_this_process()) team->stop();
  }
};
thread_local ThreadState state;

unsigned Team::begin(Body body, void* data, unsigned wanted) {
  const unsigned count = std::min(wanted, helpers_ + 1);
  body_ = body;
  data_ = data;
  unfinished_.set(count - 1);
  claims_.store({1, static_cast<uint16_t>(count)}, std::memory_order_release);
  round_.add(1);
  round_.wake(static_cast<int>(count) - 1);
  return count;
}

void Team::run_unclaimed() {
  Claims now = claims_.load(std::memory_order_acquire);
  while (now.next < now.count) {
    const Claims later{static_cast<uint16_t>(now.next + 1), now.count};
    if (!claims_.compare_exchange_weak(now, later, std::memory_order_acq_rel)) continue;
    state.share = {this, now.next, now.count};
    body_(data_);
    if (unfinished_.add(-1) == 0) unfinished_.wake(1);
    now = claims_.load(std::memory_order_acquire);
  }
}

void Team::end() {
  run_unclaimed();
  for (uint32_t left; (left = unfinished_.load()) != 0;) unfinished_.wait_while(left);
}

void Team::wait_at_barrier() {
  const uint32_t round = barrier_round_.load();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == state.share.count) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_round_.add(1);
    barrier_round_.wake(std::numeric_limits<int>::max());
  } else {
    barrier_round_.wait_while(round);
  }
}

void Team::serve() {
  const FlushSubnormals flush;  // see Note [Subnormal numbers in regions]
  for (uint32_t seen = 0;;) {
    round_.wait_while(seen);
    seen = round_.load();
    if (stopped_.load(std::memory_order_acquire)) return;
    run_unclaimed();
    state.share = {};
  }
}

void Team::stop() {
  stopped_.store(true);
  round_.add(1);
  round_.wake(std::numeric_limits<int>::max());
}

void Team::add_threads(const std::shared_ptr<Team>& team, unsigned wanted) {
  if (team->helpers_ + 1 >= wanted) return;
  sigset_t all, before;  // signals go to the program's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (; team->helpers_ + 1 < wanted; ++team->helpers_)
      std::thread([team] { team->serve(); }).detach();
  } catch (const std::exception&) {
    // The system has no more threads or memory, so regions have fewer shares.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Returns null if no memory is left; regions then have one share.
std::shared_ptr<Team> make_team() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { process_generation.fetch_add(1); });
  static_cast<void>(registered);
  try {
    return std::make_shared<Team>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

struct Region {
  Body body;
  void* data;
  bool flushes;
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // the first exception that a share has thrown
};

void run_body(void* region) {
  auto& r = *static_cast<Region*>(region);
  const FlushSubnormals flush(r.flushes);
  try {
    r.body(r.data);
  } catch (...) {
    if (!r.failed.exchange(true)) r.error = std::current_exception();
  }
}

// Begins a region. Returns whether the region has as many shares as wanted. Inside a region with
// several shares, or if one share is wanted, the new region has one share.
bool start_region(Body body, void* data, unsigned wanted) {
  ThreadState& now = state;
  const bool nested = in_parallel();
  now.outer.push_back(now.share);
  if (wanted == 0) wanted = static_cast<unsigned>(get_max_threads());
  wanted = std::min(wanted, 0xffffu);
  now.share = {};
  if (wanted <= 1 || nested) return true;
  if (now.team && !now.team->belongs_to_this_process()) {
    static_cast<void>(new std::shared_ptr<Team>(std::move(now.team)));  // leaked, because
    now.team = nullptr;                                                 // its threads are gone
  }
  if (!now.team) now.team = make_team();
  if (!now.team) return false;
  Team::add_threads(now.team, wanted);
  const unsigned count = now.team->begin(body, data, wanted);
  now.share = {now.team.get(), 0, count};
  return count == wanted;
}

}  // namespace

int get_thread_num() { return static_cast<int>(state.share.index); }
int get_num_threads() { return static_cast<int>(state.share.count); }
int get_max_threads() { return state.max_threads ? state.max_threads : cpu_threads(); }
std::atomic<void (*)(int)> set_num_threads_of_libgomp = nullptr;

void set_num_threads(int count) {
  state.max_threads = std::max(1, count);
  if (const auto set = set_num_threads_of_libgomp.load(std::memory_order_relaxed)) set(count);
}
bool in_parallel() {
  return state.share.count > 1 ||
         std::ranges::any_of(state.outer, [](const Share& s) { return s.count > 1; });
}

void run_region(Body body, void* data, unsigned threads) {
  Region region{body, data, FlushSubnormals::is_on()};
  start_region(&run_body, &region, threads);
  run_body(&region);
  end_region();
  if (region.error) std::rethrow_exception(region.error);
}

// Ends the process if threads are missing, like libgomp. oneDNN divides the work among the shares
// before it begins the region, so a smaller region would skip a part of the work.
void begin_region(Body body, void* data, unsigned threads) {
  if (start_region(body, data, threads)) return;
  std::fputs("mxlite: oneDNN needs more threads than the system allows\n", stderr);
  std::abort();
}

void end_region() {
  ThreadState& now = state;
  if (now.share.team) now.share.team->end();
  now.share = now.outer.back();
  now.outer.pop_back();
}

void wait_at_barrier() {
  if (Team* team = state.share.team) team->wait_at_barrier();
}

bool start_static_loop(long start, long end, long step, long chunk, long* first, long* last) {
  state.share.loop = {start, end, step, chunk, 0};
  return next_static_block(first, last);
}

// If the loop's chunk is 0, each share gets one block.
bool next_static_block(long* first, long* last) {
  auto& loop = state.share.loop;
  const long count = state.share.count, index = state.share.index;
  const long to_end = loop.end - loop.start + loop.step - (loop.step > 0 ? 1 : -1);
  const long iterations = std::max(0L, to_end / loop.step);
  long from, to;
  if (loop.chunk > 0) {
    from = (loop.received * count + index) * loop.chunk;
    to = std::min(from + loop.chunk, iterations);
  } else {
    if (loop.received > 0) return false;
    const long each = iterations / count, more = iterations % count;
    from = each * index + std::min(index, more);
    to = from + each + (index < more);
  }
  if (from >= to) return false;
  ++loop.received;
  *first = loop.start + from * loop.step;
  *last = loop.start + to * loop.step;
  return true;
}

}  // namespace mxlite::openmp
