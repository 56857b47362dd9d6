// Shared memory through which the ranks of a fake NCCL communicator send each other bytes.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace fake_nccl {

inline constexpr int kMaxRanks = 16;
inline constexpr size_t kPieceBytes = size_t{32} << 10;

// Holds one piece on its way from a rank to another one.
struct Mailbox {
  std::atomic<uint32_t> full{0};
  uint32_t kind = 0;         // says which operation sends the piece
  uint64_t total_bytes = 0;  // in all pieces of the transfer
  uint64_t bytes = 0;
  std::byte data[kPieceBytes];
};

struct Segment {
  std::atomic<int32_t> processes[kMaxRanks];  // 0: has not arrived
};

// One transfer to or from another rank.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t moved = 0;
};

class Mailboxes {
 public:
  // Throws std::runtime_error if the memory cannot be had.
  Mailboxes(const std::string& name, int rank, int ranks);
  ~Mailboxes();
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  const int rank, ranks;
  Segment& segment() const { return *static_cast<Segment*>(memory_); }
  bool all_arrived() const;
  bool a_process_is_gone() const;

  enum class End { kDone, kAborted, kMismatch, kLost };
  // Runs until all transfers are done or `aborted` is set.
  End exchange(uint32_t kind, std::span<Transfer> sends, std::span<Transfer> receives,
               const std::atomic<bool>& aborted);

 private:
  Mailbox& box(int from, int to) const {
    return boxes_[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)];
  }
  bool send_piece(uint32_t kind, Transfer& transfer);
  bool receive_piece(uint32_t kind, Transfer& transfer, bool& mismatch);

  std::string name_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  Mailbox* boxes_ = nullptr;
};

}  // namespace fake_nccl
