// Small arrays: each rank publishes its whole array and reduces the arrays of all ranks. Large
// arrays are reduced block by block: each rank publishes the parts that other ranks reduce, reduces
// its own part from all ranks, publishes the result, and copies the results of the other ranks.
// Inputs are reduced in the order of ranks, so the result has the same bits on all ranks.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpp/base/cache_line.h"
#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite::shm {
namespace {

constexpr size_t kShowAllBytes = size_t{16} << 10;

struct Array {
  const std::byte* input;
  std::byte* output;
  int64_t count;
  DType dtype;
  ReduceOp op;
  size_t width() const { return dtype_size(dtype); }
};

void show_all(Channel& channel, const Array& a) {
  const size_t bytes = static_cast<size_t>(a.count) * a.width();
  const int buffer = channel.acquire();
  if (bytes > 0) std::memcpy(channel.mine(buffer), a.input, bytes);  // an empty array has no data
  const uint32_t step = channel.publish();
  channel.free_after(buffer, step + 1);
  channel.wait_all(step);
  std::vector<const void*> inputs(static_cast<size_t>(channel.size()));
  for (int r = 0; r < channel.size(); ++r)
    inputs[static_cast<size_t>(r)] = r == channel.rank() ? a.input : channel.of(r, buffer);
  reduce_buffers(inputs, a.output, a.count, a.dtype, a.op);
}

// One block of the array. It is divided among the ranks in whole cache lines.
class Block {
 public:
  Block(const Array& a, int ranks, int64_t first, int64_t count)
      : first_(first), count_(count), width_(a.width()) {
    const auto line = static_cast<int64_t>(kCacheLineBytes / width_);
    part_ = (count + ranks - 1) / ranks;
    part_ = (part_ + line - 1) / line * line;
  }
  int64_t begin(int r) const { return std::min(count_, part_ * r); }
  int64_t size(int r) const { return std::min(count_, part_ * (r + 1)) - begin(r); }
  size_t bytes(int r) const { return static_cast<size_t>(size(r)) * width_; }
  // Returns the byte offset of rank r's part in the buffer.
  size_t shown_at(int r) const { return static_cast<size_t>(begin(r)) * width_; }
  // Returns the byte offset of rank r's part in the array.
  size_t array_at(int r) const { return static_cast<size_t>(first_ + begin(r)) * width_; }

 private:
  int64_t first_, count_, part_ = 0;
  size_t width_;
};

struct InFlight {
  int buffer = 0;
  uint32_t shown = 0, reduced = 0;  // numbers of the steps that publish the inputs and the reduced
                                    // part
};

class BlockwiseAllReduce {
 public:
  BlockwiseAllReduce(Channel& channel, const Array& array) : channel_(channel), a_(array) {
    const size_t total = static_cast<size_t>(a_.count) * a_.width();
    // Divides the array into at least a few blocks, so that copying overlaps with waiting.
    size_t block_bytes = std::min(channel.buffer_bytes(), std::max(total / 4, kShowAllBytes));
    block_ =
        static_cast<int64_t>(block_bytes / (kCacheLineBytes * static_cast<size_t>(channel.size())) *
                             kCacheLineBytes * static_cast<size_t>(channel.size()) / a_.width());
    blocks_ = (a_.count + block_ - 1) / block_;
    stream_ = total >= kStreamBytes;
    inputs_.resize(static_cast<size_t>(channel.size()));
  }

  void run() {
    show(0);
    for (int64_t k = 0; k < blocks_; ++k) {
      if (k + 1 < blocks_) show(k + 1);
      reduce(k);
      if (k > 0) take(k - 1);
    }
    take(blocks_ - 1);
  }

 private:
  Block block(int64_t k) const {
    const int64_t first = k * block_;
    return {a_, channel_.size(), first, std::min(block_, a_.count - first)};
  }
  InFlight& flight(int64_t k) { return flights_[static_cast<size_t>(k % kBuffers)]; }

  void show(int64_t k) {
    const Block b = block(k);
    InFlight& f = flight(k);
    f.buffer = channel_.acquire();
    std::byte* mine = channel_.mine(f.buffer);
    for (int r = 0; r < channel_.size(); ++r)
      if (r != channel_.rank())
        std::memcpy(mine + b.shown_at(r), a_.input + b.array_at(r), b.bytes(r));
    f.shown = channel_.publish();
  }

  void reduce(int64_t k) {
    const Block b = block(k);
    InFlight& f = flight(k);
    channel_.wait_all(f.shown);
    const int me = channel_.rank();
    for (int r = 0; r < channel_.size(); ++r)
      inputs_[static_cast<size_t>(r)] =
          r == me ? a_.input + b.array_at(me) : channel_.of(r, f.buffer) + b.shown_at(me);
    reduce_buffers(inputs_, a_.output + b.array_at(me), channel_.mine(f.buffer) + b.shown_at(me),
                   b.size(me), a_.dtype, a_.op);
    f.reduced = channel_.publish();
  }

  void take(int64_t k) {
    const Block b = block(k);
    InFlight& f = flight(k);
    channel_.wait_all(f.reduced);
    for (int r = 0; r < channel_.size(); ++r) {
      if (r == channel_.rank()) continue;
      const std::byte* from = channel_.of(r, f.buffer) + b.shown_at(r);
      std::byte* to = a_.output + b.array_at(r);
      stream_ ? copy_streaming(to, from, b.bytes(r)) : void(std::memcpy(to, from, b.bytes(r)));
    }
    channel_.free_after(f.buffer, channel_.publish());
  }

  Channel& channel_;
  const Array& a_;
  int64_t block_ = 0, blocks_ = 0;  // elements per block, and number of blocks
  bool stream_ = false;
  std::array<InFlight, kBuffers> flights_;
  std::vector<const void*> inputs_;
};

}  // namespace

void all_reduce(Channel& channel, const void* input, void* output, int64_t count, DType dtype,
                ReduceOp op) {
  const Array array{static_cast<const std::byte*>(input), static_cast<std::byte*>(output), count,
                    dtype, op};
  const size_t bytes = static_cast<size_t>(count) * dtype_size(dtype);
  if (bytes <= std::min(kShowAllBytes, channel.buffer_bytes()))
    show_all(channel, array);
  else
    BlockwiseAllReduce(channel, array).run();
}

}  // namespace mxlite::shm
