#include "cpp/jobs/control.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kControlBuffer = size_t{64} << 10;

class ShmControl final : public ControlChannel {
 public:
  ShmControl(std::shared_ptr<shm::SharedSegment> segment, int rank)
      : channel_(std::move(segment), rank) {}

  void post(std::vector<std::byte> message) override {
    message_ = std::move(message);
    write_part(0);
    for (int r = 0; r < channel_.size(); ++r)
      if (r != channel_.rank()) ring(r);
  }
  bool ready() override {
    for (int r = 0; r < channel_.size(); ++r)
      if (!channel_.come(r, channel_.step())) return false;
    return true;
  }
  std::vector<std::vector<std::byte>> take() override {
    std::vector<std::vector<std::byte>> messages(static_cast<size_t>(channel_.size()));
    size_t longest = 0;
    for (size_t r = 0; r < messages.size(); ++r) {
      const std::byte* from = place_of(r);
      uint64_t bytes;
      std::memcpy(&bytes, from, sizeof bytes);
      longest = std::max<size_t>(longest, bytes);
      messages[r].resize(bytes);
      std::copy_n(from + sizeof bytes, std::min<size_t>(bytes, part_bytes()), messages[r].data());
    }
    for (size_t begin = part_bytes(); begin < longest; begin += part_bytes()) {
      write_part(begin);
      channel_.wait_all(channel_.step());
      for (size_t r = 0; r < messages.size(); ++r)
        if (begin < messages[r].size())
          std::copy_n(place_of(r) + sizeof(uint64_t),
                      std::min(messages[r].size() - begin, part_bytes()),
                      messages[r].data() + begin);
    }
    return messages;
  }
  bool wanted() override {
    for (int r = 0; r < channel_.size(); ++r)
      if (r != channel_.rank() && channel_.come(r, channel_.step() + 1)) return true;
    return false;
  }
  void look() override { channel_.look(); }
  uint32_t rings() override { return own_bell().rings.load(); }
  void sleep(uint32_t seen, double seconds) override {
    shm::Bell& bell = own_bell();
    bell.sleeping.store(1);
    if (bell.rings.load() == seen) shm::futex_wait(bell.rings, seen, seconds);
    bell.sleeping.store(0);
  }
  void ring() override { ring(channel_.rank()); }
  bool rings_others() const override { return true; }
  void await_rings(bool awaits) override { own_bell().awaits_rings.store(awaits ? 1 : 0); }
  void ring_if_awaiting(int r) override {
    if (channel_.segment().rank(r).bell.awaits_rings.load() != 0) ring(r);
  }
  void fail_all(const char* reason) noexcept override {
    channel_.fail_others(reason);
    for (int r = 0; r < channel_.size(); ++r) ring(r);
  }

 private:
  size_t part_bytes() const { return channel_.buffer_bytes() - sizeof(uint64_t); }
  const std::byte* place_of(size_t r) const { return channel_.of(static_cast<int>(r), buffer_); }
  shm::Bell& own_bell() const { return channel_.segment().rank(channel_.rank()).bell; }
  void ring(int r) noexcept {
    shm::Bell& bell = channel_.segment().rank(r).bell;
    bell.rings.fetch_add(1);
    if (bell.sleeping.load()) shm::futex_wake_all(bell.rings);
  }
  void write_part(size_t begin) {
    buffer_ = channel_.acquire();
    std::byte* to = channel_.mine(buffer_);
    const uint64_t bytes = message_.size();
    std::memcpy(to, &bytes, sizeof bytes);
    if (begin < bytes)
      std::copy_n(message_.data() + begin, std::min(bytes - begin, part_bytes()),
                  to + sizeof bytes);
    channel_.free_after(buffer_, channel_.publish() + 1);
  }

  shm::Channel channel_;
  std::vector<std::byte> message_;
  int buffer_ = 0;
};

// Control channel for several hosts. Begins a round in every cycle, because a rank cannot see
// whether another rank has begun a round.
class GatherControl final : public ControlChannel {
 public:
  GatherControl(std::unique_ptr<Communicator> group, double cycle_ms)
      : group_(std::move(group)),
        cycle_(std::chrono::microseconds(static_cast<int64_t>(cycle_ms * 1000))) {}

  void post(std::vector<std::byte> message) override { message_ = std::move(message); }
  bool ready() override { return true; }
  std::vector<std::vector<std::byte>> take() override {
    const auto ranks = static_cast<size_t>(group_->size());
    std::vector<uint64_t> sizes(ranks);
    const std::vector<size_t> each(ranks, sizeof(uint64_t));
    const uint64_t mine = message_.size();
    group_->describe("negotiation");
    group_->all_gather(&mine, sizes.data(), each);
    std::vector<std::byte> all(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
    group_->all_gather(message_.data(), all.data(),
                       std::vector<size_t>(sizes.begin(), sizes.end()));
    std::vector<std::vector<std::byte>> messages;
    const std::byte* at = all.data();
    for (const uint64_t n : sizes) {
      messages.emplace_back(at, at + n);
      at += n;
    }
    next_ = Clock::now() + cycle_;
    return messages;
  }
  bool wanted() override { return Clock::now() >= next_; }
  void look() override {}
  uint32_t rings() override {
    std::lock_guard lock(mutex_);
    return rings_;
  }
  void sleep(uint32_t seen, double seconds) override {
    std::unique_lock lock(mutex_);
    const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(seconds));
    rung_.wait_until(lock, std::min(limit, next_), [&] { return rings_ != seen; });
  }
  void ring() override {
    std::lock_guard lock(mutex_);
    ++rings_;
    rung_.notify_all();
  }
  void fail_all(const char* reason) noexcept override { group_->fail_all(reason); }

 private:
  std::unique_ptr<Communicator> group_;
  const Clock::duration cycle_;
  std::vector<std::byte> message_;
  Clock::time_point next_{};  // used only by the comm thread
  std::mutex mutex_;
  std::condition_variable rung_;
  uint32_t rings_ = 0;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<ControlChannel> make_control(Communicator& world, double cycle_ms) {
  const std::string backend = world.backend();
  if (backend != "shm" && backend != "local")
    return std::make_unique<GatherControl>(world.split(0, world.rank()), cycle_ms);
  shm::SegmentName name;
  std::shared_ptr<shm::SharedSegment> segment;
  if (world.size() == 1)
    return std::make_unique<ShmControl>(shm::SharedSegment::create_unnamed(1, kControlBuffer), 0);
  if (world.rank() == 0) segment = shm::SharedSegment::create(world.size(), kControlBuffer, name);
  world.broadcast(&name, sizeof name, 0);
  if (world.rank() != 0) segment = shm::SharedSegment::open(name, world.size());
  MX_CHECK_KIND(segment, ErrorKind::kCommunicator, name.error);
  auto control = std::make_unique<ShmControl>(segment, world.rank());
  world.barrier();  // after the barrier, all ranks have opened the segment, or one has
                    // reported a failure
  segment->unlink();
  return control;
}

}  // namespace mxlite::jobs
