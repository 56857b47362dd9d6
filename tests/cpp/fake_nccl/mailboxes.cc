#include "tests/cpp/fake_nccl/mailboxes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace fake_nccl {
namespace {

constexpr int kLookEvery = 200;  // pauses

size_t bytes_for(int ranks) {
  return sizeof(Segment) +
         sizeof(Mailbox) * static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
}

}  // namespace

// Fresh shared memory holds zeros, which is the state of empty mailboxes.
Mailboxes::Mailboxes(const std::string& name, int rank_, int ranks_)
    : rank(rank_), ranks(ranks_), name_(name), bytes_(bytes_for(ranks_)) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error("fake NCCL: shm_open " + name + ": " + std::strerror(errno));
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error("fake NCCL: mmap failed");
  boxes_ = reinterpret_cast<Mailbox*>(static_cast<std::byte*>(memory_) + sizeof(Segment));
  segment().processes[rank] = getpid();
}

Mailboxes::~Mailboxes() {
  shm_unlink(name_.c_str());  // those who have it open keep it
  munmap(memory_, bytes_);
}

bool Mailboxes::all_arrived() const {
  for (int r = 0; r < ranks; ++r)
    if (segment().processes[r] == 0) return false;
  return true;
}

bool Mailboxes::a_process_is_gone() const {
  for (int r = 0; r < ranks; ++r)
    if (const pid_t process = segment().processes[r]; process > 0 && kill(process, 0) != 0)
      return true;
  return false;
}

bool Mailboxes::send_piece(uint32_t kind, Transfer& t) {
  Mailbox& to = box(rank, t.peer);
  if (t.moved == t.bytes || to.full.load(std::memory_order_acquire)) return false;
  to.kind = kind;
  to.total_bytes = t.bytes;
  to.bytes = std::min(kPieceBytes, t.bytes - t.moved);
  std::memcpy(to.data, t.data + t.moved, to.bytes);
  t.moved += to.bytes;
  to.full.store(1, std::memory_order_release);
  return true;
}

bool Mailboxes::receive_piece(uint32_t kind, Transfer& t, bool& mismatch) {
  Mailbox& from = box(t.peer, rank);
  if (t.moved == t.bytes || !from.full.load(std::memory_order_acquire)) return false;
  mismatch = mismatch || from.kind != kind || from.total_bytes != t.bytes;
  if (mismatch) return false;
  std::memcpy(t.data + t.moved, from.data, from.bytes);
  t.moved += from.bytes;
  from.full.store(0, std::memory_order_release);
  return true;
}

Mailboxes::End Mailboxes::exchange(uint32_t kind, std::span<Transfer> sends,
                                   std::span<Transfer> receives, const std::atomic<bool>& aborted) {
  const auto left = [](const Transfer& t) { return t.moved < t.bytes; };
  int pauses = 0;
  while (std::any_of(sends.begin(), sends.end(), left) ||
         std::any_of(receives.begin(), receives.end(), left)) {
    bool progress = false, mismatch = false;
    for (Transfer& t : sends) progress |= send_piece(kind, t);
    for (Transfer& t : receives) progress |= receive_piece(kind, t, mismatch);
    if (mismatch) return End::kMismatch;
    if (aborted) return End::kAborted;
    if (progress) continue;
    if (++pauses % kLookEvery == 0 && a_process_is_gone()) return End::kLost;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return End::kDone;
}

}  // namespace fake_nccl
