// Inputs are reduced in the order of ranks, as in shared memory. The result therefore has the same
// bits on all ranks and with both backends. In a large all-reduce, each rank reduces one part and
// sends the result to the other ranks. Every rank sends and receives 2 (n - 1) / n of the array, as
// in a ring.
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/collective_operation.h"
#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/tcp/transfers.h"

namespace mxlite::tcp {
namespace {

constexpr size_t kShowAllBytes = size_t{16} << 10;  // for at most this many bytes, every rank
                                                    // receives all arrays
constexpr size_t kBlockBytes = size_t{4} << 20;     // number of bytes reduced at a time
constexpr size_t kDirectBroadcastBytes = size_t{64} << 10;
constexpr double kVerdictSeconds = 2;  // limit of the wait for the rendezvous to report a loss
constexpr SealKey kGroupKey = {0x67726f757073, 1};  // key of hashes that identify groups; not
                                                    // secret

void move_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::shared_ptr<Job> job, std::shared_ptr<GroupState> state,
                  std::vector<Socket> sockets)
      : job_(std::move(job)),
        state_(std::move(state)),
        sockets_(std::move(sockets)),
        rank_(static_cast<int>(
            std::find(state_->members.begin(), state_->members.end(), job_->rank()) -
            state_->members.begin())),
        size_(static_cast<int>(state_->members.size())) {
    events_.waiting = [this](std::span<const int> peers) { wait_for(peers); };
    events_.moved = [this] { deadline_ = Deadline(comm_timeout()); };
    events_.closed = [this](int peer) { lose(peer); };
    events_.unexpected = [this](int peer, const MessageHeader& came) { disagree(peer, came); };
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "tcp"; }
  void describe(std::string what) override { what_ = std::move(what); }
  void fail_all(const char* reason) noexcept override {
    state_->fail(reason, /*announce=*/true);
    job_->wake();
  }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override;
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override;
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override;
  void broadcast(void* data, size_t bytes, int root) override;
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override;
  void barrier() override {
    Transfers t = begin({CollectiveCall::kBarrier});
    for (int distance = 1; distance < size_; distance *= 2) {
      t.send((rank_ + distance) % size_, nullptr, 0);
      t.receive((rank_ - distance + size_) % size_, nullptr, 0);
      t.run();
    }
  }
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  Transfers begin(const CollectiveOperation& operation);
  void each_peer(auto&& fn) {  // each rank starts with another peer
    for (int i = 1; i < size_; ++i) fn((rank_ + i) % size_);
  }
  void reduce_part(Transfers& t, const std::byte* input, std::byte* output,
                   std::span<const size_t> offsets, std::span<const size_t> bytes, DType dtype,
                   ReduceOp op);
  void show_all(Transfers& t, const void* input, void* output, int64_t count, DType dtype,
                ReduceOp op);
  void exchange_parts(Transfers& t, std::byte* all, std::span<const size_t> offsets,
                      std::span<const size_t> bytes);
  int name_of(int r) const { return state_->members[static_cast<size_t>(r)]; }
  std::string operation_text() const;
  [[noreturn]] void fail(const std::string& reason);
  void check() {
    if (state_->failed()) mxlite::fail(ErrorKind::kCommunicator, state_->failure());
  }
  void wait_for(std::span<const int> peers);
  void lose(int peer);
  void disagree(int peer, const MessageHeader& came);

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<GroupState> state_;
  const std::vector<Socket> sockets_;
  const int rank_, size_;
  Transfers::Events events_;
  uint64_t number_ = 0, splits_ = 0;
  CollectiveOperation operation_;
  Deadline deadline_{0};  // restarted by each operation and whenever a byte is transferred
  std::vector<std::byte> scratch_;
  std::string what_;
};

Transfers TcpCommunicator::begin(const CollectiveOperation& operation) {
  ++number_;
  operation_ = operation;
  deadline_ = Deadline(comm_timeout());
  check();
  return Transfers(sockets_, events_, {signature_of(operation), number_, 0});
}

std::string TcpCommunicator::operation_text() const {
  std::string text = str("rank ", name_of(rank_), ": ", collective_call_name(operation_.call),
                         " number ", number_);
  if (!what_.empty()) text += str(" (", what_, ")");
  return text;
}

void TcpCommunicator::fail(const std::string& reason) {
  fail_all(str(operation_text(), ": ", reason).c_str());
  // Another rank may have reported a failure first.
  mxlite::fail(ErrorKind::kCommunicator, state_->failure());
}

void TcpCommunicator::wait_for(std::span<const int> peers) {
  check();
  if (!deadline_.over()) return;
  std::string text;
  for (const int peer : peers) text += str(text.empty() ? "rank " : ", ", name_of(peer));
  fail(str("waited ", comm_timeout(), " s (MXLITE_COMM_TIMEOUT) for ", text));
}

