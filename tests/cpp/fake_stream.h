// A device stream on a thread of its own, for tests of the order of streams. Work is delayed at
// random, and only wait_for orders the work of two streams.
#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/core/marked_stream.h"

namespace mxlite {

class FakeStream final : public MarkedStream {
 public:
  explicit FakeStream(int device, uint64_t seed = 0) : device_(device), rng_(seed) {
    thread_ = std::thread([this] { work(); });
  }
  ~FakeStream() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  Device device() const override { return {DeviceType::kCUDA, device_}; }
  void enter() override {}
  void wait_for(Stream& other) override {
    auto& producer = static_cast<FakeStream&>(other);
    const uint64_t target = producer.given();
    give([&producer, target] { producer.wait_until_done(target); });
  }
  void synchronize() override {
    wait_until_done(given());
    throw_error();
  }
  std::shared_ptr<Mark> mark() override { return std::make_shared<Point>(*this, given()); }
  void wait_for_mark(const Mark& mark) override {
    give([point = static_cast<const Point&>(mark)] { point.stream.wait_until_done(point.target); });
  }
  void synchronize_mark(const Mark& mark) override {
    wait_until_done(static_cast<const Point&>(mark).target);
    throw_error();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    give([=] { std::memcpy(to, from, bytes); });
  }
  void* scratch(size_t bytes) override {
    if (bytes > scratch_.size()) {
      wait_until_done(given());  // work may use the old block
      scratch_.resize(bytes);
    }
    return scratch_.data();
  }
  std::unique_ptr<Attachment>& attachment() override { return attachment_; }

  void give(std::function<void()> fn) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(fn));
    ++given_;
    changed_.notify_all();
  }
  bool has_passed(const Mark& mark) override {
    std::lock_guard lock(mutex_);
    return done_ >= static_cast<const Point&>(mark).target;
  }
  // Like CUDA's errors, it is permanent. Work that throws breaks the stream, too.
  void break_with(const std::string& error) override {
    std::lock_guard lock(mutex_);
    error_ = error;
  }
  uint64_t given() {
    std::lock_guard lock(mutex_);
    return given_;
  }

 private:
  struct Point final : Mark {
    Point(FakeStream& of, uint64_t number) : stream(of), target(number) {}
    FakeStream& stream;
    const uint64_t target;
  };
  void throw_error() {
    std::lock_guard lock(mutex_);
    if (!error_.empty()) fail(ErrorKind::kDevice, error_);
  }
  void wait_until_done(uint64_t target) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= target; });
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::function<void()> fn = std::move(queue_.front());
      queue_.pop_front();
      const auto delay = rng_() % 8;
      lock.unlock();
      if (delay == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng_() % 50));
      try {
        fn();
      } catch (const std::exception& e) {
        break_with(e.what());
      }
      fn = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  const int device_;
  std::mt19937_64 rng_;  // used by the thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_, as the rest
  uint64_t given_ = 0, done_ = 0;
  bool stopping_ = false;
  std::string error_;
  std::vector<char> scratch_;
  std::unique_ptr<Attachment> attachment_;
  std::thread thread_;
};

}  // namespace mxlite
