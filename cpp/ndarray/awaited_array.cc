#include "cpp/ndarray/awaited_array.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cpp/base/error.h"
#include "cpp/core/host_memory.h"
#include "cpp/engine/deferred.h"

namespace mxlite {
namespace {

using Clock = std::chrono::steady_clock;

std::exception_ptr communicator_error(const std::string& text) {
  return std::make_exception_ptr(Error(ErrorKind::kCommunicator, text));
}

}  // namespace

class AwaitedArray::Task final : public engine::DeferredTask {
 public:
  Task(std::string who, Clock::time_point end)
      : DeferredTask("awaited"), who_(std::move(who)), end_(end) {}

  void start() override {
    {
      std::lock_guard lock(mutex_);
      started_ = true;
      if (!over_) return;
    }
    finish(error_);
  }
  void release_operands() noexcept override {}
  void describe(std::string& text) const override { text += who_; }

  // Ends the task. Returns false if the task has already ended.
  bool end(std::exception_ptr error) {
    {
      std::lock_guard lock(mutex_);
      if (over_) return false;
      over_ = true;
      error_ = std::move(error);
      unlimited_.reset();
      if (!started_) return true;
    }
    finish(error_);
    return true;
  }
  // Fails the array at its deadline or when its AwaitedArray is destroyed.
  void end_without_value() {
    try {
      std::unique_lock lock(mutex_);
      const std::string text = who_ + ": " + missing_;
      lock.unlock();
      end(communicator_error(text));
    } catch (const std::bad_alloc&) {
      end(std::current_exception());
    }
  }
  void expect(const std::string& missing) {
    std::lock_guard lock(mutex_);
    missing_ = missing;
  }
  // Applies the engine's push limit again, because the given value can be computed without further
  // pushes.
  void limit_pushes() {
    std::lock_guard lock(mutex_);
    unlimited_.reset();
  }
  bool over() const {
    std::lock_guard lock(mutex_);
    return over_;
  }
  Clock::time_point deadline() const { return end_; }

 private:
  const std::string who_;
  const Clock::time_point end_;
  mutable std::mutex mutex_;
  std::string missing_ = "no value was given";  // guarded by mutex_
  bool started_ = false, over_ = false;         // guarded by mutex_
  std::exception_ptr error_;                    // guarded by mutex_ until over_
  std::optional<engine::UnlimitedPushes> unlimited_{std::in_place};  // guarded by mutex_
};

namespace {

// Ends tasks at their deadlines, on a thread that the first add() starts. Never destroyed.
template <class Awaited>
class Deadlines {
 public:
  static Deadlines& get() {
    static Deadlines& instance = *new Deadlines;
    return instance;
  }

  void add(IntrusivePtr<Awaited> task) {
    std::lock_guard lock(mutex_);
    if (!runs_) {
      sigset_t all, before;  // block all signals in the new thread
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      std::thread([this] { run(); }).detach();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      runs_ = true;
    }
    const bool is_first = tasks_.empty() || task->deadline() < (*tasks_.begin())->deadline();
    tasks_.insert(std::move(task));
    if (is_first) changed_.notify_one();
  }

  void remove(const IntrusivePtr<Awaited>& task) {
    std::lock_guard lock(mutex_);
    tasks_.erase(task);
  }

 private:
  struct Earlier {
    bool operator()(const IntrusivePtr<Awaited>& a, const IntrusivePtr<Awaited>& b) const {
      return std::pair(a->deadline(), a.get()) < std::pair(b->deadline(), b.get());
    }
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (tasks_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const IntrusivePtr<Awaited> first = *tasks_.begin();
      if (Clock::now() < first->deadline()) {
        changed_.wait_until(lock, first->deadline());
        continue;
      }
      tasks_.erase(tasks_.begin());
      lock.unlock();
      first->end_without_value();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<IntrusivePtr<Awaited>, Earlier> tasks_;  // guarded by mutex_
  bool runs_ = false;                               // guarded by mutex_
};

// Copies the value. Ends the awaited task even if the value could not be computed.
template <class Awaited>
class GiveTask final : public engine::Task {
 public:
  GiveTask(NDArrayRef from, NDArrayRef to, IntrusivePtr<Awaited> awaited, std::string who)
      : engine::Task("give_awaited"),
        from_(std::move(from)),
        to_(std::move(to)),
        awaited_(std::move(awaited)),
        who_(std::move(who)) {}

  void run() override {
    std::memcpy(to_->data(), from_->data(), to_->spec().bytes());
    done_ = true;
  }
  void release_operands() noexcept override {
    if (!awaited_) return;
    try {
      awaited_->end(done_ ? nullptr
                          : communicator_error(who_ + ": the value could not be computed"));
    } catch (...) {  // out of memory while making the error
      awaited_->end(std::current_exception());
    }
    awaited_.reset();
    from_.reset();
    to_.reset();
  }

 private:
  NDArrayRef from_, to_;
  IntrusivePtr<Awaited> awaited_;
  const std::string who_;
  bool done_ = false;
};

}  // namespace

AwaitedArray::AwaitedArray(const TensorSpec& spec, const std::string& who, double seconds)
    : who_(who) {
  MX_CHECK_KIND(!engine::Engine::get().runs_in_caller(), ErrorKind::kNotSupported, who,
                ": operators run in the calling thread (MXLITE_ENGINE=naive, or after a fork), "
                "which cannot wait for an array that is set later; use MXLITE_ENGINE=threaded");
  array_ = NDArray::empty(spec, Device{});
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  task_ = make_ref<Task>(who, end);
  engine::Var* const written = &array_->storage()->var();
  engine::Engine::get().push(task_, {{}, {&written, 1}, {}}, {});
  Deadlines<Task>::get().add(task_);
}

AwaitedArray::~AwaitedArray() {
  Deadlines<Task>::get().remove(task_);
  if (!given_) task_->end_without_value();
}

void AwaitedArray::give(const NDArrayRef& value) {
  MX_CHECK_SHAPE(value->spec() == array_->spec(), who_, ": the value must be ", array_->spec(),
                 ", got ", value->spec());
  MX_CHECK_KIND(is_host_memory(value->device()) && value->contiguous(), ErrorKind::kValue, who_,
                ": the value must be a contiguous array in host memory");
  given_ = true;
  Deadlines<Task>::get().remove(task_);
  engine::Var* const read = &value->storage()->var();
  engine::Engine::get().push(make_ref<GiveTask<Task>>(value, array_->detached(), task_, who_),
                             {{&read, 1}, {}, {}}, {.may_inline = true});
  task_->limit_pushes();
}

void AwaitedArray::fail(const std::string& reason) {
  Deadlines<Task>::get().remove(task_);
  task_->end(communicator_error(who_ + ": " + reason));
}

void AwaitedArray::expect(const std::string& missing) { task_->expect(missing); }

bool AwaitedArray::over() const { return given_ || task_->over(); }

}  // namespace mxlite
