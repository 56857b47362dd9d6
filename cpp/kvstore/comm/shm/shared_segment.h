// Memory that the processes of one host share. Each rank has a step counter, a heartbeat and
// buffers in it. Detects ranks that die, hang or fail.
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

inline constexpr int kBuffers = 3;  // buffers per rank: one is written, one is read by
                                    // other ranks, and one becomes free
// Length of a rank's ring of signatures. A rank is at most one operation ahead of the other ranks,
// so it does not overwrite a signature that they still compare.
inline constexpr int kSignatures = 4;
inline constexpr size_t kTextBytes = 2048;

// `step` is incremented at each step and is a futex. All fields are in one cache line, because
// readers need all of them.
struct alignas(64) Progress {
  std::atomic<uint32_t> step{0};
  std::atomic<uint32_t> sleepers{0};
  std::array<std::atomic<uint64_t>, kSignatures> signature{};  // the signature of operation i is at
                                                               // index i % 4
};

// Futex that other ranks use to wake a rank that waits for any event.
struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleeping{0};
  std::atomic<uint32_t> awaits_rings{0};  // 1 if ranks that write inputs to slots must ring this
                                          // rank
};

struct alignas(64) RankState {
  Progress progress;
  Bell bell;
  std::atomic<int64_t> heartbeat{0};
  std::atomic<int64_t> process{0};      // 0 if the rank has not joined yet
  std::atomic<int64_t> start_time{0};   // distinguishes processes that got the same PID
  std::atomic<uint64_t> namespace_{0};  // PID namespace of `process`
  std::atomic<uint32_t> left{0};        // 1 after the rank has left normally
  std::atomic<uint32_t> rebuilding{0};  // 1 if the rank waits for a new group
};

struct alignas(64) Header {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t ranks = 0;
  uint64_t buffer_bytes = 0;
  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t> failing{0};  // 1 once a rank has begun to write the text
  std::atomic<uint32_t> failed{0};   // 1 once the text is complete
  char text[kTextBytes] = {};
};

// The name under which one rank creates the segment and the other ranks find it.
struct SegmentName {
  char name[64] = {};
  uint64_t buffer_bytes = 0;
  char error[192] = {};  // the reason why the segment was not created
};

class SharedSegment {
 public:
  // Creates the segment without making this process a rank. On failure, stores the error text in
  // name.error.
  static std::shared_ptr<SharedSegment> create(int ranks, size_t buffer_bytes, SegmentName& name);
  // Creates a segment without a name. Its ranks are threads or future forks of this process.
  static std::shared_ptr<SharedSegment> create_unnamed(int ranks, size_t buffer_bytes);
  static std::shared_ptr<SharedSegment> open(const SegmentName& name, int ranks);
  ~SharedSegment();
  SharedSegment& operator=(SharedSegment&&) = delete;  // neither copied nor moved

  void unlink() noexcept;  // removes the name but keeps the memory
  // Stores the PID of the process that will become rank r, so that its death is noticed even before
  // it joins.
  void expect(int r, int64_t process, uint64_t process_namespace) noexcept;

  Header& header() const { return *static_cast<Header*>(memory_); }
  RankState& rank(int r) const { return states_[r]; }
  std::byte* buffer(int r, int number) const {
    return buffers_ + (static_cast<size_t>(r) * kBuffers + static_cast<size_t>(number)) *
                          header().buffer_bytes;
  }
  size_t buffer_bytes() const { return header().buffer_bytes; }

  // Only the first call has an effect.
  void fail_all(const char* text) noexcept;
  std::optional<std::string> failure() const;

 private:
  SharedSegment(void* memory, size_t bytes, int ranks, std::string name);
  static std::shared_ptr<SharedSegment> construct(void* memory, int ranks, size_t buffer_bytes,
                                                  const std::string& name);

  void* memory_;
  size_t bytes_;
  std::string name_;  // empty after unlink
  RankState* states_;
  std::byte* buffers_;
};

// Registers this process as a rank of a segment until the object is destroyed.
class Membership {
 public:
  Membership(std::shared_ptr<SharedSegment> segment, int rank);
  ~Membership();
  Membership& operator=(Membership&&) = delete;  // neither copied nor moved

 private:
  std::shared_ptr<SharedSegment> segment_;
  int rank_;
  int64_t process_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

uint64_t pid_namespace();  // a PID is valid only in its namespace

enum class Life { kAlive, kSilent, kLeft, kDead };
Life life_of(const RankState& state);
std::string life_text(
    const RankState& state);  // returns "process 12 ended" or "process 12 is silent for 3 s"

// Sleeps while `word` equals `value`, for at most `seconds`.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, double seconds);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace mxlite::shm
