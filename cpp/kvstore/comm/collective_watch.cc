#include "cpp/kvstore/comm/collective_watch.h"

#include <chrono>
#include <exception>
#include <utility>

#include "cpp/base/error.h"
#include "cpp/base/str.h"
#include "cpp/engine/worker.h"

namespace mxlite {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

}  // namespace

CollectiveWatch::CollectiveWatch() : thread_(engine::start_thread("watch", [this] { run(); })) {}

void CollectiveWatch::add(Work work) {
  std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  added_.notify_one();
}

bool CollectiveWatch::look(Work& work) {
  try {
    if (work.stream->has_passed(*work.end)) return true;
    work.group->look();
    if (!work.since && work.stream->has_passed(*work.begin)) work.since = Clock::now();
    if (!work.since) return false;
    const std::chrono::duration<double> seconds = Clock::now() - *work.since;
    if (seconds.count() > comm_timeout())
      fail(ErrorKind::kCommunicator, "a sum of arrays on GPUs has waited ", comm_timeout(),
           " s for other GPUs (MXLITE_COMM_TIMEOUT)");
    return false;
  } catch (const std::exception& error) {
    work.stream->break_with(error.what());
    work.group->abort(error.what());
    return true;
  }
}

void CollectiveWatch::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return !works_.empty(); });
    std::deque<Work> works = std::exchange(works_, {});
    lock.unlock();
    std::erase_if(works, [](Work& work) { return look(work); });
    const bool busy = !works.empty();
    if (busy) std::this_thread::sleep_for(kPoll);
    lock.lock();
    works_.insert(works_.begin(), std::make_move_iterator(works.begin()),
                  std::make_move_iterator(works.end()));
  }
}

}  // namespace mxlite
