#include "cpp/kvstore/comm/shm/shm_communicator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/shm/direct.h"

namespace mxlite::shm {
namespace {

void move_bytes(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  if (bytes >= kStreamBytes)
    copy_streaming(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(std::shared_ptr<SharedSegment> segment, int rank, std::vector<int> members)
      : channel_(std::move(segment), rank, std::move(members)),
        rank_(rank),
        size_(channel_.size()),
        direct_(channel_) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "shm"; }
  void describe(std::string what) override { channel_.describe(std::move(what)); }
  void fail_all(const char* reason) noexcept override { channel_.fail_others(reason); }
  void end_hung_ranks() noexcept override { channel_.end_hung_ranks(); }
  Channel& channel() { return channel_; }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    const size_t bytes = static_cast<size_t>(count) * dtype_size(dtype);
    channel_.begin({Call::kAllReduce, dtype, static_cast<uint8_t>(op), bytes});
    if (bytes >= kDirectBytes && size_ > 1 && direct_.all_reduce(input, output, count, dtype, op))
      return;
    shm::all_reduce(channel_, input, output, count, dtype, op);
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override;
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override;
  void broadcast(void* data, size_t bytes, int root) override;
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override;
  void barrier() override {
    channel_.begin({Call::kBarrier});
    channel_.wait_all(channel_.publish());
  }
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  // Calls produce(k, own buffer) for each round k, and consume(k, r, buffer of r) for each round
  // and each other rank r. Produces round k + 1 before it consumes round k.
  template <class Produce, class Consume>
  void rounds(size_t count, Produce&& produce, Consume&& consume) {
    int current = 0, next = 0;
    uint32_t step = 0, next_step = 0;
    for (size_t k = 0; k <= count; ++k) {
      current = next;
      step = next_step;
      if (k < count) {
        next = channel_.acquire();
        produce(k, channel_.mine(next));
        next_step = channel_.publish();
        channel_.free_after(next, next_step + (k + 1 < count ? 2 : 1));
      }
      if (k == 0) continue;
      for (int i = 1; i < size_; ++i) {  // each rank starts with another peer
        const int r = (rank_ + i) % size_;
        channel_.wait(r, step);
        consume(k - 1, r, channel_.of(r, current));
      }
    }
  }
  std::vector<SegmentName> exchange_names(const SegmentName& mine);

  Channel channel_;
  const int rank_;
  const int size_;
  DirectCollectives direct_;
};

void ShmCommunicator::reduce_scatter(const void* input, void* output,
                                     std::span<const int64_t> counts, DType dtype, ReduceOp op) {
  const size_t width = dtype_size(dtype);
  std::vector<size_t> bytes(counts.size());
  for (size_t r = 0; r < counts.size(); ++r) bytes[r] = static_cast<size_t>(counts[r]) * width;
  const std::vector<size_t> offsets = offsets_of(bytes);
  channel_.begin({Call::kReduceScatter, dtype, static_cast<uint8_t>(op), hash_sizes(bytes)});
  // If input and output are equal, the sums would overwrite parts that other ranks have not read
  // yet.
  const void* readable = input == output ? nullptr : input;
  if (offsets.back() + bytes.back() >= kDirectBytes && size_ > 1 &&
      direct_.reduce_scatter(readable, output, bytes, dtype, op))
    return;
  const size_t piece = channel_.buffer_bytes() / static_cast<size_t>(size_) / 64 * 64;
  const size_t largest = *std::max_element(bytes.begin(), bytes.end());
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const auto piece_of = [&](size_t k, int r) {
    const size_t total = bytes[static_cast<size_t>(r)];
    const size_t begin = std::min(total, k * piece);
    return std::pair(begin, std::min(total, begin + piece) - begin);
  };
  std::vector<const void*> inputs(static_cast<size_t>(size_));
  int seen = 0;
  rounds((largest + piece - 1) / piece,
         [&](size_t k, std::byte* buffer) {
           for (int r = 0; r < size_; ++r) {
             const auto [begin, n] = piece_of(k, r);
             if (r != rank_)
               std::memcpy(buffer + static_cast<size_t>(r) * piece,
                           in + offsets[static_cast<size_t>(r)] + begin, n);
           }
         },
         [&](size_t k, int r, const std::byte* buffer) {
           inputs[static_cast<size_t>(r)] = buffer + static_cast<size_t>(rank_) * piece;
           if (++seen < size_ - 1) return;
           seen = 0;
           const auto [begin, n] = piece_of(k, rank_);
           inputs[static_cast<size_t>(rank_)] = in + offsets[static_cast<size_t>(rank_)] + begin;
           reduce_buffers(inputs, out + begin, static_cast<int64_t>(n / width), dtype, op);
         });
}

void ShmCommunicator::all_gather(const void* input, void* output, std::span<const size_t> bytes) {
  channel_.begin({Call::kAllGather, DType::kUInt8, 0, hash_sizes(bytes)});
  const std::vector<size_t> offsets = offsets_of(bytes);
  const size_t piece = channel_.buffer_bytes();
  const size_t largest = *std::max_element(bytes.begin(), bytes.end());
  auto* out = static_cast<std::byte*>(output);
  const auto me = static_cast<size_t>(rank_);
  // The input may be exactly this rank's part of the output. Otherwise input and output must not
  // overlap.
  move_bytes(out + offsets[me], input, bytes[me]);
  if (offsets.back() + bytes.back() >= kDirectBytes && size_ > 1 &&
      direct_.all_gather(input, output, bytes))
    return;
  const auto piece_of = [&](size_t k, size_t r) {
    const size_t begin = std::min(bytes[r], k * piece);
    return std::pair(begin, std::min(bytes[r], begin + piece) - begin);
  };
  rounds((largest + piece - 1) / piece,
         [&](size_t k, std::byte* buffer) {
           const auto [begin, n] = piece_of(k, me);
           std::memcpy(buffer, out + offsets[me] + begin, n);
         },
         [&](size_t k, int r, const std::byte* buffer) {
           const auto [begin, n] = piece_of(k, static_cast<size_t>(r));
           std::memcpy(out + offsets[static_cast<size_t>(r)] + begin, buffer, n);
         });
}

void ShmCommunicator::broadcast(void* data, size_t bytes, int root) {
  MX_CHECK(root >= 0 && root < size_, "broadcast: root must be a rank below ", size_, ", got ",
           root);
  channel_.begin({Call::kBroadcast, DType::kUInt8, static_cast<uint8_t>(root), bytes});
  if (bytes >= kDirectBytes && size_ > 1 && direct_.broadcast(data, bytes, root)) return;
  const size_t piece = channel_.buffer_bytes();
  auto* all = static_cast<std::byte*>(data);
  const auto size_of = [&](size_t k) { return std::min(piece, bytes - k * piece); };
  rounds((bytes + piece - 1) / piece,
         [&](size_t k, std::byte* buffer) {
           if (rank_ == root) std::memcpy(buffer, all + k * piece, size_of(k));
         },
         [&](size_t k, int r, const std::byte* buffer) {
           if (r == root) std::memcpy(all + k * piece, buffer, size_of(k));
         });
}

void ShmCommunicator::all_to_all(const void* input, std::span<const size_t> send, void* output,
                                 std::span<const size_t> receive) {
  const auto n = static_cast<size_t>(size_);
  // The largest number of bytes that any rank sends to another rank determines the number of
  // rounds.
  std::vector<size_t> matrix(n * n);
  const std::vector<size_t> row(n, n * sizeof(size_t));
  all_gather(send.data(), matrix.data(), row);
  channel_.begin({Call::kAllToAll, DType::kUInt8, 0, hash_sizes(matrix)});
  const std::vector<size_t> from = offsets_of(send), to = offsets_of(receive);
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const auto me = static_cast<size_t>(rank_);
  for (size_t r = 0; r < n; ++r)
    MX_CHECK(matrix[r * n + me] == receive[r], "all_to_all: rank ",
             channel_.name_of(static_cast<int>(r)), " sends ", matrix[r * n + me], " bytes, rank ",
             channel_.name_of(rank_), " expects ", receive[r]);
  std::memcpy(out + to[me], in + from[me], send[me]);
  const size_t piece = channel_.buffer_bytes() / n / 64 * 64;
  const size_t largest = *std::max_element(matrix.begin(), matrix.end());
  const auto piece_of = [&](size_t k, size_t total) {
    const size_t begin = std::min(total, k * piece);
    return std::pair(begin, std::min(total, begin + piece) - begin);
  };
  rounds((largest + piece - 1) / piece,
         [&](size_t k, std::byte* buffer) {
           for (size_t r = 0; r < n; ++r) {
             const auto [begin, bytes] = piece_of(k, send[r]);
             if (r != me) std::memcpy(buffer + r * piece, in + from[r] + begin, bytes);
           }
         },
         [&](size_t k, int r, const std::byte* buffer) {
           const auto [begin, bytes] = piece_of(k, receive[static_cast<size_t>(r)]);
           std::memcpy(out + to[static_cast<size_t>(r)] + begin, buffer + me * piece, bytes);
         });
}

std::vector<SegmentName> ShmCommunicator::exchange_names(const SegmentName& mine) {
  std::vector<SegmentName> names(static_cast<size_t>(size_));
  const std::vector<size_t> bytes(names.size(), sizeof(SegmentName));
  all_gather(&mine, names.data(), bytes);
  return names;
}

std::unique_ptr<Communicator> ShmCommunicator::split(int color, int key) {
  struct Wish {
    int64_t color, key, rank;
  };
  const Wish mine{color, key, rank_};
  std::vector<Wish> wishes(static_cast<size_t>(size_));
  const std::vector<size_t> bytes(wishes.size(), sizeof(Wish));
  all_gather(&mine, wishes.data(), bytes);
  std::erase_if(wishes, [&](const Wish& w) { return w.color != color; });
  std::sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
    return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
  });
  const auto place =
      std::find_if(wishes.begin(), wishes.end(), [&](const Wish& w) { return w.rank == rank_; });
  const int rank = static_cast<int>(place - wishes.begin());
  const int ranks = static_cast<int>(wishes.size());
  const bool member = color >= 0;
  SegmentName name;
  std::shared_ptr<SharedSegment> segment;
  if (member && rank == 0 && ranks > 1)
    segment = SharedSegment::create(ranks, default_buffer_bytes(ranks), name);
  const std::vector<SegmentName> names = exchange_names(name);
  std::unique_ptr<Communicator> group;
  if (member && ranks == 1) {
    group = make_local_communicator();
  } else if (member) {
    if (rank != 0) segment = SharedSegment::open(names[static_cast<size_t>(wishes[0].rank)], ranks);
    MX_CHECK_KIND(segment, ErrorKind::kCommunicator, name.error);
    std::vector<int> members;  // ranks in the job, for errors of the group
    for (const Wish& w : wishes) members.push_back(channel_.name_of(static_cast<int>(w.rank)));
    group = std::make_unique<ShmCommunicator>(segment, rank, std::move(members));
  }
  barrier();  // after the barrier, all ranks have joined or the failure is known
  if (segment && rank == 0) segment->unlink();
  return group;
}

}  // namespace

size_t default_buffer_bytes(int ranks) {
  const size_t wanted = size_t{256} << 10;  // three such buffers for each of a few ranks fit into
                                            // the caches
  const size_t total = size_t{256} << 20;
  const size_t fair = total / kBuffers / static_cast<size_t>(ranks);
  return std::max(std::min(wanted, fair), static_cast<size_t>(ranks) * 1024) / 4096 * 4096;
}

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<SharedSegment> segment, int rank,
                                                std::vector<int> members) {
  auto made = std::make_unique<ShmCommunicator>(segment, rank, std::move(members));
  made->channel().wait_arrival();
  if (rank == 0) segment->unlink();
  return made;
}

}  // namespace mxlite::shm
