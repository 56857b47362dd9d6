// Memory that the processes of one host share: for each rank a step counter, signs of life and
// buffers. Who dies, hangs or fails is found here.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cpp/kvstore/comm/shm/heartbeat.h"

namespace mxlite::shm {

inline constexpr int kBuffers = 3;     // of each rank: filled, being read, being emptied
inline constexpr int kSignatures = 4;  // a rank is never two operations ahead of another
inline constexpr size_t kTextBytes = 2048;

// Grows by one with each step; a futex. In one cache line with what its readers need next.
struct alignas(64) Progress {
  std::atomic<uint32_t> step{0};
  std::atomic<uint32_t> sleepers{0};
  std::array<std::atomic<uint64_t>, kSignatures> signature{};  // of operation number i, at i % 4
};

// Wakes a rank that waits for anything to happen.
struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleeping{0};
};

struct alignas(64) RankState {
  Progress progress;
  Bell bell;
  std::atomic<int64_t> heartbeat{0};
  std::atomic<int64_t> process{0};      // 0: has not come yet
  std::atomic<int64_t> start_time{0};   // of the process: its number may be used again
  std::atomic<uint64_t> namespace_{0};  // in which the process has this number
  std::atomic<uint32_t> left{0};        // went away in good order
  std::atomic<uint32_t> rebuilding{0};  // wants a new group
};

struct alignas(64) Header {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t ranks = 0;
  uint64_t buffer_bytes = 0;
  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t> failing{0};  // 1: one rank writes the text
  std::atomic<uint32_t> failed{0};   // the text is there
  char text[kTextBytes] = {};
};

// Where one rank makes the segment, and the others find it.
struct SegmentName {
  char name[64] = {};
  uint64_t buffer_bytes = 0;
  char error[192] = {};  // why it could not be made
};

class Segment {
 public:
  // Makes it, without a rank attached; an error is told in the name.
  static std::shared_ptr<Segment> create(int ranks, size_t buffer_bytes, SegmentName& name);
  // Without a name: for ranks that are threads of this process, or forks of it made later.
  static std::shared_ptr<Segment> create_unnamed(int ranks, size_t buffer_bytes);
  static std::shared_ptr<Segment> open(const SegmentName& name, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  void unlink() noexcept;  // the name; the memory lives on
  // Who will hold the rank, so that its death is seen before it has come.
  void expect(int r, int64_t process, uint64_t process_namespace) noexcept;

  Header& header() const { return *static_cast<Header*>(memory_); }
  RankState& rank(int r) const { return states_[r]; }
  std::byte* buffer(int r, int number) const {
    return buffers_ + (static_cast<size_t>(r) * kBuffers + static_cast<size_t>(number)) *
                          header().buffer_bytes;
  }
  size_t buffer_bytes() const { return header().buffer_bytes; }

  // The first text wins.
  void fail_all(const char* text) noexcept;
  std::optional<std::string> failure() const;

 private:
  Segment(void* memory, size_t bytes, int ranks, std::string name);
  static std::shared_ptr<Segment> construct(void* memory, int ranks, size_t buffer_bytes,
                                            const std::string& name);

  void* memory_;
  size_t bytes_;
  std::string name_;  // empty after unlink
  RankState* states_;
  std::byte* buffers_;
};

// Says that this process holds a rank of a segment, until the end of its life.
class Membership {
 public:
  Membership(std::shared_ptr<Segment> segment, int rank);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

 private:
  std::shared_ptr<Segment> segment_;
  int rank_;
  int64_t process_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

uint64_t pid_namespace();  // of this process: numbers of processes mean something in it only

enum class Life { kAlive, kSilent, kLeft, kDead };
Life life_of(const RankState& state);
std::string life_text(
    const RankState& state);  // "process 12 ended", "process 12 is silent for 3 s"

// Sleeps while the word has this value, for at most this long.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, double seconds);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace mxlite::shm