void TcpCommunicator::lose(int peer) {
  // Waits for the rendezvous to report which rank was lost first, because the loss of this peer may
  // be a consequence.
  const Deadline deadline(kVerdictSeconds);
  const auto left = [&] { return job_->has_left(name_of(peer)); };
  while (!state_->failed() && !deadline.over() && !left())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  check();
  fail(str("rank ", name_of(peer), left() ? " has left the job" : " has closed its connection"));
}

void TcpCommunicator::disagree(int peer, const MessageHeader& came) {
  const uint64_t mine = signature_of(operation_);
  if (came.signature == mine && came.number == number_)
    fail(str("rank ", name_of(peer), " must send as many bytes as this rank receives, got ",
             came.bytes));
  fail(str("ranks disagree: rank ", name_of(rank_), " calls ", signature_text(mine), " number ",
           number_, ", rank ", name_of(peer), " calls ", signature_text(came.signature), " number ",
           came.number));
}

void TcpCommunicator::show_all(Transfers& t, const void* input, void* output, int64_t count,
                               DType dtype, ReduceOp op) {
  const size_t bytes = static_cast<size_t>(count) * dtype_size(dtype);
  scratch_.resize(bytes * static_cast<size_t>(size_));
  std::vector<const void*> inputs(static_cast<size_t>(size_), input);
  each_peer([&](int r) {
    std::byte* place = scratch_.data() + static_cast<size_t>(r) * bytes;
    t.send(r, input, bytes);
    t.receive(r, place, bytes);
    inputs[static_cast<size_t>(r)] = place;
  });
  t.run();
  reduce_buffers(inputs, output, count, dtype, op);
}

// Reduces this rank's part over the inputs of all ranks. `output` has the size of the part.
void TcpCommunicator::reduce_part(Transfers& t, const std::byte* input, std::byte* output,
                                  std::span<const size_t> offsets, std::span<const size_t> bytes,
                                  DType dtype, ReduceOp op) {
  const auto me = static_cast<size_t>(rank_);
  scratch_.resize(bytes[me] * static_cast<size_t>(size_));
  std::vector<const void*> inputs(static_cast<size_t>(size_), input + offsets[me]);
  each_peer([&](int r) {
    const auto peer = static_cast<size_t>(r);
    std::byte* place = scratch_.data() + peer * bytes[me];
    t.send(r, input + offsets[peer], bytes[peer]);
    t.receive(r, place, bytes[me]);
    inputs[peer] = place;
  });
  t.run();
  reduce_buffers(inputs, output, static_cast<int64_t>(bytes[me] / dtype_size(dtype)), dtype, op);
}

// Sends this rank's part of `all` to the other ranks and receives their parts.
void TcpCommunicator::exchange_parts(Transfers& t, std::byte* all, std::span<const size_t> offsets,
                                     std::span<const size_t> bytes) {
  const auto me = static_cast<size_t>(rank_);
  each_peer([&](int r) {
    const auto peer = static_cast<size_t>(r);
    t.send(r, all + offsets[me], bytes[me]);
    t.receive(r, all + offsets[peer], bytes[peer]);
  });
  t.run();
}

void TcpCommunicator::all_reduce(const void* input, void* output, int64_t count, DType dtype,
                                 ReduceOp op) {
  const size_t width = dtype_size(dtype);
  const size_t total = static_cast<size_t>(count) * width;
  Transfers t = begin({CollectiveCall::kAllReduce, dtype, static_cast<uint8_t>(op), total});
  if (total <= kShowAllBytes) return show_all(t, input, output, count, dtype, op);
  const auto n = static_cast<size_t>(size_);
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  std::vector<size_t> offsets(n), bytes(n);
  for (size_t begin = 0; begin < total; begin += kBlockBytes) {
    const size_t elements = std::min(kBlockBytes, total - begin) / width;
    for (size_t r = 0; r < n; ++r) {
      offsets[r] = elements * r / n * width;
      bytes[r] = elements * (r + 1) / n * width - offsets[r];
    }
    reduce_part(t, in + begin, out + begin + offsets[static_cast<size_t>(rank_)], offsets, bytes,
                dtype, op);
    exchange_parts(t, out + begin, offsets, bytes);
  }
}

void TcpCommunicator::reduce_scatter(const void* input, void* output,
                                     std::span<const int64_t> counts, DType dtype, ReduceOp op) {
  const size_t width = dtype_size(dtype);
  std::vector<size_t> all(counts.size());
  for (size_t r = 0; r < counts.size(); ++r) all[r] = static_cast<size_t>(counts[r]) * width;
  const std::vector<size_t> begins = offsets_of(all);
  Transfers t =
      begin({CollectiveCall::kReduceScatter, dtype, static_cast<uint8_t>(op), hash_sizes(all)});
  const size_t largest = *std::max_element(all.begin(), all.end());
  std::vector<size_t> offsets(all.size()), bytes(all.size());
  for (size_t at = 0; at < largest; at += kBlockBytes) {
    for (size_t r = 0; r < all.size(); ++r) {
      const size_t from = std::min(all[r], at);
      offsets[r] = begins[r] + from;
      bytes[r] = std::min(all[r], at + kBlockBytes) - from;
    }
    const size_t done = std::min(all[static_cast<size_t>(rank_)], at);
    reduce_part(t, static_cast<const std::byte*>(input), static_cast<std::byte*>(output) + done,
                offsets, bytes, dtype, op);
  }
}

void TcpCommunicator::all_gather(const void* input, void* output, std::span<const size_t> bytes) {
  Transfers t = begin({CollectiveCall::kAllGather, DType::kUInt8, 0, hash_sizes(bytes)});
  const std::vector<size_t> offsets = offsets_of(bytes);
  auto* out = static_cast<std::byte*>(output);
  const auto me = static_cast<size_t>(rank_);
  move_bytes(out + offsets[me], input, bytes[me]);
  exchange_parts(t, out, offsets, bytes);
}

void TcpCommunicator::broadcast(void* data, size_t bytes, int root) {
  MX_CHECK(root >= 0 && root < size_, "broadcast: root must be a rank below ", size_, ", got ",
           root);
  Transfers t =
      begin({CollectiveCall::kBroadcast, DType::kUInt8, static_cast<uint8_t>(root), bytes});
  if (bytes <= kDirectBroadcastBytes || size_ == 2) {
    if (rank_ == root)
      each_peer([&](int r) { t.send(r, data, bytes); });
    else
      t.receive(root, data, bytes);
    return t.run();
  }
  // The root sends one part to each rank. Each rank then sends its part to the other ranks.
  const auto n = static_cast<size_t>(size_);
  auto* all = static_cast<std::byte*>(data);
  const auto begin_of = [&](int r) { return bytes * static_cast<size_t>(r) / n; };
  const auto size_of = [&](int r) { return begin_of(r + 1) - begin_of(r); };
  if (rank_ == root)
    each_peer([&](int r) { t.send(r, all + begin_of(r), size_of(r)); });
  else
    t.receive(root, all + begin_of(rank_), size_of(rank_));
  t.run();
  each_peer([&](int r) {
    if (r != root) t.send(r, all + begin_of(rank_), size_of(rank_));
    if (rank_ != root) t.receive(r, all + begin_of(r), size_of(r));
  });
  t.run();
}

void TcpCommunicator::all_to_all(const void* input, std::span<const size_t> send, void* output,
                                 std::span<const size_t> receive) {
  Transfers t = begin({CollectiveCall::kAllToAll});
  const std::vector<size_t> from = offsets_of(send), to = offsets_of(receive);
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const auto me = static_cast<size_t>(rank_);
  move_bytes(out + to[me], in + from[me], send[me]);
  each_peer([&](int r) {
    const auto peer = static_cast<size_t>(r);
    t.send(r, in + from[peer], send[peer]);
    t.receive(r, out + to[peer], receive[peer]);
  });
  t.run();
}

// Forms a group. Collective over its members.
std::unique_ptr<Communicator> form(const std::shared_ptr<Job>& job, uint64_t id,
                                   std::vector<int> members) {
  const auto state = std::make_shared<GroupState>(id, std::move(members));
  job->watch(state);
  try {
    std::vector<Socket> sockets = job->connect(*state);
    return std::make_unique<TcpCommunicator>(job, state, std::move(sockets));
  } catch (const std::exception& e) {  // reports the error, so that the other members do not wait
                                       // for this one
    state->fail(e.what(), /*announce=*/true);
    job->wake();
    throw;
  }
}

std::unique_ptr<Communicator> TcpCommunicator::split(int color, int key) {
  struct Wish {
    int64_t color, key, rank;
  };
  const Wish mine{color, key, rank_};
  std::vector<Wish> wishes(static_cast<size_t>(size_));
  all_gather(&mine, wishes.data(), std::vector<size_t>(wishes.size(), sizeof mine));
  const uint64_t seed[] = {state_->id, ++splits_, static_cast<uint64_t>(color)};
  if (color < 0) return nullptr;
  std::erase_if(wishes, [&](const Wish& w) { return w.color != color; });
  std::sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
    return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
  });
  if (wishes.size() == 1) return make_local_communicator();
  std::vector<int> members;
  for (const Wish& w : wishes) members.push_back(name_of(static_cast<int>(w.rank)));
  return form(job_, sip_hash(kGroupKey, std::as_bytes(std::span(seed))), std::move(members));
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Job> job) {
  std::vector<int> members(static_cast<size_t>(job->size()));
  std::iota(members.begin(), members.end(), 0);
  return form(job, /*id=*/1, std::move(members));
}

}  // namespace mxlite::tcp
